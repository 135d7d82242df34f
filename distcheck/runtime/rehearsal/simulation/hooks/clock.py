"""A logical clock: counts of the events that make ranks wait for each other.

Wall-clock time can't order a write and a read of two ranks; a collective between them can.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from distcheck.runtime.coordination.frames import is_own
from distcheck.runtime.coordination.patching import stand_in
from distcheck.runtime.rehearsal.simulation.event_log import EventLog


class LogicalClock:
    """The counts of this process."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        #: grows with every default group that is made or destroyed: to make one, all wait for all
        self._life = 0
        self._group: object = None
        self._slept: dict[str, int] | None = None
        #: descriptors on which this process has requested a lock
        self._locks: set[int] = set()

    def now(self) -> dict[str, int]:
        """Return the counts.

        ``life``: how many default groups were created and destroyed; for each group the number of its last collective,
        as it counts itself, and (``group/calls``) its calls from Python, without sends and receives.
        """
        module: Any = sys.modules.get("torch.distributed.distributed_c10d")
        world = getattr(module, "_world", None)
        default = getattr(world, "default_pg", None)
        if default is not self._group:
            self._group = default
            self._life += 1
        found = {"life": self._life}
        if default is None:
            return found
        calls = self._event_log.calls
        for group, name in list(getattr(world, "pg_names", {}).items()):
            found[name] = calls.count(group, name)
        return found | {f"{name}/calls": calls.compared(name) for name in list(calls.groups)}

    @property
    def has_waited(self) -> bool:
        """Whether the script slept since the last collective: it may poll for a file."""
        return self._slept is not None and self._slept == self.now()

    @property
    def holds_a_lock(self) -> bool:
        """Whether this process holds a lock on a file."""
        return bool(self._locks)

    def watch(self) -> None:
        """Observe sleeps and file locks."""

        def sees(event: str, args: tuple[Any, ...]) -> None:
            if event == "time.sleep":
                self._sleeps()
            elif event in ("fcntl.flock", "fcntl.lockf"):
                self._lock(*args[:2])

        sys.addaudithook(sees)
        if sys.version_info < (3, 13):  # it makes no audit event
            sleep: Callable[[float], None] = time.sleep

            def sleeping(seconds: float) -> None:
                self._sleeps()
                sleep(seconds)

            time.sleep = stand_in(sleeping, sleep, time)

    def _lock(self, descriptor: int, operation: int) -> None:
        import fcntl

        if operation & fcntl.LOCK_UN:
            self._locks.discard(descriptor)
        else:
            self._locks.add(descriptor)

    def _sleeps(self) -> None:
        frame = sys._getframe(2)
        if not is_own(frame.f_code.co_filename) and "filelock" not in frame.f_code.co_filename:
            return
        try:
            self._slept = self.now()
        except Exception:  # noqa: BLE001 - the script must not fail because of us
            self._slept = None
