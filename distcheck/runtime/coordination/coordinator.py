"""The coordinator reads the heartbeats of all ranks, requests more on suspicion, and reports where the job hangs.

In a watched job one rank is the coordinator, in a rehearsal the parent process is. It reads only the headers of
heartbeats until ranks have waited for the hang timeout. Then it makes positions of them. With thousands of ranks it
does what costs more less often: the coordinator's rank may be the one that all others wait for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .call_mismatch import sides_of
from .call_recorder import MILESTONE
from .code_blocks import with_blocks
from .hang_detector import ABSENT, cause_of, hangs, is_hung, mismatched_waits, suspicious
from .ledger import Summary
from .long_waits import LongWait, long_waits
from .model import SETUP, CallMismatch, CollectiveCall, Position, Positions
from .processes import kernel_state
from .protocol import (
    COORDINATOR,
    LONG,
    OFF,
    REPORTED,
    REPORTING_RANK,
    REQUEST,
    DetailRequest,
    Heartbeat,
    HeartbeatHeader,
    differs_key,
    packed,
    rank_key,
    read_call,
    read_header,
    read_heartbeat,
    read_position,
    stack_key,
    unpacked_ranks,
)
from .root_cause import reports_lost_peer
from .store_client import StoreClient
from .worker_calls import WorkerCall

#: Ticks without a heartbeat after which a rank counts as silent.
SILENT_TICKS = 4
#: Hang timeouts that a rank of another host may be silent if no rank there can read the state of its process.
_UNSEEN_FACTOR = 3.0
#: Shares of time for the comparison of digests, and for the judgement of waits that are no hangs.
_COMPARING, _JUDGING = 0.005, 0.02
_NOT_YET = "it has not imported torch.distributed yet"


class MonitorReporter:
    """What a coordinator and a monitor report; the base class reports nothing. Called in their threads."""

    def hang(self, positions: Positions) -> None:
        """Report a hang, or calls that differ; called once for each."""

    def line(self, text: str) -> None:
        """Print a line for the user."""

    def long_wait(self, wait: LongWait) -> None:
        """Report a long wait for a rank that computes."""

    def worker_call(self, call: WorkerCall, store: StoreClient | None) -> None:
        """Report a collective of a child that does not end; called in the child."""

    def summary(self, summary: Summary) -> None:
        """Report the ledgers of all ranks; called by the last rank that ends."""


class _Reported(NamedTuple):
    """What was reported about the current hang; the default: nothing."""

    #: calls of all ranks that had returned when a hang, or calls that differ, were reported; None: nothing was
    at_done: int | None = None
    #: the job hangs; with a cause: in a call that differs, which was reported
    hangs: bool = False
    cause: CollectiveCall | None = None

    @property
    def hang(self) -> bool:
        """Return whether a hang was reported that no mismatch explains."""
        return self.hangs and self.cause is None


class Coordinator:
    """Reads the heartbeats of all ranks. Each rank has one, and one of them is active.

    :param rank: the rank of this process; -1: it is no rank of the job
    :param space: the boot and PID namespace in which this process sees other processes
    :param folder: that the paths of ranks are relative to; "": the working directory
    :param spent: returns the seconds of CPU time of this thread
    """

    def __init__(
        self,
        store: StoreClient,
        world_size: int,
        reporter: MonitorReporter,
        *,
        rank: int = -1,
        hang_timeout_s: float,
        tick_s: float,
        space: str = "",
        folder: str = "",
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self.world_size = world_size
        self.rank = rank
        #: rank → how it ended, where that is known better than from its heartbeats
        self.known: dict[int, Position] = {}
        #: number of the open request for details; 0: none
        self.question = 0
        #: rank → heartbeat that was parsed since it arrived
        self.heartbeats: dict[int, Heartbeat] = {}
        self._reported = _Reported()
        #: this process reports the current hang
        self._claimed = False
        self._store = store
        self._hang_timeout_s = hang_timeout_s
        self._tick_s = tick_s
        self._reporter = reporter
        self._space = space
        self._folder = folder
        self._clock = clock
        self._spent = spent
        self._stacks: dict[str, Sequence[Sequence[Any]]] = {}
        self._texts: dict[int, str] = {}
        self._headers: dict[int, HeartbeatHeader] = {}
        #: rank → time of its last new heartbeat
        self._heard: dict[int, float] = {}
        #: next times to compare digests and to judge waits
        self._compares_at = self._judges_at = clock()
        self._requested_at = 0.0
        #: groups whose mismatch was reported; mismatches in whose calls ranks may hang
        self._mismatched: set[str] = set()
        self._differ: tuple[CallMismatch, ...] = ()
        self._longest: dict[tuple[str, str], LongWait] = {}

    @property
    def hangs(self) -> bool:
        """Return whether the job hangs, and that was reported."""
        return self._reported.hangs

    @property
    def cause(self) -> CollectiveCall | None:
        """Return the reported call that differs in which the job hangs."""
        return self._reported.cause

    def take_over(self, question: int) -> None:
        """Continue for a coordinator that has exited, with its open question."""
        self.question = question

    def look(self, beat: int) -> bool:
        """Read and judge all ranks; return whether a hang or calls that differ were reported now.

        :param beat: a number that grows with each call
        """
        self.read()
        new = self._new_mismatches()
        if not new and not self._waits_long():
            self._reset()
            return False
        if not new and self._is_reported():
            return False
        begun = self._spent()
        positions = self.positions()
        if not new and not suspicious(positions._replace(mismatches=self._differ)):
            self._reset()
            self._long_waits(positions)
            self._judge_later(begun)
            return False
        if self._reported.hang and not new:
            return False
        if not self.question:
            self._request_details(beat, new)
            return False  # the next heartbeats hold more
        if not self._answered(positions) and self._clock() - self._requested_at < 3 * self._tick_s + 1:
            return False
        return self._judge_ranks(new, begun)

    def _judge_ranks(self, new: Mapping[str, tuple[int, int]], begun: float) -> bool:
        """Judge the detailed heartbeats; return whether a hang or calls that differ were reported now.

        :param new: the mismatches that were not reported yet
        :param begun: CPU seconds of this thread when it began to judge
        """
        positions = self.positions(judged=True)
        waiting = mismatched_waits(positions)
        noted = tuple(self._mismatch(group, between) for group, between in new.items())
        noted = noted or tuple(mismatch for mismatch in waiting if mismatch.group not in self._mismatched)
        self._mismatched.update(mismatch.group for mismatch in noted)
        self._differ += noted
        if new and all(self._store.check([differs_key(group)]) for group in new):
            # the second rank reported it before its call began
            self._reported = self._reported._replace(at_done=self._done())
            return False
        known = positions._replace(mismatches=(*self._differ, *waiting))
        stuck = hangs(known)
        cause = cause_of(stuck, known)
        if not noted and (cause is not None or not stuck):
            self._reported = self._reported._replace(hangs=bool(stuck), cause=cause)
            self._judge_later(begun)
            return False
        # a hang with another cause than the calls that differ is reported at the next tick
        self._reported = _Reported(self._done(), not noted or cause is not None, cause)
        self.claim_report()
        self.report(positions._replace(mismatches=noted))
        return True

    def check_lost_peer(self) -> bool:
        """Judge a wait that ended with the loss of a peer (gloo notices at once); return whether it was reported."""
        self.read()
        positions = self.positions(final=True)
        ranks = tuple(self._after_lost_peer(position) for position in positions.ranks)
        positions = positions._replace(ranks=ranks, over=True, hang_timeout_s=0.0)
        if not is_hung(positions) or not self.claim_report():
            return False
        self.report(positions)
        return True

    def _after_lost_peer(self, position: Position) -> Position:
        """Return the position of a rank, judged after the loss of a peer."""
        if position.state == "raised" and reports_lost_peer(position.detail):
            # it only lost a peer itself
            return position._replace(state="waiting", detail="until it lost a peer")
        if position.rank not in self._texts and position.rank not in self.known:
            return position._replace(state="silent", detail="it had sent no heartbeat yet")
        return position

    def claim_report(self) -> bool:
        """Return whether this process may report the current hang: no other process does."""
        if self._claimed:
            return False
        mine = str(self.rank)
        self._claimed = self._store.compare_set(REPORTING_RANK, "", mine) == mine
        return self._claimed

    def report(self, positions: Positions) -> None:
        """Report positions, and record that for the summary."""
        self._store.set(REPORTED, str(self.rank))
        self._reporter.hang(with_blocks(positions, self._folder))

    def _judge_later(self, begun: float) -> None:
        self._judges_at = self._clock() + (self._spent() - begun) / _JUDGING

    def _reset(self) -> None:
        self.question = 0
        if self.cause is not None:
            self._reported = _Reported(self._reported.at_done)
        self._differ = tuple(mismatch for mismatch in self._differ if self._is_in(mismatch))
        if self._reported.at_done is not None and self._done() > self._reported.at_done:
            self._reported, self._claimed = _Reported(), False
            self._store.set(REPORTING_RANK, "")
            self._reporter.line("distcheck watch: the job continues")

    def _done(self) -> int:
        return sum(head.done for head in self._headers.values())

    def _is_reported(self) -> bool:
        """Return whether the hang was reported and no rank made progress, or waits were judged a moment ago."""
        if self._reported.hang:
            return self._done() == self._reported.at_done
        return (self.cause is not None or not self.question) and self._clock() < self._judges_at

    # reading

    def read(self) -> None:
        """Read the heartbeats of all ranks that sent one."""
        unknown = [rank for rank in range(self.world_size) if rank not in self._texts]
        ranks = [*self._texts, *self._there(unknown)]
        if not ranks:
            return
        now = self._clock()
        texts = self._store.multi_get([rank_key(rank) for rank in ranks])
        for rank, text in zip(ranks, texts, strict=True):
            if self._texts.get(rank) != text:
                head = read_header(text)
                if rank not in self._headers or self._headers[rank].beat != head.beat:
                    self._heard[rank] = now
                self._headers[rank], self._texts[rank] = head, text
                self.heartbeats.pop(rank, None)

    def _parse(self) -> None:
        """Parse the heartbeats, and not only their headers."""
        for rank, text in self._texts.items():
            if rank not in self.heartbeats:
                self.heartbeats[rank] = read_heartbeat(text)

    def _there(self, ranks: Sequence[int]) -> list[int]:
        """Return the ranks that sent a heartbeat, with few requests if all of them or none did."""
        if not ranks:
            return []
        if self._store.check([rank_key(rank) for rank in ranks]):
            return list(ranks)
        if len(ranks) == 1:
            return []
        # with many missing ranks, halving makes two requests for each; a rank that arrived stays known
        half = len(ranks) // 2
        return self._there(ranks[:half]) + self._there(ranks[half:])

    def _waits_long(self) -> bool:
        """Return whether a rank has waited for the hang timeout: the only check of every heartbeat."""
        return any(head.state == "waiting" and head.since_s >= self._hang_timeout_s for head in self._headers.values())

    def positions(self, *, judged: bool = False, final: bool = False) -> Positions:
        """Return the positions of all ranks, by their last heartbeats.

        :param judged: the request was answered, so states of silent processes are known
        :param final: check silent processes at once
        """
        self._parse()
        now = self._clock()
        process_states = self._process_states() if judged else None
        groups: dict[str, tuple[int, ...]] = {}
        timeouts: dict[str, float] = {}
        texts: dict[str, str] = {}
        ranks = []
        for rank in range(self.world_size):
            heartbeat = self.heartbeats.get(rank)
            if heartbeat is None:
                # a slow file system during its imports, or work before them: it can still arrive
                ranks.append(self.known.get(rank, Position(rank, detail=_NOT_YET)))
                continue
            timeouts.update(heartbeat.timeouts)
            for name, packed_one in heartbeat.groups.items():
                texts.setdefault(name, packed_one)
            position = read_position(heartbeat.position, self._stack(heartbeat.stack))
            ended = self.known.get(rank)
            if ended is not None:
                final_state = position.state in ("left", "raised")
                detail = position.detail or ended.detail
                ended = position._replace(state=ended.state, status=ended.status, detail=detail)
                ranks.append(position if final_state else ended)
                continue
            ranks.append(self._as_seen(heartbeat, position, now - self._heard[rank], process_states, final=final))
        groups.update((name, unpacked_ranks(text)) for name, text in texts.items())
        groups[SETUP] = groups["0"] = tuple(range(self.world_size))
        return Positions(tuple(ranks), self.world_size, self._hang_timeout_s, groups, timeouts=timeouts)

    def _stack(self, name: str) -> Sequence[Sequence[Any]]:
        """Return the frames of a stack; each is read from the store once."""
        if not name:
            return ()
        if name not in self._stacks:
            self._stacks[name] = json.loads(self._store.get(stack_key(name)) or "[]")
        return self._stacks[name]

    def _as_seen(
        self,
        heartbeat: Heartbeat,
        position: Position,
        quiet_s: float,
        process_states: Mapping[int, str] | None,
        *,
        final: bool,
    ) -> Position:
        """Return the position of a rank; one that is silent is stopped or exited if its process shows that."""
        if position.state in ("left", "raised") or heartbeat.beat == OFF:
            return position
        if not final and quiet_s < SILENT_TICKS * self._tick_s:
            return position
        letter = None
        if heartbeat.space and heartbeat.space == self._space:
            letter = kernel_state(position.pid)
        elif process_states is not None:
            letter = process_states.get(position.rank)
        if letter in ("T", "t"):
            return position._replace(state="stopped", detail="SIGSTOP, or a debugger", since_s=quiet_s)
        if letter in ("", "Z", "X"):
            return position._replace(state="left", detail="its process has exited", since_s=quiet_s)
        enough = self._hang_timeout_s * (1.0 if process_states is None else _UNSEEN_FACTOR)
        if letter is None and quiet_s >= enough:
            return position._replace(state="silent", detail=f"for {quiet_s:.0f} s", since_s=quiet_s)
        if final:
            return position
        # it runs, or may: a thread there holds the GIL
        return position._replace(state="computing", since_s=quiet_s)

    # requests

    def _request_details(self, beat: int, new: Mapping[str, tuple[int, int]]) -> None:
        now = self._clock()
        processes: dict[str, dict[str, int]] = {}
        for rank, heartbeat in self.heartbeats.items():
            if (
                heartbeat.space
                and heartbeat.space != self._space
                and now - self._heard[rank] >= SILENT_TICKS * self._tick_s
            ):
                processes.setdefault(heartbeat.space, {})[str(rank)] = heartbeat.position[2]
        self._store.set(REQUEST, packed(DetailRequest(new, processes)))
        self.question, self._requested_at = beat, now

    def _answered(self, positions: Positions) -> bool:
        return all(
            heartbeat.answers == self.question or positions.ranks[rank].state in ABSENT or heartbeat.beat == OFF
            for rank, heartbeat in self.heartbeats.items()
        )

    def _process_states(self) -> dict[int, str]:
        return {
            int(rank): letter
            for heartbeat in self.heartbeats.values()
            for rank, letter in heartbeat.process_states.items()
        }

    # calls that differ

    def _new_mismatches(self) -> dict[str, tuple[int, int]]:
        """Return the mismatches that were not reported yet."""
        if not self.question and self._clock() < self._compares_at:
            return {}
        begun = self._spent()
        self._parse()
        found = {group: between for group, between in self._mismatches().items() if group not in self._mismatched}
        self._compares_at = self._clock() + (self._spent() - begun) / _COMPARING
        return found

    def _mismatches(self) -> dict[str, tuple[int, int]]:
        """Return for each group the index up to which all digests are equal, and one at which they differ."""
        tables: dict[str, dict[int, int]] = {}
        differ: dict[str, int] = {}
        for heartbeat in self.heartbeats.values():
            for group, pairs in heartbeat.digests.items():
                table = tables.setdefault(group, {})
                for index, digest in pairs:
                    if table.setdefault(index, digest) != digest:
                        differ[group] = min(index, differ.get(group, index))
        found = {}
        for group, high in differ.items():
            # known to be equal: the digests that two ranks share
            counts: dict[int, int] = {}
            for heartbeat in self.heartbeats.values():
                for index, _ in heartbeat.digests.get(group, ()):
                    counts[index] = counts.get(index, 0) + 1
            low = max((index for index, count in counts.items() if index < high and count > 1), default=0)
            found[group] = (max(low, high - MILESTONE), high)
        return found

    def _mismatch(self, group: str, between: tuple[int, int]) -> CallMismatch:
        """Return the first call that differs, without calls if no rank kept it."""
        by_index: dict[int, list[tuple[int, CollectiveCall]]] = {}
        for rank, heartbeat in sorted(self.heartbeats.items()):
            for index, raw in heartbeat.calls.get(group, ()):
                by_index.setdefault(index, []).append((rank, read_call(raw)))
        for _, calls in sorted(by_index.items()):
            sides = sides_of(calls)
            if len(sides) > 1:
                return CallMismatch(group, sides[0][1].number, sides)
        return CallMismatch(group, between[1], ())

    def _is_in(self, mismatch: CallMismatch) -> bool:
        """Return whether a rank made its call that differs, and none in that group since; groups that differ remain."""
        if mismatch.group.startswith(SETUP):
            return True
        self._parse()
        numbers = {call.number for _, call in mismatch.calls}
        positions = (read_position(heartbeat.position) for heartbeat in self.heartbeats.values())
        return any(position.entered.get(mismatch.group) in numbers for position in positions)

    # long waits that are no hangs

    def _long_waits(self, positions: Positions) -> None:
        for wait in long_waits(positions):
            before = self._longest.get(wait.key)
            self._longest[wait.key] = wait if before is None or wait.since_s > before.since_s else before
            # reported when it becomes long, and again when it has doubled
            last = before.reported_s if before is not None and wait.since_s >= before.since_s else 0.0
            if wait.since_s >= max(wait.report_after_s(self._hang_timeout_s), 2 * last):
                self._longest[wait.key] = wait._replace(reported_s=wait.since_s)
                self._reporter.long_wait(wait)
                self._store.set(LONG, packed(sorted(self._longest.values(), key=lambda item: -item.since_s)[:4]))
            else:
                self._longest[wait.key] = self._longest[wait.key]._replace(reported_s=last)


def hand_over(store: StoreClient, rank: int, question: int) -> None:
    """Give up the role of the coordinator: the next rank that reads the key takes over."""
    store.set(COORDINATOR, f"{rank} - {question}")
