"""The side thread of *watch*: tells the other ranks where this one is, and one of them all where the job stands still.

It has a connection of its own to the store, asks nothing of the main thread, and never waits for another rank: each
posts under its own key, once in a tick, and one of them (the *chair*) reads all. If anything in it fails it says so
once and steps aside; the job does not notice.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from ..collectives.blame import tells_of_lost_peer
from ..collectives.processes import kernel_state
from ..facts_file import from_plain
from ..model import to_plain
from .frames import innermost_own, main_frame, stack_of
from .model import SETUP, Call, Frame, Mismatch, Position, Positions
from .posts import MILESTONE, Posts, agreed, rows
from .standing import GONE, differing, stands, suspicious

#: Default of ``--patience``, in seconds.
PATIENCE_S = 20.0
_PREFIX = "distcheck/watch"
#: Seconds between two posts; longer in big jobs, where one store serves all of them: a thousand posts a second take
#: some percent of its one thread (2.4 µs to send, some 10 µs to serve, torch 2.13).
_TICK_S = 1.0
_POSTS_PER_S = 2000.0
#: Ticks without a word from which on a rank is silent.
_SILENT_TICKS = 4
#: Seconds that one question to the store may take, and that leaving may take.
_ANSWER_WITHIN_S, _LEAVE_WITHIN_S = 5.0, 2.0
#: Calls whose digests a rank posts with every tick.
_DIGESTS = 16
#: ScalarType's names, where they are not the dtype's in lower case (c10, torch 2.13).
_RECORDED = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8",
    "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64",
}  # fmt: skip
#: Calls that it tells in full when it is asked.
_RECENT = 12


class Post(NamedTuple):
    """What a rank tells with every tick."""

    beat: int
    position: Position
    #: group → ``((index, digest), …)``: the last calls, and milestones further back
    digests: Mapping[str, tuple[tuple[int, int], ...]] = {}
    #: the question of the chair that this answers; 0: none yet
    answers: int = 0
    groups: Mapping[str, tuple[int, ...]] = {}
    #: the calls that the chair has asked for: group → ``((index, call), …)``
    calls: Mapping[str, tuple[tuple[int, Call], ...]] = {}
    #: in which its process number means something: a container has its own
    space: str = ""


#: The beat of a rank that watches no longer.
OFF = -1
#: The question that is none: the job is to end, with this status.
ABORT, ABORTED = -1, 1


class Seat(NamedTuple):
    """Which rank this is, as its launcher says."""

    rank: int
    world_size: int
    host: str


class Patrol:
    """The side thread of one rank.

    :param connect: gives a store, or None while there is none yet; called in the thread, again and again
    :param report: called in the chair's thread, once for each standstill
    :param say: a line on standard error
    """

    def __init__(
        self,
        posts: Posts,
        seat: Seat,
        *,
        connect: Callable[[], Any],
        report: Callable[[Positions], None],
        say: Callable[[str], None],
        patience_s: float = PATIENCE_S,
        abort: bool = False,
    ) -> None:
        self.posts = posts
        self.seat = seat
        self.patience_s = patience_s
        self.abort = abort
        self.tick_s = max(min(_TICK_S, patience_s / 4), seat.world_size / _POSTS_PER_S)
        self._connect = connect
        self._report = report
        self._say = say
        self._main = threading.main_thread().ident or 0
        self._pid = os.getpid()
        self._store: Any = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="distcheck watch", daemon=True)
        self._beat = 0
        self._end: Position | None = None
        self._still: tuple[object, ...] = ()
        self._still_since = time.monotonic()
        self._asked_calls: tuple[int, dict[str, tuple[tuple[int, Call], ...]]] = (0, {})
        #: the question at which the recorder was read, and what it said
        self._unseen_at: tuple[int, Call | None] = (0, None)
        self._asked = 0
        self._chair_seen: tuple[bytes, float] = (b"", time.monotonic())
        # of the chair
        self._heard: dict[int, tuple[int, float]] = {}
        self._last: dict[int, Post] = {}
        self._chairs = False
        self._space = _space()
        self._question = 0
        self._asked_at = 0.0
        self._told = False
        self._done_then = 0
        self._mismatched: set[str] = set()

    # the main thread

    def start(self) -> None:
        self._thread.start()

    def ended(self, state: str, status: int, detail: str = "", stack: tuple[Frame, ...] = ()) -> None:
        """The script has ended; said to the others with the next tick, or when this process leaves."""
        last = next(rows(self.posts), None)
        self._end = Position(
            self.seat.rank, self.seat.host, self._pid, state, None if last is None else last.call, self.posts.done,
            0.0, stack, status, detail, dict(self.posts.entered), self._recent(), self._places(),
        )  # fmt: skip

    def leave(self) -> None:
        """Before the interpreter ends: the thread must not be in the store's library then."""
        if os.getpid() != self._pid:
            return
        self._stop.set()
        self._thread.join(_LEAVE_WITHIN_S)

    # the thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if self._store is None:
                    self._store = self._connect()
                if self._store is not None:
                    self._turn()
                self._stop.wait(self.tick_s)
            if self._store is not None and self._end is not None:
                self._post()
                self._last_word()
                if self._chairs:
                    self._store.set(f"{_PREFIX}/chair", f"{self.seat.rank} - {self._question}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not the job's
            self._step_aside(error)

    def _last_word(self) -> None:
        """A wait that ended with the loss of a peer (gloo notices at once) is a hang that did not last: who went?"""
        end = self._end
        if end is None or end.state != "raised" or end.call is None or not tells_of_lost_peer(end.detail):
            return
        # those that have lost a peer themselves are no news; the one that went has had its tick by then
        time.sleep(min(self.tick_s, 1.0))
        positions = self._positions(final=True)
        ranks = tuple(
            position._replace(state="waiting")
            if position.state == "raised" and tells_of_lost_peer(position.detail)
            else position
            for position in positions.ranks
        )
        positions = positions._replace(ranks=ranks, over=True, patience_s=0.0)
        if stands(positions) and self._first_to_tell():
            self._report(positions)

    def _first_to_tell(self) -> bool:
        mine = str(self.seat.rank)
        return bool(self._store.compare_set(f"{_PREFIX}/told", "", mine).decode() == mine)

    def _step_aside(self, error: Exception) -> None:
        if self._stop.is_set() or self._end is not None:
            return
        # where rank 0 serves the store, it goes with rank 0: an ordinary end
        if not any(kind.__name__ in ("DistNetworkError", "DistStoreError") for kind in type(error).__mro__):
            self._say(f"distcheck watch: rank {self.seat.rank} watches no longer: {_line(error)}")
        with contextlib.suppress(Exception):
            off = Position(self.seat.rank, self.seat.host, self._pid, detail="watch has stepped aside there")
            self._store.set(f"{_PREFIX}/rank/{self.seat.rank}", _packed(Post(OFF, off)))

    def _turn(self) -> None:
        self._post()
        self._chairs = self._is_chair()
        if self._asked == ABORT:
            self._abort()
        if self._chairs:
            self._look()

    def _abort(self) -> None:
        """``--on-hang abort``: the main thread can't come back by itself."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(ABORTED)

    def _post(self) -> None:
        self._beat += 1
        position = self._position()
        post = Post(
            self._beat, position, self._digests(), self._asked, dict(self.posts.groups), self._which(), self._space
        )
        self._store.set(f"{_PREFIX}/rank/{self.seat.rank}", _packed(post))

    def _position(self) -> Position:
        if self._end is not None:
            return self._end
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
        if inside is not None:
            call, state, since = inside.call, "waiting", now - inside.at
        elif since >= min(2 * self.tick_s, self.patience_s / 2) and (group := self._pending()) is not None:
            # what no Python called: DDP's reducer, Work.wait(), a synchronisation with the device
            state, call = "waiting", self._unseen(group, frame)
        detailed = self._asked > 0
        return Position(
            self.seat.rank, self.seat.host, self._pid, state, call, posts.done, since,
            stack_of(frame) if detailed else _short(frame), None, "", entered,
            self._recent() if detailed else (), self._places() if detailed else {},
        )  # fmt: skip

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

    def _pending(self) -> str | None:
        """A group that has begun more collectives than have ended, by torch's flight recorder; None without one.

        Costs 4 µs; with the entries themselves it would hold the interpreter's lock for 80 ms (2,000 of them, torch
        2.13).
        """
        dump = self._recorder()
        if dump is None:
            return None
        for group, counts in json.loads(dump(False, False)).get("pg_status", {}).items():
            if int(counts["last_enqueued_collective"]) > max(0, int(counts["last_completed_collective"])):
                return str(group)
        return None

    def _recorder(self) -> Any:
        library = sys.modules.get("torch._C._distributed_c10d")
        return getattr(library, "_dump_fr_trace_json", None) if self.posts.joined else None

    def _unseen(self, pending: str, frame: Any) -> Call:
        """A call that Python did not make: what the recorder says of it once it is asked, and the user's line."""
        place, function = innermost_own(frame)
        if not self._asked:
            return Call(0, "a collective", pending, place=place, function=function)
        if self._unseen_at[0] != self._asked:
            self._unseen_at = (self._asked, self._recorded())
        call = self._unseen_at[1]
        return (call or Call(0, "a collective", pending))._replace(place=place, function=function)

    def _recorded(self) -> Call | None:
        """The oldest collective that has not ended, out of the flight recorder."""
        dump = self._recorder()
        entries = json.loads(dump(True, False)).get("entries", []) if dump is not None else []
        for entry in entries:
            if not entry.get("retired") and entry.get("state") != "completed" and not entry.get("is_p2p"):
                return Call(
                    int(entry.get("collective_seq_id", 0)),
                    str(entry.get("profiling_name", "")).rpartition(":")[2] or "a collective",
                    str((entry.get("process_group") or ["0"])[0]),
                    tuple(tuple(size) for size in entry.get("input_sizes", ())),
                    tuple(_RECORDED.get(name, name.lower()) for name in entry.get("input_dtypes", ())),
                )
        return None

    def _digests(self) -> dict[str, tuple[tuple[int, int], ...]]:
        found: dict[str, dict[int, int]] = {}
        for note in islice(rows(self.posts), 4 * _DIGESTS):
            latest = found.setdefault(note.call.group, {})
            if note.digest and len(latest) < _DIGESTS:
                latest[note.ordinal] = note.digest
        for group, kept in list(self.posts.milestones.items()):
            found.setdefault(group, {}).update(list(kept))
        return {group: tuple(pairs.items()) for group, pairs in found.items()}

    def _which(self) -> dict[str, tuple[tuple[int, Call], ...]]:
        """The calls that are to be laid side by side."""
        if self._asked <= 0:
            self._asked_calls = (0, {})
        elif self._asked_calls[0] != self._asked:
            asked: dict[str, list[int]] = {}
            if self._store.check([f"{_PREFIX}/which"]):
                asked = json.loads(self._store.get(f"{_PREFIX}/which"))
            found: dict[str, list[tuple[int, Call]]] = {}
            for note in rows(self.posts):
                low, high = asked.get(note.call.group, (0, 0))
                if note.digest and low < note.ordinal <= high:
                    found.setdefault(note.call.group, []).append((note.ordinal, note.call))
            self._asked_calls = (self._asked, {group: tuple(calls) for group, calls in found.items()})
        return self._asked_calls[1]

    def _recent(self) -> tuple[Call, ...]:
        return tuple(note.call for note in islice(rows(self.posts), _RECENT))

    def _places(self) -> dict[str, int]:
        spent = dict(self.posts.spent)
        most = sorted(spent, key=lambda place: -spent[place][0])[:50]
        return {place: spent[place][0] for place in most}

    # the chair

    def _is_chair(self) -> bool:
        """Who reads all: rank 0 at first, then whoever takes it over when that one has gone."""
        key = f"{_PREFIX}/chair"
        mine = f"{self.seat.rank} "
        if self._beat == 1 and self.seat.rank == 0:
            self._store.compare_set(key, "", f"{mine}0 0")
        if not self._store.check([key]):
            return False
        value = self._store.get(key)
        who, _, rest = value.decode().partition(" ")
        beat, _, question = rest.partition(" ")
        self._asked = int(question)
        if int(who) == self.seat.rank:
            self._store.set(key, f"{mine}{self._beat} {self._question}")
            return True
        seen, at = self._chair_seen
        now = time.monotonic()
        if value != seen:
            self._chair_seen = (value, now)
            return False
        # the lower ranks first, so that few try at once
        patience = self.tick_s * (_SILENT_TICKS + min(self.seat.rank, 8))
        if beat != "-" and now - at < patience:
            return False
        if self._end is not None:
            return False
        taken = self._store.compare_set(key, value.decode(), f"{mine}{self._beat} {question}")
        if taken.decode().startswith(mine):
            self._question = int(question)
            return True
        return False

    def _look(self) -> None:
        positions = self._positions()
        new = {group: between for group, between in self._mismatches().items() if group not in self._mismatched}
        done = sum(position.done or 0 for position in positions.ranks)
        if not new and not suspicious(positions):
            self._question = 0
            if self._told and done > self._done_then:
                self._told = False
                self._say("distcheck watch: the job goes on")
            return
        if self._told and not new:
            return
        if not self._question:
            self._store.set(f"{_PREFIX}/which", json.dumps(new))
            self._question, self._asked_at = self._beat, time.monotonic()
            return  # the ranks have to say more with their next ticks
        answered = all(
            post.answers == self._question or positions.ranks[rank].state in GONE or post.beat == OFF
            for rank, post in self._last.items()
        )
        if not answered and time.monotonic() - self._asked_at < 3 * self.tick_s + 1:
            return
        noted = [self._mismatch(group, between) for group, between in new.items()]
        self._mismatched.update(new)
        positions = positions._replace(mismatches=(*noted, *(() if noted else differing(positions))))
        if not stands(positions):
            return
        self._told, self._done_then = True, done
        self._first_to_tell()
        self._report(positions)
        if self.abort:
            self._question = ABORT
            self._store.set(f"{_PREFIX}/chair", f"{self.seat.rank} {self._beat} {ABORT}")
            time.sleep(2 * self.tick_s)
            self._abort()

    def _positions(self, *, final: bool = False) -> Positions:
        world = self.seat.world_size
        keys = [f"{_PREFIX}/rank/{rank}" for rank in range(world)]
        known = [rank for rank in range(world) if rank in self._last or self._store.check([keys[rank]])]
        now = time.monotonic()
        texts = self._store.multi_get([keys[rank] for rank in known]) if known else ()
        for rank, text in zip(known, texts, strict=True):
            post = from_plain(Post, json.loads(text))
            beat, at = self._heard.get(rank, (-1, now))
            self._heard[rank] = (post.beat, now if post.beat != beat else at)
            self._last[rank] = post
        groups: dict[str, tuple[int, ...]] = {}
        ranks = []
        for rank in range(world):
            told = self._last.get(rank)
            if told is None:
                # a slow file system at its imports, or work before them: it may yet come
                ranks.append(Position(rank, detail="it has not imported torch.distributed yet"))
                continue
            groups.update(told.groups)
            ranks.append(self._as_seen(told, now - self._heard[rank][1], final=final))
        groups[SETUP] = groups["0"] = tuple(range(world))
        return Positions(tuple(ranks), world, self.patience_s, groups)

    def _as_seen(self, post: Post, quiet_s: float, *, final: bool = False) -> Position:
        """A rank that gives no word any more: stopped or gone, where it can be seen from here."""
        position = post.position
        if position.state in ("left", "raised") or post.beat == OFF:
            return position
        if not final and quiet_s < _SILENT_TICKS * self.tick_s:
            return position
        if post.space and post.space == self._space:
            state = kernel_state(position.pid)
            if state in ("T", "t"):
                return position._replace(state="stopped", detail="SIGSTOP, or a debugger", since_s=quiet_s)
            if state in ("", "Z", "X"):
                return position._replace(state="left", detail="its process is gone", since_s=quiet_s)
        elif quiet_s >= self.patience_s:
            return position._replace(state="silent", detail=f"for {quiet_s:.0f} s", since_s=quiet_s)
        if final:
            return position
        # it lives, or may: something holds the interpreter's lock there
        return position._replace(state="computing", since_s=quiet_s)

    def _mismatches(self) -> dict[str, tuple[int, int]]:
        """Group → the index up to which all digests are equal, and one at which they are not."""
        tables: dict[str, dict[int, int]] = {}
        differ: dict[str, int] = {}
        for post in self._last.values():
            for group, pairs in post.digests.items():
                table = tables.setdefault(group, {})
                for index, digest in pairs:
                    if table.setdefault(index, digest) != digest:
                        differ[group] = min(index, differ.get(group, index))
        found = {}
        for group, high in differ.items():
            # known to be equal: what two ranks have, and have alike
            counts: dict[int, int] = {}
            for post in self._last.values():
                for index, _ in post.digests.get(group, ()):
                    counts[index] = counts.get(index, 0) + 1
            low = max((index for index, count in counts.items() if index < high and count > 1), default=0)
            found[group] = (max(low, high - MILESTONE), high)
        return found

    def _mismatch(self, group: str, between: tuple[int, int]) -> Mismatch:
        """The first call that differs; without calls where nobody has kept it."""
        by_index: dict[int, dict[tuple[object, ...], tuple[list[int], Call]]] = {}
        for rank, post in self._last.items():
            for index, call in post.calls.get(group, ()):
                by_index.setdefault(index, {}).setdefault(agreed(call), ([], call))[0].append(rank)
        for index in sorted(by_index):
            sides = by_index[index]
            if len(sides) > 1:
                ordered = sorted(sides.values(), key=lambda side: (-len(side[0]), side[0]))
                return Mismatch(group, ordered[0][1].number, tuple((tuple(ranks), call) for ranks, call in ordered))
        return Mismatch(group, between[1], ())


def _packed(post: Post) -> str:
    return json.dumps(to_plain(post), separators=(",", ":"))


def _space() -> str:
    """Where the numbers of processes are those that this one sees: boot and PID namespace; "" where nobody tells."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _short(frame: Any) -> tuple[Any, ...]:
    """The frames that a quiet post carries: the innermost of the user's."""
    return tuple(item for item in stack_of(frame) if item.own)[:1]


def _line(error: BaseException) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


# how it begins


def seat_of(environ: Mapping[str, str], host: str) -> Seat | None:
    """Which rank this is; None where no launcher says so."""
    try:
        return Seat(int(environ["RANK"]), int(environ["WORLD_SIZE"]), host)
    except (KeyError, ValueError):
        return None


def connection(posts: Posts, environ: Mapping[str, str]) -> Callable[[], Any]:
    """How the thread comes to a store of its own: torchrun's agent serves one from the start; else the group's is
    cloned as soon as there is a group."""

    def connect() -> Any:
        distributed = sys.modules.get("torch.distributed")
        module = sys.modules.get("torch.distributed.distributed_c10d")
        if distributed is None or module is None or getattr(distributed.__spec__, "_initializing", False):
            return None
        store = None
        if environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            store = distributed.TCPStore(
                environ["MASTER_ADDR"], int(environ["MASTER_PORT"]), is_master=False, wait_for_workers=False,
                timeout=timedelta(seconds=_ANSWER_WITHIN_S),
            )  # fmt: skip
            # a job that was restarted finds what it left
            return distributed.PrefixStore(f"{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        if posts.joined:
            with contextlib.suppress(ValueError):
                store = module._get_default_store().clone()
                store.set_timeout(timedelta(seconds=_ANSWER_WITHIN_S))
        return store

    return connect
