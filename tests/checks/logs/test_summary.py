"""What is told of failures that no rule names: the check of a kernel, the node, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.logs.diagnose import diagnose, read_timeline

FOLDER = Path(__file__).parent


def story(name: str) -> dict[str, Any]:
    told = diagnose(read_timeline([str(FOLDER / name)])).story
    assert told is not None
    return told


def test_the_check_of_a_kernel_is_quoted() -> None:
    told = story("DC512/good_a_kernel_asserts.log")
    assert told["why"].endswith("Assertion `t >= 0 && t < n_classes` failed")
    assert "CUDA_LAUNCH_BLOCKING=1" in told["fix"]["text"]


def test_the_node_that_failed_is_named_and_not_the_one_that_tells_of_it() -> None:
    told = story("DC125/good_a_node_failed.log")
    assert told["guilty"] == {"host": "node17"} and told["why"].endswith("node17")
    assert "--exclude=node17" in told["fix"]["text"] and told["fix"]["where"] == "host"


@pytest.mark.parametrize("name", ["DC518/bad_a_shell_tells_of_the_survivor.log", "DC518/bad_unique_id_lost.log"])
def test_who_only_lost_others_is_not_guilty(name: str) -> None:
    told = story(name)
    assert told["outcome"] == "consequences" and told["guilty"] == {}
    assert "read the log of" in told["fix"]["text"]


def test_a_bar_before_another_ranks_words_is_quoted() -> None:
    why = story("DC726/bad_bars_before_the_watchdog.log")["why"]
    assert "another process was still at work" in why and "14 %" in why


def test_a_card_that_gave_up_is_no_port_that_went_down() -> None:
    assert "catastrophic" in story("DC414/bad_the_adapter_gives_up.log")["why"]
