"""Log what replicas and copies of models hold right before optimizer steps, how gradients are reduced, and idle steps.

What observes them is shared with *watch*: :mod:`distcheck.runtime.coordination.training`.
"""

from __future__ import annotations

from typing import Any

from distcheck.runtime.coordination import loader_hooks
from distcheck.runtime.coordination.clipping import ClippedGradients
from distcheck.runtime.coordination.copy_observer import CopyObserver
from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.coordination.training import TrainingObserver
from distcheck.runtime.coordination.updates import BRIEF, IdleOptimizer, ScheduleBurst
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

from . import inputs

#: Steps of one optimizer that are all compared, and of how many one is after these.
_FIRST_STEPS, _EVERY = 12, 8
#: What is written; what was not waited for is seen by another hook.
_KINDS: dict[type, str] = {IdleOptimizer: "idle", ScheduleBurst: "burst", ClippedGradients: "clipped"}


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``training.*`` and ``inputs.step``."""
    copies = CopyObserver(lambda: -1 if event_log.rank is None else event_log.rank)
    copies.divided = loader_hooks.divides_models
    observer = TrainingObserver(
        event_log.calls, _EVERY, digests=True, first=_FIRST_STEPS, patience=BRIEF, copies=copies
    )  # fmt: skip
    observer.install()
    inputs.install(event_log, copies)

    def write(*_: Any, final: bool = False) -> None:
        for kind, rows in (("row", observer.rows), ("copy", copies.rows), ("reduction", observer.reductions)):
            while rows:
                event_log.note(f"training.{kind}", place=("", ""), row=rows.popleft())
        for found in observer.found(final=final):
            kind = _KINDS.get(type(found), "")
            if kind:
                event_log.note(f"training.{kind}", place=("", ""), found=found)

    def write_last() -> None:
        write(final=True)
        event_log.note("training.copies", place=("", ""), last=copies.last())
        for error in (observer.error, observer.reduction_error):
            if "Error" in error:
                event_log.note("stage.hook_failed", place=("", ""), hook="training", why=error)

    when_imported("torch.optim.optimizer", lambda module: module.register_optimizer_step_post_hook(write))
    event_log.at_end.append(write_last)
