"""The side thread of *watch*: it sends this rank's heartbeats, and on one rank it is the coordinator.

It has its own connection to the store, requests nothing from the main thread, and never waits for another rank. Each
rank writes a heartbeat under its own key once per tick, and the coordinator reads all of them. If the thread fails, it
reports that once and ends; the job is not affected.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable

from .call_mismatch import sides_of
from .call_recorder import CallRecorder
from .coordinator import SILENT_TICKS, Coordinator, MonitorReporter, hand_over
from .hang_detector import group_name
from .ledger import Ledger, ledger_of, read_summary
from .model import CallMismatch, CollectiveCall, Frame, Position, Positions, RecordedCall
from .processes import kernel_state, usable_cores
from .protocol import (
    ABORT,
    CLOSING,
    COORDINATOR,
    ENDED,
    MISMATCH_REPORTED,
    OFF,
    RELEASED,
    REQUEST,
    DetailRequest,
    Heartbeat,
    differs_key,
    ledger_key,
    packed,
    packed_heartbeat,
    rank_key,
    read_request,
    stack_key,
)
from .rank_info import RankInfo
from .rank_state import RankStateReader
from .root_cause import reports_lost_peer
from .shared_table import OtherRank
from .store_client import StoreClient, StoreConnection, StoreLost
from .worker_calls import WorkerCall

#: Default of ``--hang-timeout``, in seconds.
HANG_TIMEOUT_S = 20.0
#: Seconds between two heartbeats. They are longer in big jobs, where one store serves all ranks: a thousand heartbeats
#: a second take some percent of its one thread (2.4 µs to send, some 10 µs to serve, torch 2.13).
_TICK_S = 1.0
_HEARTBEATS_PER_S = 2000.0
#: Seconds in which another rank of this host answers, or the side thread completes its tick.
_ANSWER_WITHIN_S = 3.0
#: Seconds that the end may take, and that rank 0, whose process serves the store, waits for the last ledgers.
_LEAVE_WITHIN_S, _LAST_LEDGERS_S = 4.0, 1.0
#: Seconds that the report of calls that differ may take, once the other rank has answered.
_REPORT_WITHIN_S = 5.0
#: Hang timeouts, and seconds at least, in which a process ends after its script, with ``--on-hang abort``.
_END_FACTOR, _END_S = 6.0, 10.0
#: The exit status of a job that is ended by ``--on-hang abort``.
ABORTED = 1


class RankMonitor:
    """The side thread of one rank; the observer of its calls.

    :param rank_info: the rank of this process, or a function that returns it as soon as it is known
    :param abort: end the job when it hangs
    :param tick_s: seconds between two heartbeats; None: by the hang timeout
    :param on_tick: further work with the store in each tick, and once more at the end of the script (then True)
    """

    def __init__(
        self,
        calls: CallRecorder,
        rank_info: RankInfo | Callable[[], RankInfo | None],
        connection: StoreConnection,
        reporter: MonitorReporter,
        *,
        hang_timeout_s: float = HANG_TIMEOUT_S,
        abort: bool = False,
        tick_s: float | None = None,
        on_tick: Callable[[StoreClient, int, bool], None] | None = None,
    ) -> None:
        self.calls = calls
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
        self._tick_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="distcheck watch", daemon=True)
        self._beat = 0
        self._begun = time.monotonic()
        self._request_number = 0
        self._question: tuple[int, DetailRequest] = (0, DetailRequest())
        self._calls_sent: tuple[int, dict[str, list[tuple[int, CollectiveCall]]]] = (0, {})
        self._kept_stacks: set[str] = set()
        self._space = space()
        self._coordinator_seen: tuple[str, float] = ("", self._begun)
        self._is_coordinator = False
        #: None until the rank is known
        self._coordinator: Coordinator | None = None
        self._on_tick = on_tick
        self._report_failure: Callable[[], None] | None = None
        #: SIGTERM is only noted, and one came
        self._outlasts = self._signalled = False

    # the main thread

    def start(self) -> None:
        """Start the side thread."""
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no thread left
            self._reporter.line(f"distcheck watch: this process is not watched: {_line(error)}")

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def before(self, call: RecordedCall, waits: bool) -> None:
        """Let every call begin; follow one in a group that this process only has from its parent."""
        if self.calls.is_in_group_of_parent(call.call):
            timer = threading.Timer(self.hang_timeout_s, self._report_worker_call, (call,))
            timer.daemon = True
            timer.start()

    def _report_worker_call(self, note: RecordedCall) -> None:
        """Report a call of this child that has not ended, and end the child with ``--on-hang abort``."""
        if note not in list(self.calls.inside.values()):
            return
        try:
            store = self._connection.open()
        except Exception:  # noqa: BLE001 - the report matters more than that it is made once
            store = None
        rank = os.environ.get("RANK", "")
        outcome = f", and has not returned for {self.hang_timeout_s:.0f} s"
        call = note.call
        self._reporter.worker_call(
            WorkerCall(call.operation, call.place, call.function, int(rank) if rank.isdigit() else None, outcome), store
        )
        if self.abort:
            # its parent then raises that a worker exited, and the launcher ends the job
            self._abort()

    def joining(self, given: object) -> None:
        """Start, or connect to another store: the script is about to make its default group.

        :param given: arguments of ``init_process_group``; None after it has returned
        """
        if given is None:
            return
        if not self.started:
            self.start()
        elif not self._connection.outlives_ranks and self._tick_lock.acquire(timeout=_LEAVE_WITHIN_S):
            # the store of the earlier group must not be used for this one
            self._store = self._coordinator = None
            self._connection.release()
            self._tick_lock.release()

    @property
    def _ends_within_s(self) -> float:
        return max(_END_FACTOR * self.hang_timeout_s, _END_S)

    @property
    def _client(self) -> StoreClient:
        if self._store is None:
            raise StoreLost("there is no connection to a store")
        return self._store

    @property
    def rank_info(self) -> RankInfo:
        return self._here.rank_info

    def ended(
        self,
        state: str,
        status: int,
        detail: str = "",
        stack: tuple[Frame, ...] = (),
        report_failure: Callable[[], None] | None = None,
    ) -> None:
        """Record that the script ended; the next heartbeat, or :meth:`leave`, reports it.

        :param report_failure: reports what the exception means; called by one rank of those that raised
        """
        self._report_failure = report_failure
        self._here.ended(state, status, detail, stack)
        if state == "raised" and reports_lost_peer(detail):
            self._outlast_launcher()

    def _outlast_launcher(self) -> None:
        """Only note SIGTERM until :meth:`leave`: torchrun sends it 0.1 s after a rank has failed, before the report.

        The script has ended. A handler of its own stays.
        """
        with contextlib.suppress(ValueError):  # a child whose script does not run in the main thread
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._note_signal)
                self._outlasts = True

    def _note_signal(self, *_: object) -> None:
        self._signalled = True

    def leave(self) -> None:
        """End the thread before the interpreter ends: it must not be inside the store's library then."""
        if os.getpid() != self._pid or not self._thread.is_alive():
            return
        self._stop.set()
        self._thread.join(_LEAVE_WITHIN_S)
        if self._outlasts:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self._signalled:
                os.kill(self._pid, signal.SIGTERM)
        if self.abort and self._coordinator is not None:
            # what the interpreter releases may wait for other ranks; only a thread of C sees that
            with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
                faulthandler.dump_traceback_later(self._ends_within_s, exit=True, file=sys.__stderr__)  # type: ignore[arg-type]

    def differs(self, note: RecordedCall, other: OtherRank) -> None:
        """Report a call that differs from that of another rank of this host, before it begins.

        The call may end this process or another one, and the launcher then ends all.
        """
        if not self._report_mismatch(note, other):
            self._wait_for_report(note)

    def _report_mismatch(self, note: RecordedCall, other: OtherRank) -> bool:
        """Report a mismatch; return False if another rank reports it now."""
        if not self._tick_lock.acquire(timeout=_ANSWER_WITHIN_S):
            return True
        try:
            if self._coordinator is None:
                # before the first tick of the thread
                self._begin()
            coordinator = self._coordinator
            if coordinator is None:
                return True
            if not coordinator.claim_report():
                return False
            positions = self._positions_with(coordinator, other)
            here = self._here.waiting_in(note)
            there = positions.ranks[other.rank]
            if not _is_in(there, other.call):
                there = there._replace(state="waiting", call=other.call, stack=(), since_s=0.0)
            known = {here.rank: here, there.rank: there}
            ranks = tuple(known.get(position.rank, position) for position in positions.ranks)
            calls = [(position.rank, position.awaited_call) for position in ranks]
            sides = sides_of((rank, call) for rank, call in calls if call is not None and _is_same(call, note.call))
            differs = CallMismatch(note.call.group, note.call.number, sides)
            self._client.set(differs_key(note.call.group), str(self.rank_info.rank))
            coordinator.report(positions._replace(ranks=ranks, mismatches=(differs,)))
            self._client.set(MISMATCH_REPORTED, "1")
        except Exception as error:  # noqa: BLE001 - no error may reach the job
            self._reporter.line(
                f"distcheck watch: rank {self.rank_info.rank} could not report calls that differ: {_line(error)}"
            )
        finally:
            self._tick_lock.release()
        return True

    def _wait_for_report(self, note: RecordedCall) -> None:
        """Wait until another rank has reported the calls that differ; heartbeats show this rank in its call."""
        end = time.monotonic() + self._answers_within_s() + _REPORT_WITHIN_S
        thread = threading.get_ident()
        self.calls.inside[thread] = note
        try:
            while time.monotonic() < end:
                with self._tick_lock:
                    if self._store is None or self._client.check([MISMATCH_REPORTED]):
                        return
                time.sleep(self.tick_s / 20)
        except Exception as error:  # noqa: BLE001 - no error may reach the job
            self._reporter.line(
                f"distcheck watch: rank {self.rank_info.rank} could not wait for another rank: {_line(error)}"
            )
        finally:
            del self.calls.inside[thread]

    def _positions_with(self, coordinator: Coordinator, other: OtherRank) -> Positions:
        """Return all positions, once the heartbeat of the other rank shows its call and its earlier calls.

        The other rank waits for this one, which does not begin its call meanwhile.
        """
        within_s = self._answers_within_s()
        end = time.monotonic() + within_s
        if self.calls.shared_table is not None:
            self.calls.shared_table.request_details(within_s)
        while True:
            coordinator.read()
            positions = coordinator.positions()
            there = positions.ranks[other.rank]
            # only a detailed heartbeat holds earlier calls
            if (_is_in(there, other.call) and there.recent) or time.monotonic() > end:
                return positions
            time.sleep(self.tick_s / 20)

    def _answers_within_s(self) -> float:
        """Return the seconds in which a rank answers a request through the shared table."""
        return max(2 * self.tick_s, _ANSWER_WITHIN_S)

    # the thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with self._tick_lock:
                    if self._coordinator is None:
                        self._begin()
                    if self._coordinator is not None and not self._tick(self._coordinator):
                        return
                self._stop.wait(self.tick_s)
            if self._coordinator is None and self._here.end is not None:
                # the script ended before the first tick
                self._begin()
            if self._coordinator is not None and self._here.end is not None:
                self._finish(self._coordinator)
        except Exception as error:  # noqa: BLE001 - no error may reach the job
            self._give_up(error)

    def _begin(self) -> None:
        """Connect, if there is a store and the rank is known."""
        rank_info = self._rank_infos()
        store = None if rank_info is None else self._connection.open()
        if rank_info is None or store is None:
            return
        self._store = store
        self.tick_s = max(self.tick_s, rank_info.world_size / _HEARTBEATS_PER_S)
        self._here.joined(rank_info, min(2 * self.tick_s, self.hang_timeout_s / 2))
        if rank_info.rank == 0 and not (store.get(COORDINATOR) or "-").startswith("-"):
            # keys of an earlier attempt: the launcher restarted the job
            for rank in range(rank_info.world_size):
                store.delete_key(rank_key(rank))
            # not deleted: another rank may be about to read it
            store.set(COORDINATOR, "0 0 0")
        self._coordinator = Coordinator(
            store, rank_info.world_size, self._reporter, rank=rank_info.rank, hang_timeout_s=self.hang_timeout_s,
            tick_s=self.tick_s, space=self._space,
        )  # fmt: skip

    def _tick(self, coordinator: Coordinator) -> bool:
        """Send a heartbeat, and coordinate if elected; return False for the last tick."""
        if not self._connection.outlives_ranks and self.rank_info.rank and self._client.check([CLOSING]):
            self._client.add(RELEASED, 1)
            return False
        self._beat += 1
        self._send_heartbeat()
        if self._on_tick is not None:
            self._on_tick(self._client, self.rank_info.rank, False)
        self._is_coordinator = self._elect(coordinator)
        if self.abort and self._here.idle_since_end_s() >= self._ends_within_s:
            self._reporter.line(
                f"distcheck watch: the script of rank {self.rank_info.rank} has ended, and its process has done "
                f"nothing for {self._ends_within_s:.0f} s and does not end; it ends with status {ABORTED}"
            )
            with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
                faulthandler.dump_traceback(sys.__stderr__)  # type: ignore[arg-type]
            self._abort()
        # a stranger who reaches the store may write the key, too
        if self._request_number == ABORT and self.abort:
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
        """End this process for ``--on-hang abort``: the main thread cannot return."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(ABORTED)

    def _elect(self, coordinator: Coordinator) -> bool:
        """Return whether this rank is the coordinator: rank 0 first, then a rank that takes over when it exits."""
        mine = f"{self.rank_info.rank} "
        if self._beat == 1 and self.rank_info.rank == 0:
            self._client.compare_set(COORDINATOR, "", f"{mine}0 0")
        value = self._client.get(COORDINATOR)
        if value is None:
            return False
        who, _, rest = value.partition(" ")
        beat, _, question = rest.partition(" ")
        self._request_number = int(question)
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

    def _give_up(self, error: Exception) -> None:
        if self._stop.is_set() or self._here.end is not None:
            return
        # a store that rank 0 serves ends with rank 0: an ordinary end
        if not isinstance(error, StoreLost):
            rank = (self._rank_infos() or self.rank_info).rank
            self._reporter.line(f"distcheck watch: rank {rank} no longer watches: {_line(error)}")
        if self._store is None:
            return
        with contextlib.suppress(Exception):
            self._client.set(rank_key(self.rank_info.rank), packed_heartbeat(Heartbeat(OFF, self._here.gave_up())))

    # the end

    def _finish(self, coordinator: Coordinator) -> None:
        self._beat += 1
        self._send_heartbeat()
        if self._report_failure is not None and coordinator.claim_report():
            self._report_failure()
        self._report_lost_peer(coordinator)
        if self._on_tick is not None:
            self._on_tick(self._client, self.rank_info.rank, True)
        self._write_ledger()
        if self._is_coordinator:
            hand_over(self._client, self.rank_info.rank, coordinator.question)
        if not self._connection.outlives_ranks:
            self._release_store()

    def _release_store(self) -> None:
        """Let the other ranks disconnect before rank 0 ends, and its store with it; they need one tick."""
        if self.rank_info.rank:
            self._client.add(RELEASED, 1)
        elif self._here.end is not None and self._here.end.status == 0:
            self._client.set(CLOSING, "1")
            end = time.monotonic() + 2 * self.tick_s
            while self._client.add(RELEASED, 0) < self.rank_info.world_size - 1 and time.monotonic() < end:
                time.sleep(0.02)

    def _report_lost_peer(self, coordinator: Coordinator) -> None:
        """Report a wait that ended with the loss of a peer (gloo notices at once): a hang that did not last."""
        end = self._here.end
        if end is None or end.state != "raised" or end.call is None or not reports_lost_peer(end.detail):
            return
        # the rank that exited has had its tick by then
        time.sleep(min(self.tick_s, 1.0))
        coordinator.check_lost_peer()

    def _write_ledger(self) -> None:
        """Write the ledger of this rank; the last rank reads all of them and reports the summary."""
        ledger = self.ledger()
        self._client.set(ledger_key(self.rank_info.rank), packed(ledger))
        world = self.rank_info.world_size
        last = self._client.add(ENDED, 1) == world
        if not self._connection.outlives_ranks:
            # the store ends with rank 0
            end = time.monotonic() + _LAST_LEDGERS_S
            keys = [ledger_key(rank) for rank in range(world)]
            while self.rank_info.rank == 0 and ledger.status == 0 and not last and time.monotonic() < end:
                last = self._client.check(keys)
                time.sleep(0.02)
            last = last and self.rank_info.rank == 0
        summary = read_summary(self._client, world) if last else None
        if summary is not None and summary.healthy:
            self._reporter.summary(summary)

    def ledger(self) -> Ledger:
        """Return the ledger of this rank up to now."""
        end = self._here.end
        return ledger_of(
            self.calls, self.rank_info, cores=usable_cores(), span_s=time.monotonic() - self._begun,
            looks=self._here.looks,
            state="computing" if end is None else end.state, status=0 if end is None else end.status or 0,
        )  # fmt: skip

    # heartbeats

    def _send_heartbeat(self) -> None:
        requested = self._request_number > 0
        table = self.calls.shared_table
        detailed = requested or (table is not None and table.details_requested)
        position = self._here.now(self._request_number, detailed=detailed)
        name = ""
        if detailed and position.stack:
            name, position = self._keep_stack(position.stack), position._replace(stack=())
        request = self._request() if requested else DetailRequest()
        heartbeat = Heartbeat(
            self._beat, position, self._here.digests(), self._space, self.calls.timeouts, self._request_number,
            self._here.groups() if detailed else {}, self._requested_calls(request), name,
            self._process_states(request),
        )  # fmt: skip
        self._client.set(rank_key(self.rank_info.rank), packed_heartbeat(heartbeat))

    def _request(self) -> DetailRequest:
        if self._question[0] != self._request_number:
            text = self._client.get(REQUEST)
            self._question = (self._request_number, DetailRequest() if text is None else read_request(text))
        return self._question[1]

    def _requested_calls(self, question: DetailRequest) -> dict[str, list[tuple[int, CollectiveCall]]]:
        """Return the requested calls; they are read once for each request."""
        if question.calls and self._calls_sent[0] != self._request_number:
            self._calls_sent = (self._request_number, self._here.calls_of(question))
        return self._calls_sent[1] if question.calls else {}

    def _process_states(self, question: DetailRequest) -> dict[str, str]:
        """Return the state letters of silent processes of this host."""
        return {rank: kernel_state(pid) for rank, pid in question.processes.get(self._space, {}).items()}

    def _keep_stack(self, stack: tuple[Frame, ...]) -> str:
        """Write a stack once under a name made from its content, and return the name."""
        text = packed(stack)
        name = f"{zlib.crc32(text.encode()):08x}{len(text):x}"
        if name not in self._kept_stacks:
            self._kept_stacks.add(name)
            if not self._client.check([stack_key(name)]):
                self._client.set(stack_key(name), text)
        return name


def space() -> str:
    """Return the boot and PID namespace, in which process IDs are unique; "" if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _is_in(position: Position, call: CollectiveCall) -> bool:
    """Return whether the heartbeat of a rank shows that it waits in this call."""
    there = position.awaited_call
    return there is not None and (there.number, there.place) == (call.number, call.place)


def _is_same(one: CollectiveCall, other: CollectiveCall) -> bool:
    """Return whether two ranks are at the same number of the same group."""
    return (one.group, one.number) == (other.group, other.number)


def _line(error: BaseException) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
