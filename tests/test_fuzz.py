"""Damaged files of each kind: no crash, no hang, nothing that runs, writes or connects."""

from __future__ import annotations

import os

import pytest

from . import fuzz


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("runs", [200, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_damaged_files_are_read_without_harm(name: str, runs: int) -> None:
    figures, failed = fuzz.fuzz(name, runs)
    assert (figures.crashes, figures.hangs, figures.executions) == (0, 0, 0), failed
    assert figures.parsed is None or figures.parsed > (0.5 if runs >= 10_000 else 0.4)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda _: os.system("true"), "execution: os.system"),
        (lambda _: os.open("/dev/null", os.O_WRONLY), "execution: open"),
        (lambda _: exec(compile("1", "/tmp/file.py", "exec")), "execution: exec"),
        (lambda data: data.decode("ascii"), "crash: UnicodeDecodeError"),
    ],
)
def test_the_hook_sees_harm(harm: object, why: str) -> None:
    assert (fuzz.one(harm, b"\xff") or "").startswith(why)  # type: ignore[arg-type]


def test_an_input_that_takes_too_long_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(_: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr(fuzz, "LIMIT_S", 0.2)
    assert fuzz.one(forever, b"") == "hang"
