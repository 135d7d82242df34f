"""The parent of a rehearsal: it lets each collective begin when all ranks agree, and ends the ranks together.

It serves a Unix socket in lines of JSON: the store of the monitors, a table of calls that must agree, and the ends of
ranks. It is the coordinator, because the script cannot stop or kill it.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from distcheck.core.facts_file import from_plain
from distcheck.runtime.coordination.coordinator import Coordinator, MonitorReporter
from distcheck.runtime.coordination.hang_detector import ABSENT, deadlocks
from distcheck.runtime.coordination.model import SETUP, CallMismatch, CollectiveCall, Position, Positions
from distcheck.runtime.coordination.processes import kernel_state
from distcheck.runtime.coordination.protocol import COORDINATOR, OFF
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.rank_monitor import space
from distcheck.runtime.coordination.root_cause import reports_lost_peer
from distcheck.runtime.coordination.store_client import MemoryStore

from .call_matching import CallTable, RankCall, Ticket
from .own_folders import MEMORY, OwnFolder
from .plan import RehearsalPlan
from .socket_server import STORE_METHODS, Server

#: In the private folder: the path of the socket. A path in a socket's address has 108 bytes, and a folder may be deep.
ADDRESS = "coordinator"
_LONGEST = 100
#: Exit status of a rank that the parent stops.
STOPPED = 76
#: Seconds between two ticks of the coordinator, and two heartbeats of a rank: there are few ranks, on one machine.
TICK_S = 0.25
#: Ticks after which a lost peer is judged: the rank that exited has reported it by then.
_LOST_PEER_CHECKS = 4
#: Seconds in which ranks may do more steps than they have to; and of the time until then, on a slow machine.
_MORE_STEPS_S, _MORE_STEPS_SHARE = 5.0, 0.25
#: Seconds of a hang after which ranks that completed their steps continue.
_RELEASE_AFTER_S = 1.0


class RehearsalCoordinator(MonitorReporter):
    """Serves the ranks of one rehearsal."""

    def __init__(self, plan: RehearsalPlan) -> None:
        self.plan = plan
        self.store = MemoryStore()
        #: why hangs are no longer detected; "": they are
        self.error = ""
        self._changed = threading.Condition()
        self._table = CallTable()
        self._rank_infos: dict[int, RankInfo] = {}
        self._gone: dict[int, int] = {}
        self._departed: set[int] = set()
        #: rank → optimizer steps, of ranks that wait until all have completed theirs
        self._finished: dict[int, int] = {}
        #: steps at which all ranks are to be together again, and until when they may do more
        self._steps = plan.steps or 1
        self._begun = time.monotonic()
        self._more_until = 0.0
        self._over = False
        self._verdict: Positions | None = None
        self._reason = ""
        self._closing = threading.Event()
        self._judging_lock = threading.Lock()
        self._judge_of_ranks: _Judge | None = None
        self._server: Server | None = None
        self._folder: OwnFolder | None = None

    def start(self) -> None:
        """Serve in threads from now on."""
        path = os.path.join(self.plan.private, "coordinator.socket")
        if len(os.fsencode(path)) > _LONGEST:
            self._folder = OwnFolder(MEMORY if os.access(MEMORY, os.W_OK) else None)
            path = os.path.join(self._folder.path, "socket")
        self._server = Server(path, self.answer)
        with open(os.path.join(self.plan.private, ADDRESS), "w", encoding="utf-8") as file:
            file.write(path)
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        threading.Thread(target=self._judge, daemon=True).start()

    def verdict(self) -> Positions | None:
        """Return a mismatch or a hang, with the stacks of all ranks, or None."""
        return self._verdict

    def over(self) -> bool:
        """Return whether the ranks that completed their steps may end."""
        return self._over

    def unfinished(self) -> tuple[int, ...]:
        """Return ranks that had not completed their steps when the others had done twice as many."""
        if not self._over:
            return ()
        ended = {*self._finished, *self._gone, *self._departed}
        return tuple(rank for rank in sorted(self._rank_infos) if rank not in ended)

    def gone(self, rank: int, status: int) -> None:
        """Record that the process of a rank exited.

        :param status: exit status, or minus the signal's number
        """
        with self._changed:
            self._gone[rank] = status
            self._changed.notify_all()
            all_gone = set(self._rank_infos) <= set(self._gone)
        if all_gone:
            # a wait that ended with an error may have ended the last of them a moment ago
            self._tick(last=True)

    def stop(self, reason: str) -> None:
        """Make all ranks exit, now."""
        with self._changed:
            self._reason = self._reason or reason
            self._changed.notify_all()

    def close(self) -> None:
        """Serve no longer."""
        self._closing.set()
        self.stop("the rehearsal is over")
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            os.unlink(self._server.path)
        if self._folder is not None:
            self._folder.remove()

    # requests of ranks

    def answer(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one line; some requests wait for other ranks."""
        what = query["do"]
        if what in STORE_METHODS:
            return {"value": getattr(self.store, what)(*query["with"])}
        if what == "agree":
            return self._agree(RankCall(query["rank"], tuple(query["ranks"]), query["ordinal"],
                                     from_plain(CollectiveCall, query["call"])), query["waits"])  # fmt: skip
        if what == "finished":
            return self._finish(query["rank"], query["steps"], query["step_s"])
        if what == "sit":
            return self._sit(RankInfo(query["rank"], query["world_size"], pid=query["pid"]))
        if what == "listen":
            with self._changed:
                self._changed.wait_for(lambda: bool(self._reason))
                return {"stop": self._reason}
        return {"error": f"nothing answers to {what!r}"}

    def _sit(self, rank_info: RankInfo) -> dict[str, Any]:
        with self._changed:
            self._rank_infos[rank_info.rank] = rank_info
        return {}

    def _agree(self, entry: RankCall, waits: bool) -> dict[str, Any]:
        with self._changed:
            ticket = self._table.enter(entry)
            self._changed.notify_all()
            # a call that differs must not begin: the failure in torch would hide it
            if waits or ticket in self._table.differing:
                self._changed.wait_for(lambda: self._table.met(ticket) or self._closing.is_set())
        return {}

    def _finish(self, rank: int, steps: int, step_s: float) -> dict[str, Any]:
        with self._changed:
            self._finished[rank] = steps
            now = time.monotonic()
            more_s = max(_MORE_STEPS_S, _MORE_STEPS_SHARE * (now - self._begun))
            self._more_until = self._more_until or now + more_s
            self._end_together(step_s)
            # a rank with twice the steps has waited long enough for the others
            if steps >= 2 * self._steps + 1:
                self._over = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or rank not in self._finished or self._closing.is_set())
            return {"end": self._over or self._closing.is_set()}

    def _end_together(self, step_s: float = 0.0) -> None:
        """If all ranks that still run have completed their steps, end the rehearsal or let all do one more step."""
        everybody = set(self._rank_infos) or set(range(self.plan.world_size))
        if self._finished and everybody <= {*self._finished, *self._gone, *self._departed}:
            done = max(self._finished.values())
            if done < self.plan.most_steps and time.monotonic() + step_s < self._more_until and not self._over:
                self._steps = done + 1
                self._finished.clear()
            else:
                self._over = True
            self._changed.notify_all()

    # the judge

    def _judge(self) -> None:
        while not self._closing.wait(TICK_S) and self._verdict is None and not self.error:
            self._tick()

    def _tick(self, *, last: bool = False) -> None:
        here = space()
        with self._changed:
            world = max((rank_info.world_size for rank_info in self._rank_infos.values()), default=self.plan.world_size)
            if here:
                # the parent of ranks that the script has started is not this process
                self._departed = {
                    rank
                    for rank, rank_info in self._rank_infos.items()
                    if kernel_state(rank_info.pid) in ("", "Z", "X")
                }
            self._end_together()
        with self._judging_lock:
            if self._judge_of_ranks is None or self._judge_of_ranks.world_size != world:
                self._judge_of_ranks = _Judge(self, world)
            try:
                self._judge_of_ranks.tick(last=last)
                self.error = self._judge_of_ranks.unobserved
            except Exception as error:  # noqa: BLE001 - the parent must not wait for a verdict that never comes
                self.error = f"{type(error).__name__}: {error}"

    def hang(self, positions: Positions) -> None:
        """Take the first hang as the verdict, unless its cause is an exception that is reported by itself."""
        if _only_follows(positions):
            return
        with self._changed:
            if self._verdict is None and not self._reason:
                self._verdict = positions
                self._changed.notify_all()

    def differing(self) -> dict[str, Ticket]:
        """Return for each group the first of its calls that differs."""
        with self._changed:
            return {ticket.group: ticket for ticket in reversed(self._table.differing)}

    def mismatch(self, ticket: Ticket) -> CallMismatch:
        with self._changed:
            return self._table.mismatch(ticket)

    def statuses(self) -> dict[int, int]:
        with self._changed:
            return dict(self._gone)

    def last_calls(self) -> dict[int, CollectiveCall]:
        """Return for each rank the last call that it registered."""
        with self._changed:
            return dict(self._table.last)

    def groups(self) -> dict[str, tuple[int, ...]]:
        """Return the ranks of each group in which calls were made."""
        with self._changed:
            return {group: ranks for group, ranks in self._table.groups() if not group.startswith(SETUP)}

    def release_finished(self, judge: Coordinator) -> None:
        """Let ranks that completed their steps continue if another rank waits for them."""
        finished = set(self._finished)
        if not finished or self._over:
            return
        positions = judge.positions()
        ranks = tuple(
            position._replace(state="left") if position.rank in finished else position for position in positions.ranks
        )
        for wait in deadlocks(positions._replace(ranks=ranks)):
            if wait.since_s >= _RELEASE_AFTER_S:
                with self._changed:
                    for rank in finished.intersection(wait.missing):
                        self._finished.pop(rank, None)
                    self._changed.notify_all()


class _Judge(Coordinator):
    """The coordinator in the parent; no rank takes over."""

    def __init__(self, coordinator: RehearsalCoordinator, world_size: int) -> None:
        super().__init__(
            coordinator.store, world_size, coordinator, hang_timeout_s=coordinator.plan.hang_timeout_s, tick_s=TICK_S,
            space=space(), folder=coordinator.plan.folder,
        )  # fmt: skip
        self.coordinator = coordinator
        self._beat = 0
        self._lost_checks = 0

    def tick(self, *, last: bool = False) -> None:
        """Read and judge once.

        :param last: all ranks have exited
        """
        self._beat += 1
        self._store.set(COORDINATOR, f"-1 {self._beat} {self.question}")
        ends = self.coordinator.statuses()
        self.known = {rank: _end(rank, status) for rank, status in ends.items()}
        if not self.look(self._beat) and self._has_lost_peer(last):
            self.check_lost_peer()
        self.coordinator.release_finished(self)
        self._store.set(COORDINATOR, f"-1 {self._beat} {self.question}")

    @property
    def unobserved(self) -> str:
        """Return which rank stopped sending its position because of an error of ours; "": none."""
        return next((f"rank {rank} sends no positions" for rank, head in self._headers.items() if head.beat == OFF), "")

    def claim_report(self) -> bool:
        """Return True: the reports of the ranks themselves are not used."""
        return True

    def _has_lost_peer(self, last: bool) -> bool:
        """Return whether a wait ended with an error, and the rank that exited had time to report it."""
        positions = (heartbeat.position for heartbeat in self.heartbeats.values())
        lost = any(position[3] == "raised" and reports_lost_peer(position[9]) for position in positions)
        self._lost_checks = self._lost_checks + 1 if lost else 0
        return lost if last else self._lost_checks == _LOST_PEER_CHECKS

    def positions(self, *, judged: bool = False, final: bool = False) -> Positions:
        positions = super().positions(judged=judged, final=final)
        last = self.coordinator.last_calls()
        ranks = tuple(_with_last(item, last[item.rank]) if item.rank in last else item for item in positions.ranks)
        return positions._replace(ranks=ranks, groups={**self.coordinator.groups(), **positions.groups})

    def _mismatches(self) -> dict[str, tuple[int, int]]:
        return {group: (0, ticket.ordinal) for group, ticket in self.coordinator.differing().items()}

    def _mismatch(self, group: str, between: tuple[int, int]) -> CallMismatch:
        return self.coordinator.mismatch(self.coordinator.differing()[group])


def _only_follows(positions: Positions) -> bool:
    """Return whether all hung ranks wait for ranks that raised, which are reported by themselves."""
    by_rank = positions.by_rank
    missing = [by_rank[rank] for wait in deadlocks(positions) for rank in wait.missing if rank in by_rank]
    ended = [position for position in missing if position.state in ABSENT]
    return not positions.mismatches and bool(ended) and all(position.state == "raised" for position in ended)


def _with_last(position: Position, call: CollectiveCall) -> Position:
    """Return a position with the last registered call, which may be newer than the last heartbeat."""
    if call.group.startswith(SETUP) or position.entered.get(call.group, 0) >= call.number:
        return position
    entered = {**position.entered, call.group: call.number}
    return position._replace(entered=entered, call=call if position.state in ABSENT else position.call)


def _end(rank: int, status: int) -> Position:
    """Return the position of a rank that exited without a last heartbeat."""
    return Position(rank, state="left", status=status, detail="" if status >= 0 else f"signal {-status}")
