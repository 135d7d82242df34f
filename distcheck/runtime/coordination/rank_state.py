"""The state of this rank: its call and since when, its earlier calls, and the stack of its main thread."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

from .call_recorder import CallRecorder, rows
from .flight_recorder import latest, pending, recorded
from .frames import innermost_own, main_frame, stack_of
from .model import SETUP, UNSEEN, CollectiveCall, Frame, Position, RecordedCall
from .protocol import DetailRequest, packed_ranks
from .rank_info import RankInfo

#: Calls whose digests a heartbeat holds, and milestones of all of its groups together.
_DIGESTS, _MILESTONES = 16, 64
#: Calls, and call sites, that a detailed heartbeat holds.
_RECENT, _PLACES = 12, 50
#: Sends and receives with other sides and tags that a short heartbeat holds, if this rank waits.
_PAIRS = 64
#: Shares of one core and bytes a second below which a process is idle: gloo's threads use 0.3 % while they wait, and
#: heartbeats some kilobytes (torch 2.13).
_IDLE_CORES, _IDLE_BYTES = 0.02, 65_536.0
#: Frames of the user's code in a short heartbeat: enough to see the branch of a call.
_SHORT = 3
#: Files in which a thread waits for another thread of its process: it waits for what that one waits for.
_WAITS_FOR_THREADS = ("threading.py", "queue.py", os.path.join("concurrent", "futures", "_base.py"))


class RankStateReader:
    """Reads the state of one rank.

    :param recorder: the calls of the rank
    :param still_s: seconds without a step after which the main thread may wait for something that no Python called
    """

    def __init__(self, recorder: CallRecorder, still_s: float) -> None:
        self.recorder = recorder
        self.still_s = still_s
        #: unknown until :meth:`joined`
        self.rank_info = RankInfo(-1, 0)
        #: how it ended
        self.end: Position | None = None
        self._ended_at = 0.0
        #: samples, and those with an open collective
        self.looks = [0, 0]
        self._main = threading.main_thread().ident or 0
        self._pid = os.getpid()
        self._still: tuple[object, ...] = ()
        self._still_since = time.monotonic()
        #: time, CPU time and bytes at the last position, and since when this process is idle
        self._used = (self._still_since, 0.0, 0)
        self._idle_since = self._still_since
        #: the request at which the flight recorder was read, and its answer
        self._recorder_read_at: tuple[int, CollectiveCall | None] = (0, None)

    def joined(self, rank_info: RankInfo, still_s: float) -> None:
        """Take the rank of this process, which is known now."""
        self.rank_info, self.still_s = rank_info, still_s

    def ended(self, state: str, status: int, detail: str = "", stack: tuple[Frame, ...] = ()) -> None:
        """Record that the script ended; the next heartbeat, or the end of this process, reports it."""
        self._ended_at = time.monotonic()
        try:
            entered = self._entered()
            call = self._last_call(entered, stack)
        except Exception:  # noqa: BLE001 - the script's end must not suffer
            entered, call = dict(self.recorder.entered), None
        self.end = Position(
            self.rank_info.rank, self.rank_info.host, self._pid, state, call,
            self.recorder.done, 0.0, stack, status, detail,
            entered, self._recent(), self._places(), self._posted(),
        )  # fmt: skip

    def _last_call(self, entered: Mapping[str, int], stack: tuple[Frame, ...]) -> CollectiveCall | None:
        """Return the last call, of Python or C++; the exception shows the line of the latter."""
        if self.recorder.raised is not None:
            return self.recorder.raised
        note = next(rows(self.recorder), None)
        last, number = None if note is None else note.call, entered.get("0", 0)
        known = last.number if last is not None and last.group == "0" else 0
        # the calls for objects are two collectives
        if last is not None and (last.group not in ("0", SETUP) or number <= known + 1):
            return last
        if not number:
            return last
        frame = next((item for item in stack if item.own), None)
        return latest(self.recorder.joined, number)._replace(
            place=frame.place if frame else "", function=frame.function if frame else ""
        )

    def waiting_in(self, note: RecordedCall) -> Position:
        """Return the position in a call that is about to begin, and may never return."""
        return Position(
            self.rank_info.rank, self.rank_info.host, self._pid, "waiting", note.call, self.recorder.done, 0.0,
            stack_of(main_frame(self._main)), entered=self._entered(), places=self._places(), posted=self._posted(),
        )  # fmt: skip

    def gave_up(self) -> Position:
        return Position(self.rank_info.rank, self.rank_info.host, self._pid, detail="watch stopped on this rank")

    def now(self, request: int, *, detailed: bool = False) -> Position:
        """Return the position now.

        :param request: number of the request that a detailed position answers; 0: none
        :param detailed: a detailed position without a request; the flight recorder is not read
        """
        detailed = detailed or request > 0
        now = time.monotonic()
        recorder = self.recorder
        inside = recorder.inside.get(self._main)
        # an exit handler may wait for other ranks, too
        if self.end is not None and (inside is None or inside.at < self._ended_at):
            # a rank that is known late ended without a name
            return self.end._replace(rank=self.rank_info.rank, host=self.rank_info.host)
        frame = main_frame(self._main)
        still = (id(frame), getattr(frame, "f_lasti", 0), recorder.done)
        if still != self._still:
            self._still, self._still_since = still, now
        entered = self._entered()
        last = next(rows(recorder), None)
        call, state, since = (None if last is None else last.call), "computing", now - self._still_since
        open_one = pending(recorder.joined)
        self.looks[0] += 1
        self.looks[1] += inside is not None or open_one is not None
        if inside is not None:
            call, state, since = inside.call, "waiting", now - inside.at
        elif since >= self.still_s:
            waits_for_thread = frame is not None and frame.f_code.co_filename.endswith(_WAITS_FOR_THREADS)
            other = self._call_of_thread() if waits_for_thread else None
            if other is not None:
                call, state, since = other.call, "waiting", min(since, now - other.at)
            elif open_one is not None and not waits_for_thread:
                # a call without Python: DDP's reducer, Work.wait(), a synchronization with the device
                state, call = "waiting", self._call_without_python(open_one, frame, request)
        sends_pairs = detailed or (state == "waiting" and len(recorder.pairs.posted) <= _PAIRS)
        return Position(
            self.rank_info.rank, self.rank_info.host, self._pid, state, call, recorder.done, since,
            stack_of(frame) if detailed else _short(frame), None, "", entered,
            self._recent() if detailed else (), self._places() if detailed else {},
            self._posted() if sends_pairs else None, self._idle_s(now),
        )  # fmt: skip

    def _posted(self) -> dict[str, int] | None:
        """Return the sends and receives that were posted; None if a call could not be recorded."""
        pairs = self.recorder.pairs
        return None if self.recorder.error or pairs.incomplete else dict(pairs.posted)

    def _idle_s(self, now: float) -> float:
        """Return the seconds in which this process used no CPU time and moved no data; 0 if it may use a GPU."""
        before, used_s, moved = self._used
        elapsed = max(now - before, 1e-6)
        self._used = (now, time.process_time(), _bytes_moved())
        busy = (self._used[1] - used_s) / elapsed > _IDLE_CORES or (self._used[2] - moved) / elapsed > _IDLE_BYTES
        # the script may be in the middle of importing it
        is_initialized = getattr(sys.modules.get("torch.cuda"), "is_initialized", None)
        on_gpu = self.end is None and is_initialized is not None and is_initialized()
        if busy or self._used[2] < 0 or on_gpu:
            self._idle_since = now
        return now - self._idle_since

    def idle_since_end_s(self) -> float:
        """Return the seconds since the script ended in which this process used no CPU time and moved no data."""
        if self.end is None:
            return 0.0
        now = time.monotonic()
        return min(self._idle_s(now), now - self._ended_at)

    def _call_of_thread(self) -> Any:
        """Return the oldest call of another thread, while the main thread waits for a thread."""
        return min(list(self.recorder.inside.values()), key=lambda note: note.at, default=None)

    def _entered(self) -> dict[str, int]:
        """Return the number of collectives that Python or C++ began in each group, by its counter (1 µs each)."""
        entered = dict(self.recorder.entered)
        module = sys.modules.get("torch.distributed.distributed_c10d")
        if module is None or not self.recorder.joined:
            return entered
        for group, name in list(module._world.pg_names.items()):
            entered[name] = max(entered.get(name, 0), self.recorder.count(group, name))
        return entered

    def _call_without_python(self, open_one: CollectiveCall, frame: Any, request: int) -> CollectiveCall:
        """Return a call that Python did not make: what the flight recorder holds of it, with the user's line."""
        place, function = innermost_own(frame)
        if request > 0 and self._recorder_read_at[0] != request:
            self._recorder_read_at = (request, recorded(self.recorder.joined))
        found = self._recorder_read_at[1] if request > 0 else None
        return (found or open_one)._replace(place=place, function=function)

    def digests(self) -> dict[str, list[tuple[int, int]]]:
        """Return index and digest of the last calls of each group, and of its milestones."""
        found: dict[str, dict[int, int]] = {}
        for note in islice(rows(self.recorder), 4 * _DIGESTS):
            latest = found.setdefault(note.call.group, {})
            if note.digest and len(latest) < _DIGESTS:
                latest[note.ordinal] = note.digest
        milestones = list(self.recorder.milestones.items())
        each = max(1, _MILESTONES // max(1, len(milestones)))
        for group, kept in milestones:
            found.setdefault(group, {}).update(list(kept)[-each:])
        return {group: list(pairs.items()) for group, pairs in found.items()}

    def groups(self) -> dict[str, str]:
        """Return the ranks of each group, packed; without the default group."""
        return {name: packed_ranks(ranks) for name, ranks in list(self.recorder.groups.items()) if name != "0"}

    def calls_of(self, question: DetailRequest) -> dict[str, list[tuple[int, CollectiveCall]]]:
        """Return the requested calls of each group, with their indices."""
        found: dict[str, list[tuple[int, CollectiveCall]]] = {}
        for note in rows(self.recorder) if question.calls else ():
            low, high = question.calls.get(note.call.group, (0, 0))
            if note.digest and low < note.ordinal <= high:
                found.setdefault(note.call.group, []).append((note.ordinal, note.call))
        return found

    def _recent(self) -> tuple[CollectiveCall, ...]:
        return tuple(note.call for note in islice(rows(self.recorder), _RECENT))

    def _places(self) -> dict[str, int]:
        calls: dict[str, int] = {}
        for (place, *_), spent in list(self.recorder.spent.items()):
            calls[place] = calls.get(place, 0) + spent.calls
        most = sorted(calls, key=lambda place: -calls[place])[:_PLACES]
        found = {place: calls[place] for place in most}
        unseen = self.recorder.unseen_before + self.recorder.made_by_cpp(self._entered().get("0", 0))
        return {**found, UNSEEN: unseen} if unseen > 0 else found


def _bytes_moved() -> int:
    """Return the bytes that this process has read and written, sockets included; -1: unknown."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in islice(file, 2))
    except (OSError, ValueError, IndexError):
        return -1


def _short(frame: Any) -> tuple[Any, ...]:
    """Return the frames of a short heartbeat: the innermost frames of the user's code."""
    return tuple(item for item in stack_of(frame) if item.own)[:_SHORT]
