"""The position of a rank, read by the side thread at any moment of the script."""

from __future__ import annotations

import sys
import types

import pytest

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.rank_state import RankStateReader


def test_a_position_while_the_script_imports_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module exists before its functions do."""
    monkeypatch.setitem(sys.modules, "torch.cuda", types.ModuleType("torch.cuda"))
    assert RankStateReader(CallRecorder(), 1.0).now(0).state == "computing"
