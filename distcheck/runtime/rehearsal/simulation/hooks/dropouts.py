"""Log what dropout makes of its inputs: ranks that share out a model drop the same elements of the same input."""

from __future__ import annotations

from typing import Any

from distcheck.runtime.coordination.digests import Digests
from distcheck.runtime.coordination.patching import attach_to, harmless, wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

#: Calls that are written, and elements that an input has at least.
_MOST_CALLS, _LEAST = 64, 8


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``dropouts.call``."""
    attach_to("torch", event_log, "dropouts", lambda torch: _DropoutHook(event_log, torch).attach())


class _DropoutHook:
    """All calls of this process."""

    def __init__(self, event_log: EventLog, torch: Any) -> None:
        self.event_log = event_log
        self.torch = torch
        self.digests = Digests(torch)
        self.calls = 0

    def attach(self) -> None:
        wrap(self.torch.nn.functional, "dropout", self._dropout)

    def _dropout(self, real: Any, given: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        before = None
        torch = self.torch
        observed = training and 0 < p < 1 and self.calls < _MOST_CALLS and torch.is_grad_enabled()
        if observed and not torch.compiler.is_compiling() and torch._C._current_graph_task_id() == -1:
            with harmless(self.event_log, "dropouts.call"):
                if given.numel() >= _LEAST and given.layout is torch.strided and not hasattr(given, "device_mesh"):
                    varied = bool((given != given.reshape(-1)[0]).any())
                    before = [self.digests.of(given)[0], int(varied)]
        result = real(given, p, training, inplace)
        if before is not None:
            with harmless(self.event_log, "dropouts.call"):
                self.event_log.note("dropouts.call", number=self.calls, given=before, result=self.digests.of(result)[0])
                self.calls += 1
        return result
