"""Log calls that failed while the script went on.

What observes them is shared with *watch*: :mod:`distcheck.runtime.coordination.failed_calls`.
"""

from __future__ import annotations

from distcheck.runtime.coordination.failed_calls import FailureObserver
from distcheck.runtime.coordination.patching import attach_to
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``failed_calls.caught``."""
    observer = FailureObserver(event_log.calls)
    attach_to("torch.autograd", event_log, "failed_calls", observer.attach_backward)

    def write() -> None:
        for found in observer.found():
            event_log.note("failed_calls.caught", place=("", ""), found=found)

    event_log.at_end.append(write)
