"""The position of a rank, read by the side thread at any moment of the script."""

from __future__ import annotations

import sys
import threading
import time
import types

import pytest

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.model import CollectiveCall, RecordedCall
from distcheck.runtime.coordination.rank_state import RankStateReader


def test_a_position_while_the_script_imports_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module exists before its functions do."""
    monkeypatch.setitem(sys.modules, "torch.cuda", types.ModuleType("torch.cuda"))
    assert RankStateReader(CallRecorder(), 1.0).now(0).state == "computing"


def test_a_call_after_the_end_of_the_script() -> None:
    """An exit handler calls a collective: this rank waits for others, as before its end."""
    recorder = CallRecorder()
    reader = RankStateReader(recorder, 1.0)
    before = RecordedCall(CollectiveCall(1, "barrier"), time.monotonic(), 0)
    reader.ended("finished", 0)
    main = threading.get_ident()
    recorder.inside[main] = before  # one that the end of the script interrupted
    assert reader.now(0).state == "finished"
    recorder.inside[main] = before._replace(at=time.monotonic())
    assert reader.now(0).state == "waiting"
    del recorder.inside[main]
    assert reader.now(0).state == "finished"
