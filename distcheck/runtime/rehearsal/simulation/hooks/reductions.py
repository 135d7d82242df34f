"""Log how gradients become those that an optimizer uses: rows ``reductions.step``, one for each gradient."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from distcheck.runtime.coordination.model import RecordedCall
from distcheck.runtime.coordination.patching import attach_to, harmless, wrap
from distcheck.runtime.coordination.reduction_observer import ReductionObserver
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``reductions.step``, one for each gradient."""
    attach_to("torch", event_log, "reductions", lambda torch: _ReductionHook(event_log, torch).attach())


class _ReductionHook:
    """All optimizers of this process."""

    def __init__(self, event_log: EventLog, torch: Any) -> None:
        self.event_log = event_log
        self.torch = torch
        self.observer = ReductionObserver(torch, self._safely)
        #: the script scales a loss
        self.scaled = False

    def attach(self) -> None:
        sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(self._before_step)
        self.event_log.calls.observe_arguments(self._on_call)
        attach_to(
            "torch.amp.grad_scaler", self.event_log, "reductions",
            lambda module: wrap(module, "GradScaler.scale", self._scales),
        )  # fmt: skip

    def _safely(self, do: Callable[[], None]) -> None:
        with harmless(self.event_log, "reductions.step"):
            do()

    def _scales(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        self.scaled = True
        return real(*args, **kwargs)

    def _on_call(self, recorded: RecordedCall, given: Mapping[str, Any], _: bool) -> None:
        with harmless(self.event_log, "reductions.step"):
            call = recorded.call
            self.observer.on_call(call, given.get("tensor"), len(self.event_log.calls.groups.get(call.group, ())))

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        if self.torch._C._current_graph_task_id() != -1:
            return
        with harmless(self.event_log, "reductions.step"):
            for one in self.observer.before_step(optimizer, rank=-1, place="", scaled=self.scaled):
                self.event_log.note(
                    "reductions.step", optimizer=one.optimizer, count=one.nth, name=one.name, entries=one.entries,
                    final=one.final, fresh=one.fresh, scaled=one.scaled,
                )  # fmt: skip
