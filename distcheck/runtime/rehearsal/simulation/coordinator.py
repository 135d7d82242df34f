"""The parent's side of a rehearsal's agreement: ranks ask here before each call, and are told when to stop.

It serves a Unix socket in lines of JSON: a store for the side threads that *watch* has too, a table of calls that must
agree, and the ends of the ranks. It judges the monitor itself, for it can't be stopped or killed by the script.
"""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any

from distcheck.core.facts_file import from_plain
from distcheck.runtime.coordination.coordinator import Coordinator, MonitorReporter
from distcheck.runtime.coordination.hang_detector import GONE, standstill
from distcheck.runtime.coordination.model import SETUP, CallMismatch, CollectiveCall, Position, Positions
from distcheck.runtime.coordination.processes import kernel_state
from distcheck.runtime.coordination.protocol import COORDINATOR
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.rank_monitor import space
from distcheck.runtime.coordination.root_cause import tells_of_lost_peer
from distcheck.runtime.coordination.store_client import MemoryStore

from .call_matching import CallTable, RankCall, Ticket
from .plan import RehearsalPlan
from .socket_server import STORE_METHODS, Server

#: In the private folder: the path of the socket. A path in a socket's address has 108 bytes, and a folder may be deep.
ADDRESS = "coordinator"
_LONGEST = 100
#: Exit status of a rank that was told to stop.
STOPPED = 76
#: Seconds between two looks at all ranks, and two posts of each: this is one machine, and few of them.
TICK_S = 0.25
#: Looks after which a rank that lost a peer has lost it: the one that went has told so by then.
_LOOKS_AT_THE_LOST = 4
#: Seconds that ranks stand before those that have done their steps are let go on.
_LET_ON_S = 1.0


class RehearsalCoordinator(MonitorReporter):
    """Serves the ranks of one rehearsal."""

    def __init__(self, plan: RehearsalPlan) -> None:
        self.plan = plan
        self.store = MemoryStore()
        #: why nobody looks any more whether ranks stand; "" while somebody does
        self.trouble = ""
        self._changed = threading.Condition()
        self._table = CallTable()
        self._rank_infos: dict[int, RankInfo] = {}
        self._gone: dict[int, int] = {}
        self._departed: set[int] = set()
        #: rank → optimizer steps, of those that wait until all have done theirs
        self._finished: dict[int, int] = {}
        self._over = False
        self._verdict: Positions | None = None
        self._reason = ""
        self._closing = threading.Event()
        self._looking = threading.Lock()
        self._looks: _Judge | None = None
        self._server: Server | None = None
        self._folder = ""

    def start(self) -> None:
        """Serve from now on, in threads."""
        path = os.path.join(self.plan.private, "coordinator.socket")
        if len(os.fsencode(path)) > _LONGEST:
            self._folder = tempfile.mkdtemp(prefix="distcheck-")
            path = os.path.join(self._folder, "socket")
        self._server = Server(path, self.answer)
        with open(os.path.join(self.plan.private, ADDRESS), "w", encoding="utf-8") as file:
            file.write(path)
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        threading.Thread(target=self._judge, daemon=True).start()

    def verdict(self) -> Positions | None:
        """A mismatch or a hang, with the stacks of all ranks; None while there is none."""
        return self._verdict

    def over(self) -> bool:
        """Whether the ranks that have done their steps were told to end."""
        return self._over

    def unfinished(self) -> tuple[int, ...]:
        """Ranks that had not done their steps when the others had done twice as many."""
        if not self._over:
            return ()
        ended = {*self._finished, *self._gone, *self._departed}
        return tuple(rank for rank in sorted(self._rank_infos) if rank not in ended)

    def rank_infos(self) -> dict[int, RankInfo]:
        """Who has said which rank it is."""
        with self._changed:
            return dict(self._rank_infos)

    def gone(self, rank: int, status: int) -> None:
        """The process of a rank has ended.

        :param status: exit status, or minus the signal's number
        """
        with self._changed:
            self._gone[rank] = status
            self._changed.notify_all()
            all_gone = set(self._rank_infos) <= set(self._gone)
        if all_gone:
            # a wait that ended with an error may have ended the last of them a moment ago
            self._turn(last=True)

    def stop(self, reason: str) -> None:
        """Tell all ranks to end, now."""
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
        if self._folder:
            os.rmdir(self._folder)

    # what ranks ask

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to one line, when there is one: some wait for other ranks."""
        what = asked["do"]
        if what in STORE_METHODS:
            return {"value": getattr(self.store, what)(*asked["with"])}
        if what == "agree":
            return self._agree(RankCall(asked["rank"], tuple(asked["ranks"]), asked["ordinal"],
                                     from_plain(CollectiveCall, asked["call"])), asked["waits"])  # fmt: skip
        if what == "finished":
            return self._finish(asked["rank"], asked["steps"])
        if what == "sit":
            return self._sit(RankInfo(asked["rank"], asked["world_size"], pid=asked["pid"]))
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
            # a call that differs must not begin, for what torch makes of it would bury it
            if waits or ticket in self._table.differing:
                self._changed.wait_for(lambda: self._table.met(ticket) or self._closing.is_set())
        return {}

    def _finish(self, rank: int, steps: int) -> dict[str, Any]:
        with self._changed:
            self._finished[rank] = steps
            self._end_together()
            # who has done twice what was asked has waited for the others long enough
            if steps >= 2 * (self.plan.steps or 1) + 1:
                self._over = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or rank not in self._finished or self._closing.is_set())
            return {"end": self._over or self._closing.is_set()}

    def _end_together(self) -> None:
        """All that still run have done their steps."""
        everybody = set(self._rank_infos) or set(range(self.plan.world_size))
        if self._finished and everybody <= {*self._finished, *self._gone, *self._departed}:
            self._over = True
            self._changed.notify_all()

    # the judge

    def _judge(self) -> None:
        while not self._closing.wait(TICK_S) and self._verdict is None and not self.trouble:
            self._turn()

    def _turn(self, *, last: bool = False) -> None:
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
        with self._looking:
            if self._looks is None or self._looks.world_size != world:
                self._looks = _Judge(self, world)
            try:
                self._looks.turn(last=last)
            except Exception as error:  # noqa: BLE001 - the parent asks, and must not wait for what does not come
                self.trouble = f"{type(error).__name__}: {error}"

    def hang(self, positions: Positions) -> None:
        """Take the first hang as the verdict, unless its cause is an exception that is reported by itself."""
        if _only_follows(positions):
            return
        with self._changed:
            if self._verdict is None and not self._reason:
                self._verdict = positions
                self._changed.notify_all()

    def differing(self) -> dict[str, Ticket]:
        """Group → the first of its calls that differs."""
        with self._changed:
            return {ticket.group: ticket for ticket in reversed(self._table.differing)}

    def mismatch(self, ticket: Ticket) -> CallMismatch:
        with self._changed:
            return self._table.mismatch(ticket)

    def statuses(self) -> dict[int, int]:
        with self._changed:
            return dict(self._gone)

    def last_calls(self) -> dict[int, CollectiveCall]:
        """Rank → the call that it has told last."""
        with self._changed:
            return dict(self._table.last)

    def groups(self) -> dict[str, tuple[int, ...]]:
        """Names of groups in which calls were made."""
        with self._changed:
            return {group: ranks for group, ranks in self._table.groups() if not group.startswith(SETUP)}

    def let_on(self, judge: Coordinator) -> None:
        """Ranks that have done their steps go on where another can't without them."""
        finished = set(self._finished)
        if not finished or self._over:
            return
        positions = judge.positions()
        ranks = tuple(
            position._replace(state="left") if position.rank in finished else position for position in positions.ranks
        )
        for wait in standstill(positions._replace(ranks=ranks)):
            if wait.since_s >= _LET_ON_S:
                with self._changed:
                    for rank in finished.intersection(wait.missing):
                        self._finished.pop(rank, None)
                    self._changed.notify_all()


class _Judge(Coordinator):
    """Looks at all ranks from outside; no rank takes its place."""

    def __init__(self, coordinator: RehearsalCoordinator, world_size: int) -> None:
        super().__init__(
            coordinator.store, world_size, coordinator, hang_timeout_s=coordinator.plan.hang_timeout_s, tick_s=TICK_S,
            space=space(), folder=coordinator.plan.folder,
        )  # fmt: skip
        self.coordinator = coordinator
        self._beat = 0
        self._lost_looks = 0

    def turn(self, *, last: bool = False) -> None:
        """Look once.

        :param last: all have ended
        """
        self._beat += 1
        self._store.set(COORDINATOR, f"-1 {self._beat} {self.question}")
        ends = self.coordinator.statuses()
        self.known = {rank: _end(rank, status) for rank, status in ends.items()}
        if not self.look(self._beat) and self._lost_a_peer(last):
            self.look_back()
        self.coordinator.let_on(self)
        self._store.set(COORDINATOR, f"-1 {self._beat} {self.question}")

    def first_to_tell(self) -> bool:
        """A rank that has lost a peer looks back too; what it sees goes nowhere."""
        return True

    def _lost_a_peer(self, last: bool) -> bool:
        """Whether a wait has ended with an error, and whoever left it has had the time to say so."""
        lost = any(
            post.position[3] == "raised" and tells_of_lost_peer(post.position[9]) for post in self.posts.values()
        )
        self._lost_looks = self._lost_looks + 1 if lost else 0
        return lost if last else self._lost_looks == _LOOKS_AT_THE_LOST

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
    """Whether all that stands waits for ranks that have raised: those are told by themselves."""
    by_rank = {position.rank: position for position in positions.ranks}
    missing = [by_rank[rank] for wait in standstill(positions) for rank in wait.missing if rank in by_rank]
    ended = [position for position in missing if position.state in GONE]
    return not positions.mismatches and bool(ended) and all(position.state == "raised" for position in ended)


def _with_last(position: Position, call: CollectiveCall) -> Position:
    """A rank that was ended or stopped between two posts had made more calls than it could tell there."""
    if call.group.startswith(SETUP) or position.entered.get(call.group, 0) >= call.number:
        return position
    entered = {**position.entered, call.group: call.number}
    return position._replace(entered=entered, call=call if position.state in GONE else position.call)


def _end(rank: int, status: int) -> Position:
    """What the parent knows of an end that the rank itself has not told."""
    return Position(rank, state="left", status=status, detail="" if status >= 0 else f"signal {-status}")
