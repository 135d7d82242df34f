"""Where this rank is: in which call since when, what it has called, and where its main thread stands."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

from .call_recorder import CallRecorder, RecordedCall, rows
from .flight_recorder import latest, pending, recorded
from .frames import innermost_own, main_frame, stack_of
from .model import SETUP, UNSEEN, CollectiveCall, Frame, Position
from .protocol import DetailRequest, packed_ranks
from .rank_info import RankInfo

#: Calls whose digests a rank posts with every tick, and milestones of all of its groups together.
_DIGESTS, _MILESTONES = 16, 64
#: Calls, and places, that it tells when it is asked.
_RECENT, _PLACES = 12, 50
#: Frames of the user's code that it tells unasked: enough to see which branch a call stands in.
_SHORT = 3
#: Where a thread waits for another thread of its process: what that one waits for, it waits for.
_WAITS_FOR_THREADS = ("threading.py", "queue.py", os.path.join("concurrent", "futures", "_base.py"))


class RankStateReader:
    """What one rank can say of itself.

    :param posts: its calls
    :param still_s: seconds without a step after which the main thread may wait for something that no Python called
    """

    def __init__(self, posts: CallRecorder, still_s: float) -> None:
        self.posts = posts
        self.still_s = still_s
        #: unknown until :meth:`joined`
        self.rank_info = RankInfo(-1, 0)
        #: how it has ended
        self.end: Position | None = None
        #: looks, and those at which a collective was open
        self.looks = [0, 0]
        self._main = threading.main_thread().ident or 0
        self._pid = os.getpid()
        self._still: tuple[object, ...] = ()
        self._still_since = time.monotonic()
        #: the question at which the recorder was read, and what it said
        self._recorder_read_at: tuple[int, CollectiveCall | None] = (0, None)

    def joined(self, rank_info: RankInfo, still_s: float) -> None:
        """Take the rank of this process, which is known now."""
        self.rank_info, self.still_s = rank_info, still_s

    def ended(self, state: str, status: int, detail: str = "", stack: tuple[Frame, ...] = ()) -> None:
        """The script has ended; said to the others with the next tick, or when this process leaves."""
        try:
            entered = self._entered()
            call = self._last_call(entered, stack)
        except Exception:  # noqa: BLE001 - the script's end must not suffer
            entered, call = dict(self.posts.entered), None
        self.end = Position(
            self.rank_info.rank, self.rank_info.host, self._pid, state, call,
            self.posts.done, 0.0, stack, status, detail,
            entered, self._recent(), self._places(),
        )  # fmt: skip

    def _last_call(self, entered: Mapping[str, int], stack: tuple[Frame, ...]) -> CollectiveCall | None:
        """The last call, Python's or C++'s; the place of the latter where an exception shows it."""
        note = next(rows(self.posts), None)
        last, number = None if note is None else note.call, entered.get("0", 0)
        known = last.number if last is not None and last.group == "0" else 0
        # the calls of objects are two collectives
        if last is not None and (last.group not in ("0", SETUP) or number <= known + 1):
            return last
        if not number:
            return last
        frame = next((item for item in stack if item.own), None)
        return latest(self.posts.joined, number)._replace(
            place=frame.place if frame else "", function=frame.function if frame else ""
        )

    def waiting_in(self, note: RecordedCall) -> Position:
        """In a call that it is about to begin, and may never come back from."""
        return Position(
            self.rank_info.rank, self.rank_info.host, self._pid, "waiting", note.call, self.posts.done, 0.0,
            stack_of(main_frame(self._main)), entered=self._entered(), places=self._places(),
        )  # fmt: skip

    def gave_up(self) -> Position:
        return Position(self.rank_info.rank, self.rank_info.host, self._pid, detail="watch has stepped aside there")

    def now(self, asked: int, *, detailed: bool = False) -> Position:
        """At this moment.

        :param asked: number of the question that is to be answered with all that is known; 0 where nothing was asked
        :param detailed: all that is known, but for what the recorder says, though nothing was asked
        """
        detailed = detailed or asked > 0
        if self.end is not None:
            # a rank that is placed late has ended with no name
            return self.end._replace(rank=self.rank_info.rank, host=self.rank_info.host)
        now = time.monotonic()
        posts = self.posts
        frame = main_frame(self._main)
        inside = posts.inside.get(self._main)
        still = (id(frame), getattr(frame, "f_lasti", 0), posts.done)
        if still != self._still:
            self._still, self._still_since = still, now
        entered = self._entered()
        last = next(rows(posts), None)
        call, state, since = (None if last is None else last.call), "computing", now - self._still_since
        open_one = pending(posts.joined)
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
                # what no Python called: DDP's reducer, Work.wait(), a synchronisation with the device
                state, call = "waiting", self._call_without_python(open_one, frame, asked)
        return Position(
            self.rank_info.rank, self.rank_info.host, self._pid, state, call, posts.done, since,
            stack_of(frame) if detailed else _short(frame), None, "", entered,
            self._recent() if detailed else (), self._places() if detailed else {},
        )  # fmt: skip

    def _call_of_thread(self) -> Any:
        """The oldest call that another thread is in, while the main thread waits for a thread."""
        return min(list(self.posts.inside.values()), key=lambda note: note.at, default=None)

    def _entered(self) -> dict[str, int]:
        """Group → collectives that were begun there, by Python or by C++, as the groups count (1 µs each)."""
        entered = dict(self.posts.entered)
        module = sys.modules.get("torch.distributed.distributed_c10d")
        if module is None or not self.posts.joined:
            return entered
        for group, name in list(module._world.pg_names.items()):
            try:
                entered[name] = max(entered.get(name, 0), group._get_sequence_number_for_group())
            except (RuntimeError, AttributeError):  # this backend does not count, or this rank is not in it
                continue
        return entered

    def _call_without_python(self, open_one: CollectiveCall, frame: Any, asked: int) -> CollectiveCall:
        """A call that Python did not make: what the recorder says of it once it is asked, and the user's line."""
        place, function = innermost_own(frame)
        if asked > 0 and self._recorder_read_at[0] != asked:
            self._recorder_read_at = (asked, recorded(self.posts.joined))
        found = self._recorder_read_at[1] if asked > 0 else None
        return (found or open_one)._replace(place=place, function=function)

    def digests(self) -> dict[str, list[tuple[int, int]]]:
        """Group → ordinal and digest of its last calls, and of its milestones."""
        found: dict[str, dict[int, int]] = {}
        for note in islice(rows(self.posts), 4 * _DIGESTS):
            latest = found.setdefault(note.call.group, {})
            if note.digest and len(latest) < _DIGESTS:
                latest[note.ordinal] = note.digest
        milestones = list(self.posts.milestones.items())
        each = max(1, _MILESTONES // max(1, len(milestones)))
        for group, kept in milestones:
            found.setdefault(group, {}).update(list(kept)[-each:])
        return {group: list(pairs.items()) for group, pairs in found.items()}

    def groups(self) -> dict[str, str]:
        """Group → its ranks, packed; without the default group."""
        return {name: packed_ranks(ranks) for name, ranks in list(self.posts.groups.items()) if name != "0"}

    def calls_of(self, question: DetailRequest) -> dict[str, list[tuple[int, CollectiveCall]]]:
        """The calls that are to be laid side by side, each with its ordinal."""
        found: dict[str, list[tuple[int, CollectiveCall]]] = {}
        for note in rows(self.posts) if question.calls else ():
            low, high = question.calls.get(note.call.group, (0, 0))
            if note.digest and low < note.ordinal <= high:
                found.setdefault(note.call.group, []).append((note.ordinal, note.call))
        return found

    def _recent(self) -> tuple[CollectiveCall, ...]:
        return tuple(note.call for note in islice(rows(self.posts), _RECENT))

    def _places(self) -> dict[str, int]:
        calls: dict[str, int] = {}
        for (place, *_), spent in list(self.posts.spent.items()):
            calls[place] = calls.get(place, 0) + spent.calls
        most = sorted(calls, key=lambda place: -calls[place])[:_PLACES]
        found = {place: calls[place] for place in most}
        # some calls of Python are more than one collective
        unseen = self._entered().get("0", 0) - 2 * self.posts.compared("0")
        return {**found, UNSEEN: unseen} if unseen > 0 else found


def _short(frame: Any) -> tuple[Any, ...]:
    """The frames that a quiet post carries: the innermost of the user's."""
    return tuple(item for item in stack_of(frame) if item.own)[:_SHORT]
