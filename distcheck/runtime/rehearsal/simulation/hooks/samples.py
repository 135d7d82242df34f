"""Watches the loaders of a rank, with :mod:`distcheck.runtime.coordination.loader_hooks`: all batches of all passes."""

from __future__ import annotations

from distcheck.runtime.coordination import loader_hooks
from distcheck.runtime.coordination.loader_watcher import RecordLimits
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Watch this process; where it is watched already (a fork), for another event_log from now on."""
    loader_hooks.install(event_log, RecordLimits(epoch_steps=plan.epoch_steps))
