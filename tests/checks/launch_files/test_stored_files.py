"""Launch files as bytes: the same values come back, unless another file that they rest on has changed."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from distcheck.checks.launch_files import engine
from distcheck.checks.launch_files.model import LaunchFile
from distcheck.checks.launch_files.stored_files import RecordedLookUps, StoredFile, from_bytes, to_bytes
from tests.launch.cases import Case, all_cases, judge_case

SOURCING = b"#!/bin/bash\nsource env.sh\nsource missing.sh\ntorchrun --nproc-per-node $N train.py\n"
OTHERS = {"env.sh": b"export N=8\n"}


def stored() -> bytes:
    recorded = RecordedLookUps(OTHERS.get)
    return to_bytes(engine.read_one("job.sh", SOURCING, recorded), recorded)


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_every_file_of_the_cases_comes_back(case: Case) -> None:
    for file in judge_case(case).files:
        found = from_bytes(to_bytes(file, RecordedLookUps(OTHERS.get)), OTHERS.get)
        assert found == StoredFile(file)


def test_a_file_is_used_while_the_files_that_it_names_are_the_same() -> None:
    found = from_bytes(stored(), OTHERS.get)
    assert found is not None and isinstance(found.file, LaunchFile)
    assert found.file.sites[0].words[-2].text == "8"


@pytest.mark.parametrize(
    "others",
    [
        {"env.sh": b"export N=4\n"},
        {},
        {**OTHERS, "missing.sh": b"export N=2\n"},
    ],
    ids=["changed", "deleted", "added"],
)
def test_a_file_is_not_used_if_one_that_it_names_has_changed(others: dict[str, bytes]) -> None:
    assert from_bytes(stored(), others.get) is None


def test_that_a_file_is_no_launch_file_is_stored_too() -> None:
    assert from_bytes(to_bytes(None, RecordedLookUps(OTHERS.get)), OTHERS.get) == StoredFile(None)


class _Runs:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return print, ("loaded",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        pickle.dumps(({}, _Runs())),
        pickle.dumps(({}, "text")),
        pickle.dumps(3),
        pickle.dumps((["env.sh"], None)),
    ],
)
def test_other_bytes_are_not_used(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert from_bytes(data, OTHERS.get) is None
    assert capsys.readouterr().out == ""


def test_damaged_bytes_are_not_used() -> None:
    assert from_bytes(stored()[:-20], OTHERS.get) is None
