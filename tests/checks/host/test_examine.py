"""The report of a launch: what it shows of the launch itself."""

from __future__ import annotations

import pytest

from distcheck.checks.host.examine import examine, finish
from distcheck.core.model import Report
from distcheck.launch.model import Launch, LaunchCommand


def test_the_launch_is_shown_without_credentials_and_only_where_it_was_a_fact() -> None:
    argv = ("torchrun", "train.py", "--api-key=sk-0123456789abcdef0123456789")
    launch = Launch("planned", command=LaunchCommand("torchrun", argv=argv))
    report = finish(Report("env", facts={"Launch": launch, "Other": 1}), launch, None)
    assert report.stage == "planned"
    assert report.facts["Other"] == 1
    shown = report.facts["Launch"].command
    assert shown.argv[:2] == argv[:2]
    assert "sk-0123" not in str(shown.argv)
    assert finish(Report("env", facts={"Other": 1}), launch, None).facts == {"Other": 1}


def test_options_are_given_by_name() -> None:
    launch = Launch("planned")
    assert examine(launch=launch, world=None, facts={}).command == "env"
    with pytest.raises(TypeError, match="positional"):
        examine(launch, None, {})  # type: ignore[misc]
