"""The parent of a rehearsal: starts the ranks, follows them, ends them together, and collects their event logs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.core.model import grouped
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.coordination.model import Positions

from . import network, overlay, trackers
from .coordinator import RehearsalCoordinator
from .event_log import read_rows
from .output import PrefixedOutput, last_output
from .own_folders import MEMORY, OwnFolder, sweep
from .plan import End, Rehearsal, RehearsalPlan, write_plan
from .processes import AGENT, RehearsedProcess, end_all, start

#: Seconds between two checks of the processes.
_TICK_S = 0.1
#: Seconds that the others have to end by themselves, or to be found waiting, once a rank has ended with an error.
_GRACE_S = 10.0
#: Seconds that ranks go on for, where a hang would not be seen.
_BLIND_S = 60.0
#: Seconds that processes have to write their last rows after the request to stop.
_STOP_S = 3.0
#: Why a rehearsal was over: all ranks ended, they hang, one failed and the others don't end, time was
#: up, some do far fewer steps than others, the store could not be served.
ENDED, HUNG, FAILED, TIME = "ended", "stands", "failed", "time"
UNEVEN, NO_STORE = "uneven", "no store"


class RehearsalResult(NamedTuple):
    """A rehearsal that is over."""

    rehearsal: Rehearsal
    #: one of the constants above
    why: str
    #: where the ranks hang, or their calls differ; None if neither
    verdict: Positions | None
    #: what the processes printed, by number: standard output, standard error
    outputs: Mapping[int, tuple[str, str]]
    #: ranks that had not done their steps when the others had done twice as many
    unfinished: tuple[int, ...]
    #: what became of the files that the script wrote, a sentence
    written: str
    elapsed_s: float


class Signalled(BaseException):
    """This process received a signal to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def perform(
    plan: RehearsalPlan,
    base: Mapping[str, str],
    python: str,
    *,
    assigned: Mapping[str, str] = {},
    progress: Callable[[str], None] = lambda _: None,
    printed: Callable[[str], None] | None = None,
) -> RehearsalResult:
    """Rehearse. When this returns or raises, no process of the rehearsal runs and its folder is removed.

    :param base: the environment
    :param python: the interpreter that runs the ranks
    :param assigned: what the launch line sets for the job
    :param progress: takes the progress, now and then
    :param printed: takes what ranks print, line by line
    :raises Signalled: by SIGTERM or SIGHUP
    """
    for parent in (tempfile.gettempdir(), MEMORY):
        sweep(parent)
    private = OwnFolder()
    try:
        with _signals():
            return _Rehearsal(plan._replace(private=private.path), progress, printed).perform(base, assigned, python)
    finally:
        private.remove()


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the ranks first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: Any) -> None:
        raise Signalled(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Rehearsal:
    """One rehearsal while it goes on."""

    def __init__(
        self, plan: RehearsalPlan, progress: Callable[[str], None], printed: Callable[[str], None] | None
    ) -> None:
        self.plan = plan
        self.progress = progress
        self.printed = printed
        self.begun = time.time()
        self.started: list[RehearsedProcess] = []
        #: number → when its end was seen
        self.exited: dict[int, float] = {}
        self.failed_at: float | None = None
        #: those that ran when all were ended
        self.stopped: frozenset[int] = frozenset()
        self.coordinator = RehearsalCoordinator(plan)
        self._what = "node" if plan.launcher == "script" else "rank"

    def perform(self, base: Mapping[str, str], assigned: Mapping[str, str], python: str) -> RehearsalResult:
        plan = self.plan
        write_plan(plan, self.begun)
        offline = trackers.environment(base, plan.private)
        base = {name: value for name, value in {**base, **offline}.items() if value or name not in offline}
        apart = overlay.begin(plan, base, python)
        try:
            why = self._run(base, assigned, python)
            rows = read_rows(os.path.join(plan.private, "events"))
            left = apart.end(rows)
        finally:
            apart.remove()
        ranks = [one for one in self.started if one.number != AGENT]
        rehearsal = Rehearsal(plan, ends_of(plan, ranks, rows, self.stopped), rows)
        error = self.coordinator.error
        unjudged = (f"hangs and mismatched calls: their detection failed: {error}",) if error else ()
        rehearsal = rehearsal._replace(
            missed=(*unjudged, *left.notes, *trackers.notes(rehearsal), *network.notes(rehearsal))
        )
        return RehearsalResult(
            rehearsal, why, self.coordinator.verdict(),
            {one.number: (last_output(one.stdout), last_output(one.stderr)) for one in self.started},
            self.coordinator.unfinished(), left.text, time.time() - self.begun,
        )  # fmt: skip

    def _run(self, base: Mapping[str, str], assigned: Mapping[str, str], python: str) -> str:
        """Let the ranks run until the last of them has ended; return why it is over."""
        live: PrefixedOutput | None = None
        try:
            self.coordinator.start()
            # one by one, so that those are known to be ended that run when one can't be started
            self.started.extend(start(self.plan, base, assigned, python))
            live = None if self.printed is None else PrefixedOutput(self.started, self._what, self.printed)
            why = self._attend(live)
            if why != ENDED:
                self._stop(why)
        finally:
            end_all(self.started, self.plan.private)
            self.coordinator.close()
        if live is not None:
            live.look(last=True)
        return why

    def _attend(self, live: PrefixedOutput | None) -> str:
        """Wait until all have ended or nothing more can be observed; return why it is over."""
        uneven_since = blind_since = 0.0
        steps = _LoggedSteps(os.path.join(self.plan.private, "events"))
        while True:
            self._reap()
            if live is not None:
                live.look()
            self.progress(steps.text(self.plan))
            ranks = [one.number for one in self.started if one.number != AGENT]
            if all(number in self.exited for number in ranks):
                return HUNG if self.coordinator.verdict() is not None else ENDED
            now = time.time()
            if self.coordinator.verdict() is not None:
                return HUNG
            if self.failed_at is not None and now - self.failed_at > max(_GRACE_S, 3 * self.plan.hang_timeout_s):
                return FAILED
            if self.plan.seconds is not None and now - self.begun > self.plan.seconds:
                return TIME
            if AGENT in self.exited:
                return NO_STORE
            if self.coordinator.error:
                # a hang would not be detected
                blind_since = blind_since or now
                if now - blind_since > _BLIND_S:
                    return FAILED
            if self.coordinator.unfinished():
                uneven_since = uneven_since or now
                if now - uneven_since > _GRACE_S / 2:
                    return UNEVEN
            time.sleep(_TICK_S)

    def _reap(self) -> None:
        for one in self.started:
            if one.number in self.exited or one.process.poll() is None:
                continue
            self.exited[one.number] = time.time()
            status = one.process.returncode
            if one.number == AGENT:
                continue
            if self.plan.launcher != "script":
                self.coordinator.gone(one.number, status)
            if status != 0 and self.failed_at is None:
                self.failed_at = time.time()

    def _stop(self, why: str) -> None:
        self.stopped = frozenset(one.number for one in self.started if one.number not in self.exited)
        self.coordinator.stop(why)
        until = time.monotonic() + _STOP_S
        while time.monotonic() < until:
            self._reap()
            if all(one.number in self.exited for one in self.started if one.number != AGENT):
                return
            time.sleep(_TICK_S)


class _LoggedSteps:
    """Reads the number of completed steps from the growing event logs.

    :param folder: of the event_logs
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        #: name of a event_log → bytes that were read, rank, steps
        self._read: dict[str, tuple[int, str, int]] = {}
        self._next = 0.0

    def text(self, plan: RehearsalPlan) -> str:
        """``step 2 of 3``, ``step 2 of 3, rank 1 at step 0``."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 5 * _TICK_S
            for name in os.listdir(self._folder):
                self._read_on(name)
        done = {rank: steps for _, rank, steps in self._read.values() if rank != "null"}
        most = max(done.values(), default=0)
        if not most:
            return "before the first step"
        slowest = min(done, key=lambda rank: (done[rank], int(rank)))
        limit = "" if plan.steps is None else f" of {plan.steps}"
        behind = f", rank {slowest} at step {done[slowest]}" if done[slowest] < most else ""
        return f"step {most if plan.steps is None else min(most, plan.steps)}{limit}{behind}"

    def _read_on(self, name: str) -> None:
        at, rank, count = self._read.get(name, (0, "null", 0))
        with open(os.path.join(self._folder, name), "rb") as file:
            file.seek(at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        for found in _ROW.finditer(whole):
            rank = found[2].decode() if found[2] != b"null" else rank
            count += found[1] == b"stage.step"
        self._read[name] = (at + len(whole), rank, count)


#: The beginning of a line of a event_log.
_ROW = re.compile(rb'^\["([^"]+)", (null|\d+)', re.MULTILINE)


def ends_of(
    plan: RehearsalPlan, started: list[RehearsedProcess], rows: tuple[LoggedEvent, ...], stopped: frozenset[int]
) -> tuple[End, ...]:
    """Return how each rank ended: by its own row, otherwise by the status of its process.

    :param started: the processes that are ranks, or start them
    :param stopped: the numbers of those that we have ended
    """
    by_pid = grouped(rows, lambda row: row.pid)
    if plan.launcher == "script":
        ours = {one.process.pid for one in started}
        ends = [
            _end(mine[0].rank, pid, mine, None) for pid, mine in by_pid.items()
            if pid not in ours and mine[0].rank is not None
        ]  # fmt: skip
        if ends:
            return tuple(sorted(ends))
    return tuple(
        _end(
            one.number, one.process.pid, by_pid.get(one.process.pid, []),
            None if one.number in stopped else one.process.returncode,
        )
        for one in sorted(started, key=lambda one: one.number)
    )  # fmt: skip


def _end(rank: int, pid: int, rows: list[LoggedEvent], status: int | None) -> End:
    """:param status: of the process; None where it is ours, or only its parent knows it"""
    ended = next((row for row in rows if row.kind == "stage.end"), None)
    steps = max((row.step for row in rows), default=0)
    if status is not None and status < 0:
        return End(rank, pid, "killed", status, steps)
    if ended is not None:
        known = ended.data["status"] if status is None else status
        return End(rank, pid, ended.data["how"], known, steps, ended.data["detail"], ended.place, ended.function)
    return End(rank, pid, "stopped", 0, steps) if status is None else End(rank, pid, "exited", status, steps)
