"""The current step of a worker, in memory that it shares with its supervisor.

One process writes, another reads, without a lock: the supervisor reads the step of a worker that hangs, is stopped or
has exited. The calls of several ranks are compared in :mod:`distcheck.runtime.coordination.shared_table`.
"""

from __future__ import annotations

import struct
import time
from typing import Any, NamedTuple

from .model import Step

_HEAD = struct.Struct("=dIH")
_TEXT = 240
SIZE = _HEAD.size + _TEXT


class StepProgress(NamedTuple):
    """The step of a worker."""

    step: Step
    #: number of steps begun
    steps: int
    #: seconds since this step began
    seconds: float


class StepRecord:
    """The record of one worker.

    :param memory: ``SIZE`` bytes that both processes share
    """

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._steps = 0

    def write(self, step: Step) -> None:
        """Record that the worker begins a step."""
        self._steps += 1
        text = f"{step.phase}\0{step.collective}\0{step.dtype}\0{step.size_bytes}".encode()[:_TEXT]
        view = memoryview(self._memory).cast("B")
        view[_HEAD.size : _HEAD.size + len(text)] = text
        _HEAD.pack_into(view, 0, time.monotonic(), self._steps, len(text))

    def read(self) -> StepProgress:
        """Return the current step; before the first one an empty step."""
        view = memoryview(self._memory).cast("B")
        begun, steps, length = _HEAD.unpack_from(view, 0)
        parts = bytes(view[_HEAD.size : _HEAD.size + length]).decode("utf-8", "replace").split("\0")
        if steps == 0 or len(parts) != 4:
            return StepProgress(Step(""), steps, 0.0)
        size = int(parts[3]) if parts[3].isdigit() else 0
        return StepProgress(Step(parts[0], parts[1], parts[2], size), steps, max(0.0, time.monotonic() - begun))
