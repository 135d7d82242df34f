"""What a worker is doing, in memory that it shares with its supervisor: written without waiting, read at any time.

No message and no lock stands between them, so that a worker that is stuck, stopped or dead can still be asked.
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
    """What stands on a board."""

    step: Step
    #: steps begun so far
    steps: int
    #: seconds since this one began
    seconds: float


class ProgressTable:
    """One worker's board.

    :param memory: ``SIZE`` bytes that both processes see
    """

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._steps = 0

    def write(self, step: Step) -> None:
        """The worker begins a step."""
        self._steps += 1
        text = f"{step.phase}\0{step.collective}\0{step.dtype}\0{step.size_bytes}".encode()[:_TEXT]
        view = memoryview(self._memory).cast("B")
        view[_HEAD.size : _HEAD.size + len(text)] = text
        _HEAD.pack_into(view, 0, time.monotonic(), self._steps, len(text))

    def read(self) -> StepProgress:
        """What the supervisor sees; before the first step it is an empty one."""
        view = memoryview(self._memory).cast("B")
        begun, steps, length = _HEAD.unpack_from(view, 0)
        parts = bytes(view[_HEAD.size : _HEAD.size + length]).decode("utf-8", "replace").split("\0")
        if steps == 0 or len(parts) != 4:
            return StepProgress(Step(""), steps, 0.0)
        size = int(parts[3]) if parts[3].isdigit() else 0
        return StepProgress(Step(parts[0], parts[1], parts[2], size), steps, max(0.0, time.monotonic() - begun))
