"""Log what replicas hold right before each optimizer step, and steps and schedules that change nothing.

What observes them is shared with *watch*: :mod:`distcheck.runtime.coordination.training`.
"""

from __future__ import annotations

from typing import Any

from distcheck.runtime.coordination.clipping import ClippedGradients
from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.coordination.training import TrainingObserver
from distcheck.runtime.coordination.updates import BRIEF, IdleOptimizer, ScheduleBurst
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

#: Steps of one optimizer that are all compared, and of how many one is after these.
_FIRST_STEPS, _EVERY = 12, 8
#: What is written; what was not waited for is seen by another hook.
_KINDS: dict[type, str] = {IdleOptimizer: "idle", ScheduleBurst: "burst", ClippedGradients: "clipped"}


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``training.row``, ``training.idle``, ``training.burst`` and ``training.clipped``."""
    observer = TrainingObserver(event_log.calls, _EVERY, digests=True, first=_FIRST_STEPS, patience=BRIEF)
    observer.install()

    def write(*_: Any, final: bool = False) -> None:
        while observer.rows:
            event_log.note("training.row", place=("", ""), row=observer.rows.popleft())
        for found in observer.found(final=final):
            kind = _KINDS.get(type(found))
            if kind is not None:
                event_log.note(f"training.{kind}", place=("", ""), found=found)

    def write_last() -> None:
        write(final=True)
        if observer.error and "Error" in observer.error:
            event_log.note("stage.hook_failed", place=("", ""), hook="training", why=observer.error)

    when_imported("torch.optim.optimizer", lambda module: module.register_optimizer_step_post_hook(write))
    event_log.at_end.append(write_last)
