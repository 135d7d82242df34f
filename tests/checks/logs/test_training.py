"""What a script did with its process group, as probes judge it from a timeline."""

from __future__ import annotations

import pytest

from distcheck.checks.logs.training import (
    ROWS,
    every_parameter_got_a_gradient,
    group_was_made_once,
    group_was_there_before_its_use,
)

from .made import SITE, code, found_by, said, timeline

_MISSING = "ValueError: Default process group has not been initialized, please make sure to call init_process_group."


@pytest.mark.parametrize(
    "line",
    [
        _MISSING,
        "RuntimeError: Default process group is not initialized",
        "AssertionError: tensor model parallel group is not initialized",
        "ValueError: Invalid process group specified or has been destroyed.",
        "AssertionError: DeepSpeed backend not set, please initialize it using init_process_group()",
    ],
)
def test_a_group_that_is_not_there(line: str) -> None:
    assert [(rule, word) for rule, word, _ in found_by(group_was_there_before_its_use, timeline(said(line)))] == [
        ("DC740", "error")
    ]


def test_the_users_line_is_named() -> None:
    inner = code(f"{SITE}/torch/distributed/distributed_c10d.py", "raise ValueError(", "_get_default_group", 1437)
    made = timeline(said(_MISSING, code("train.py", "sampler = DistributedSampler(data)", "build", 33), inner))
    (finding,) = group_was_there_before_its_use(made)
    assert finding.message.endswith(": train.py:33 in build")


def test_a_group_that_is_made_twice() -> None:
    line = "ValueError: trying to initialize the default process group twice!"
    assert [rule for rule, *_ in found_by(group_was_made_once, timeline(said(line)))] == ["DC741"]


@pytest.mark.parametrize("went_on", [True, False])
def test_a_group_that_nobody_destroyed_is_a_remark(went_on: bool) -> None:
    line = "Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL."
    assert [word for _, word, _ in found_by(ROWS["group_was_destroyed"], timeline(said(line), went_on=went_on))] == [
        "info"
    ]


def test_parameters_without_a_gradient_are_named() -> None:
    made = timeline(
        said("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."),
        said("Parameter indices which did not receive grad for rank 0: 2 3", line=4),
    )
    assert found_by(every_parameter_got_a_gradient, made) == [
        ("DC754", "error", "parameters of the model got no gradient in the step before: 2 3")
    ]


def test_a_needless_flag_is_a_remark() -> None:
    line = "find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the"
    assert [word for _, word, _ in found_by(every_parameter_got_a_gradient, timeline(said(line)))] == ["info"]
