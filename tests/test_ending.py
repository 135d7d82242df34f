"""How a process of ours ends where its streams are closed."""

from __future__ import annotations

import os
import sys

import pytest

from distcheck.ending import end_with


@pytest.mark.parametrize("device", [True, False])
def test_closed_streams_leave_the_status(device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not device:
        monkeypatch.setattr(os, "devnull", "/proc/no-such-device")
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    ended: list[int] = []

    def run() -> int:
        print("what nobody reads")
        return 3

    end_with(run, ended.append)
    assert ended == [3]
