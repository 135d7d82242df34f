"""The side thread of *watch*: it sends this rank's heartbeats, and on one rank it is the coordinator.

It has its own connection to the store, requests nothing from the main thread, and never waits for another rank. Each
rank writes a heartbeat under its own key once per tick, and the coordinator reads all of them. If the thread fails, it
reports that once and ends; the job is not affected.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence

from .call_recorder import CallRecorder, RecordedCall
from .call_signatures import agreed
from .coordinator import SILENT_TICKS, Coordinator, MonitorReporter, hand_over
from .hang_detector import group_name
from .ledger import Ledger, gathered, ledger_of
from .model import CallMismatch, CollectiveCall, Frame, Position, Positions
from .processes import kernel_state
from .protocol import (
    ABORT,
    ASKED,
    CLOSING,
    COORDINATOR,
    DIFFERENCE_TOLD,
    ENDED,
    LET_GO,
    OFF,
    Heartbeat,
    Question,
    differs_key,
    ledger_key,
    packed,
    packed_post,
    rank_key,
    read_question,
    stack_key,
)
from .rank_info import RankInfo
from .rank_state import RankStateReader
from .root_cause import tells_of_lost_peer
from .shared_table import OtherRank, SharedTable
from .store_client import StoreClient, StoreConnection, StoreLost

#: Default of ``--hang-timeout``, in seconds.
HANG_TIMEOUT_S = 20.0
#: Seconds between two posts; longer in big jobs, where one store serves all of them: a thousand posts a second take
#: some percent of its one thread (2.4 µs to send, some 10 µs to serve, torch 2.13).
_TICK_S = 1.0
_POSTS_PER_S = 2000.0
#: Seconds in which another rank of this host has answered, or the side thread is through with its tick.
_ANSWER_WITHIN_S = 3.0
#: Seconds that leaving may take, and that rank 0, whose process serves the store, waits for the others' last words.
_LEAVE_WITHIN_S, _LAST_WORDS_S = 4.0, 1.0
#: Seconds that telling of calls that differ may take, once the other rank has answered.
_TELLING_S = 5.0
#: The exit status of a job that is ended by ``--on-hang abort``.
ABORTED = 1


class RankMonitor:
    """The side thread of one rank; the observer of its calls.

    :param rank_info: the rank of this process, or a function that returns it as soon as it is known
    :param shared_table: of the ranks of this host, where a launcher states their number
    :param abort: end the job when it hangs
    :param tick_s: seconds between two heartbeats; None: by the hang timeout
    """

    def __init__(
        self,
        calls: CallRecorder,
        rank_info: RankInfo | Callable[[], RankInfo | None],
        connection: StoreConnection,
        reporter: MonitorReporter,
        *,
        shared_table: SharedTable | None = None,
        hang_timeout_s: float = HANG_TIMEOUT_S,
        abort: bool = False,
        tick_s: float | None = None,
    ) -> None:
        self.calls = calls
        self.shared_table = shared_table
        self.hang_timeout_s = hang_timeout_s
        self.abort = abort
        self.tick_s = tick_s or min(_TICK_S, hang_timeout_s / 4)
        self._here = RankStateReader(calls, min(2 * self.tick_s, hang_timeout_s / 2))
        self._rank_infos = rank_info if callable(rank_info) else lambda: rank_info
        self._connection = connection
        self._reporter = reporter
        self._pid = os.getpid()
        self._store: StoreClient | None = None
        self._stop = threading.Event()
        self._turning = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="distcheck watch", daemon=True)
        self._beat = 0
        self._begun = time.monotonic()
        self._asked = 0
        self._question: tuple[int, Question] = (0, Question())
        self._asked_calls: tuple[int, dict[str, list[tuple[int, CollectiveCall]]]] = (0, {})
        self._kept_stacks: set[str] = set()
        self._space = space()
        self._coordinator_seen: tuple[str, float] = ("", self._begun)
        self._is_coordinator = False
        #: None until the rank is known
        self._coordinator: Coordinator | None = None

    # the main thread

    def start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:  # no thread is to be had
            self._reporter.line(f"distcheck watch: this process is not watched: {_line(error)}")

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def before(self, call: RecordedCall, waits: bool) -> None:
        """Let every call begin."""

    def joining(self, given: object) -> None:
        """Start, or connect to another store: the script is about to make its default group.

        :param given: arguments of ``init_process_group``; None after it has returned
        """
        if given is None:
            return
        if not self.started:
            self.start()
        elif not self._connection.outlives_ranks and self._turning.acquire(timeout=_LEAVE_WITHIN_S):
            # the store of the group before must not be in the way of this one
            self._store = self._coordinator = None
            self._connection.release()
            self._turning.release()

    @property
    def _client(self) -> StoreClient:
        if self._store is None:
            raise StoreLost("there is no connection to a store")
        return self._store

    @property
    def rank_info(self) -> RankInfo:
        return self._here.rank_info

    def ended(self, state: str, status: int, detail: str = "", stack: tuple[Frame, ...] = ()) -> None:
        """The script has ended; said to the others with the next tick, or when this process leaves."""
        self._here.ended(state, status, detail, stack)

    def leave(self) -> None:
        """Before the interpreter ends: the thread must not be in the store's library then."""
        if os.getpid() != self._pid or not self._thread.is_alive():
            return
        self._stop.set()
        self._thread.join(_LEAVE_WITHIN_S)

    def differs(self, note: RecordedCall, other: OtherRank) -> None:
        """This call is not what another rank of this host calls in its place: it may be the last thing that this
        process does, so it is told before. Begun elsewhere meanwhile it would end a process, and the launcher all."""
        if not self._tells_of(note, other):
            self._hold(note)

    def _tells_of(self, note: RecordedCall, other: OtherRank) -> bool:
        """False where another rank does that just now."""
        if not self._turning.acquire(timeout=_ANSWER_WITHIN_S):
            return True
        try:
            if self._coordinator is None:
                # the thread has not had its first tick yet
                self._begin()
            coordinator = self._coordinator
            if coordinator is None:
                return True
            if not coordinator.first_to_tell():
                return False
            positions = self._with(coordinator, other)
            here = self._here.waiting_in(note)
            there = positions.ranks[other.rank]
            if not _is_in(there, other.call):
                there = there._replace(state="waiting", call=other.call, stack=(), since_s=0.0)
            known = {here.rank: here, there.rank: there}
            ranks = tuple(known.get(position.rank, position) for position in positions.ranks)
            differs = CallMismatch(note.call.group, note.call.number, _sides(ranks, note.call))
            self._client.set(differs_key(note.call.group), str(self.rank_info.rank))
            coordinator.tell(positions._replace(ranks=ranks, mismatches=(differs,)))
            self._client.set(DIFFERENCE_TOLD, "1")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not the job's
            self._reporter.line(
                f"distcheck watch: rank {self.rank_info.rank} could not tell of calls that differ: {_line(error)}"
            )
        finally:
            self._turning.release()
        return True

    def _hold(self, note: RecordedCall) -> None:
        """Until another rank has told of calls that differ; this one is seen to be in its call."""
        end = time.monotonic() + self._answers_within_s() + _TELLING_S
        thread = threading.get_ident()
        self.calls.inside[thread] = note
        try:
            while time.monotonic() < end:
                with self._turning:
                    if self._store is None or self._client.check([DIFFERENCE_TOLD]):
                        return
                time.sleep(self.tick_s / 20)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not the job's
            self._reporter.line(
                f"distcheck watch: rank {self.rank_info.rank} could not wait for another rank: {_line(error)}"
            )
        finally:
            del self.calls.inside[thread]

    def _with(self, coordinator: Coordinator, other: OtherRank) -> Positions:
        """Where all are, once the other rank has told that it is in its call, and where it has been before; what it
        waits for is this rank, which does not begin meanwhile."""
        within_s = self._answers_within_s()
        end = time.monotonic() + within_s
        if self.shared_table is not None:
            self.shared_table.ask(within_s)
        while True:
            coordinator.read()
            positions = coordinator.positions()
            there = positions.ranks[other.rank]
            # only who tells all that it knows tells of its calls before this one
            if (_is_in(there, other.call) and there.recent) or time.monotonic() > end:
                return positions
            time.sleep(self.tick_s / 20)

    def _answers_within_s(self) -> float:
        """Seconds in which a rank that is asked by way of the board has told more, if it can."""
        return max(2 * self.tick_s, _ANSWER_WITHIN_S)

    # the thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with self._turning:
                    if self._coordinator is None:
                        self._begin()
                    if self._coordinator is not None and not self._turn(self._coordinator):
                        return
                self._stop.wait(self.tick_s)
            if self._coordinator is None and self._here.end is not None:
                # a script that was over before the first tick
                self._begin()
            if self._coordinator is not None and self._here.end is not None:
                self._farewell(self._coordinator)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not the job's
            self._step_aside(error)

    def _begin(self) -> None:
        """As soon as there is a store and this process knows which rank it is."""
        rank_info = self._rank_infos()
        store = None if rank_info is None else self._connection.open()
        if rank_info is None or store is None:
            return
        self._store = store
        self.tick_s = max(self.tick_s, rank_info.world_size / _POSTS_PER_S)
        self._here.joined(rank_info, min(2 * self.tick_s, self.hang_timeout_s / 2))
        if rank_info.rank == 0 and not (store.get(COORDINATOR) or "-").startswith("-"):
            # ranks that were there before: a launcher has begun anew
            for rank in range(rank_info.world_size):
                store.delete_key(rank_key(rank))
            # not deleted: another rank may be about to read it
            store.set(COORDINATOR, "0 0 0")
        self._coordinator = Coordinator(
            store, rank_info.world_size, self._reporter, rank=rank_info.rank, hang_timeout_s=self.hang_timeout_s,
            tick_s=self.tick_s, space=self._space,
        )  # fmt: skip

    def _turn(self, coordinator: Coordinator) -> bool:
        """Once a tick; False where this was the last time."""
        if not self._connection.outlives_ranks and self.rank_info.rank and self._client.check([CLOSING]):
            self._client.add(LET_GO, 1)
            return False
        self._beat += 1
        self._post()
        self._is_coordinator = self._elect(coordinator)
        if self._asked == ABORT:
            self._abort()
        if self._is_coordinator:
            reported = coordinator.look(self._beat)
            if coordinator.hangs and self.abort:
                if coordinator.cause is not None and not reported:
                    self._reporter.line(
                        f"distcheck watch: the job hangs because call #{coordinator.cause.number} of "
                        f"{group_name(coordinator.cause.group)} differs between ranks, and ends with status {ABORTED}"
                    )
                self._client.set(COORDINATOR, f"{self.rank_info.rank} {self._beat} {ABORT}")
                time.sleep(2 * self.tick_s)
                self._abort()
        return True

    def _abort(self) -> None:
        """``--on-hang abort``: the main thread can't come back by itself."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(ABORTED)

    def _elect(self, coordinator: Coordinator) -> bool:
        """Who reads all: rank 0 at first, then whoever takes it over when that one has gone."""
        mine = f"{self.rank_info.rank} "
        if self._beat == 1 and self.rank_info.rank == 0:
            self._client.compare_set(COORDINATOR, "", f"{mine}0 0")
        value = self._client.get(COORDINATOR)
        if value is None:
            return False
        who, _, rest = value.partition(" ")
        beat, _, question = rest.partition(" ")
        self._asked = int(question)
        if int(who) == self.rank_info.rank:
            self._client.set(COORDINATOR, f"{mine}{self._beat} {coordinator.question}")
            return True
        seen, at = self._coordinator_seen
        now = time.monotonic()
        if value != seen:
            self._coordinator_seen = (value, now)
            return False
        # the lower ranks first, so that few try at once
        limit_s = self.tick_s * (SILENT_TICKS + min(self.rank_info.rank, 8))
        if int(who) < 0 or (beat != "-" and now - at < limit_s) or self._here.end is not None:
            return False
        taken = self._client.compare_set(COORDINATOR, value, f"{mine}{self._beat} {question}")
        if not taken.startswith(mine):
            return False
        coordinator.take_over(int(question))
        return True

    def _step_aside(self, error: Exception) -> None:
        if self._stop.is_set() or self._here.end is not None:
            return
        # a store that rank 0 serves ends with rank 0: an ordinary end
        if not isinstance(error, StoreLost):
            self._reporter.line(f"distcheck watch: rank {self.rank_info.rank} watches no longer: {_line(error)}")
        if self._store is None:
            return
        with contextlib.suppress(Exception):
            self._client.set(rank_key(self.rank_info.rank), packed_post(Heartbeat(OFF, self._here.stepped_aside())))

    # the end

    def _farewell(self, coordinator: Coordinator) -> None:
        self._beat += 1
        self._post()
        self._last_word(coordinator)
        self._account()
        if self._is_coordinator:
            hand_over(self._client, self.rank_info.rank, coordinator.question)
        if not self._connection.outlives_ranks:
            self._let_go()

    def _let_go(self) -> None:
        """The store goes with rank 0: it lets the others know, and they need a tick to hear of it."""
        if self.rank_info.rank:
            self._client.add(LET_GO, 1)
        elif self._here.end is not None and self._here.end.status == 0:
            self._client.set(CLOSING, "1")
            end = time.monotonic() + 2 * self.tick_s
            while self._client.add(LET_GO, 0) < self.rank_info.world_size - 1 and time.monotonic() < end:
                time.sleep(0.02)

    def _last_word(self, coordinator: Coordinator) -> None:
        """A wait that ended with the loss of a peer (gloo notices at once) is a hang that did not last: who went?"""
        end = self._here.end
        if end is None or end.state != "raised" or end.call is None or not tells_of_lost_peer(end.detail):
            return
        # the one that went has had its tick by then
        time.sleep(min(self.tick_s, 1.0))
        coordinator.look_back()

    def _account(self) -> None:
        """Leave what this rank's calls have cost; whoever comes last sums up."""
        ledger = self.ledger()
        self._client.set(ledger_key(self.rank_info.rank), packed(ledger))
        world = self.rank_info.world_size
        last = self._client.add(ENDED, 1) == world
        if not self._connection.outlives_ranks:
            # the store goes with rank 0
            end = time.monotonic() + _LAST_WORDS_S
            keys = [ledger_key(rank) for rank in range(world)]
            while self.rank_info.rank == 0 and ledger.status == 0 and not last and time.monotonic() < end:
                last = self._client.check(keys)
                time.sleep(0.02)
            last = last and self.rank_info.rank == 0
        summary = gathered(self._client, world) if last else None
        if summary is not None and summary.healthy:
            self._reporter.summary(summary)

    def ledger(self) -> Ledger:
        """What this rank's calls have cost up to now."""
        end = self._here.end
        return ledger_of(
            self.calls, self.rank_info, cores=_cores(), span_s=time.monotonic() - self._begun, looks=self._here.looks,
            state="computing" if end is None else end.state, status=0 if end is None else end.status or 0,
        )  # fmt: skip

    # what it says

    def _post(self) -> None:
        asked = self._asked > 0
        detailed = asked or (self.shared_table is not None and self.shared_table.asks)
        position = self._here.now(self._asked, detailed=detailed)
        name = ""
        if detailed and position.stack:
            name, position = self._keep_stack(position.stack), position._replace(stack=())
        question = self._asked_for() if asked else Question()
        post = Heartbeat(
            self._beat, position, self._here.digests(), self._space, self.calls.timeouts, self._asked,
            self._here.groups() if detailed else {}, self._which(question), name, self._vouches(question),
        )  # fmt: skip
        self._client.set(rank_key(self.rank_info.rank), packed_post(post))

    def _asked_for(self) -> Question:
        if self._question[0] != self._asked:
            text = self._client.get(ASKED)
            self._question = (self._asked, Question() if text is None else read_question(text))
        return self._question[1]

    def _which(self, question: Question) -> dict[str, list[tuple[int, CollectiveCall]]]:
        """The calls that are to be laid side by side; read once for each question."""
        if question.calls and self._asked_calls[0] != self._asked:
            self._asked_calls = (self._asked, self._here.calls_of(question))
        return self._asked_calls[1] if question.calls else {}

    def _vouches(self, question: Question) -> dict[str, str]:
        """Whether processes of this host live, for those that can't say so themselves."""
        return {rank: kernel_state(pid) for rank, pid in question.vouch.get(self._space, {}).items()}

    def _keep_stack(self, stack: tuple[Frame, ...]) -> str:
        """Equal stacks stand once in the store, under a name made of what they are."""
        text = packed(stack)
        name = f"{zlib.crc32(text.encode()):08x}{len(text):x}"
        if name not in self._kept_stacks:
            self._kept_stacks.add(name)
            if not self._client.check([stack_key(name)]):
                self._client.set(stack_key(name), text)
        return name


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def space() -> str:
    """Where the numbers of processes are those that this one sees: boot and PID namespace; "" where nobody tells."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _is_in(position: Position, call: CollectiveCall) -> bool:
    """Whether a rank has told that it waits in this call."""
    told = position.call
    return position.state == "waiting" and told is not None and told.number == call.number and told.place == call.place


def _sides(ranks: Sequence[Position], call: CollectiveCall) -> tuple[tuple[tuple[int, ...], CollectiveCall], ...]:
    """Who makes which call in the place of this one, of those that have come to theirs; the most ranks first."""
    made: dict[object, list[tuple[int, CollectiveCall]]] = {}
    for position in ranks:
        there = position.call
        if (
            position.state == "waiting"
            and there is not None
            and (there.group, there.number) == (call.group, call.number)
        ):
            made.setdefault(agreed(there), []).append((position.rank, there))
    sides = [(tuple(rank for rank, _ in side), side[0][1]) for side in made.values()]
    return tuple(sorted(sides, key=lambda side: (-len(side[0]), side[0])))


def _line(error: BaseException) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
