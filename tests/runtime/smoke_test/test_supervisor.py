"""What a supervisor waits for before it reads where its workers are."""

from __future__ import annotations

import faulthandler
import os
from typing import Any

from distcheck.runtime.coordination.processes import private_file
from distcheck.runtime.smoke_test.supervisor import Worker

STACK = """\
Current thread 0x00007f2a (most recent call first):
  File "/opt/torch/distributed/distributed_c10d.py", line 2942 in all_reduce
  File "/opt/distcheck/runtime/smoke_test/live_group.py", line 88 in run
"""
START = '  File "/opt/distcheck/runtime/smoke_test/worker.py", line 95 in run\n'


def worker(stack_file: int | None) -> Any:
    return Worker(0, None, None, None, stack_file)  # type: ignore[arg-type]


def test_a_worker_has_answered_when_its_whole_stack_is_there() -> None:
    handle = private_file()
    try:
        one = worker(handle)
        os.write(handle, (STACK + START).encode())
        assert not one.answered
        one.recorder = ("all_reduce",)
        assert one.answered
        # the thread was first, and the signal handler has not run or not ended
        for part in ("", STACK):
            os.ftruncate(handle, 0)
            os.pwrite(handle, part.encode(), 0)
            assert not one.answered
    finally:
        os.close(handle)


def test_where_no_stack_can_be_had_the_recorder_is_enough() -> None:
    one = worker(None)
    one.recorder = ("all_reduce",)
    assert one.answered


def test_the_text_is_that_of_faulthandler() -> None:
    handle = private_file()
    try:
        faulthandler.dump_traceback(handle, all_threads=False)
        text = os.pread(handle, 20000, 0).decode()
    finally:
        os.close(handle)
    assert "(most recent call first)" in text and " in test_the_text_is_that_of_faulthandler\n" in text
