"""The coordinator reads the heartbeats of all ranks, requests more on suspicion, and reports where the job hangs.

In a watched job one rank is the coordinator, in a rehearsal the parent process is. It reads only the headers of
heartbeats until ranks have waited for the hang timeout. Then it makes positions of them. With thousands of ranks it
does what costs more less often: the coordinator's rank may be the one that all others wait for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from .call_recorder import MILESTONE
from .call_signatures import agreed
from .code_blocks import with_blocks
from .hang_detector import GONE, cause_of, differing, hangs, stands, suspicious
from .ledger import Summary
from .long_waits import LongWait, long_waits
from .model import SETUP, CallMismatch, CollectiveCall, Position, Positions
from .processes import kernel_state
from .protocol import (
    ASKED,
    COORDINATOR,
    LONG,
    OFF,
    REPORTED,
    TOLD,
    Heartbeat,
    HeartbeatHeader,
    Question,
    differs_key,
    packed,
    rank_key,
    read_call,
    read_head,
    read_position,
    read_post,
    stack_key,
    unpacked_ranks,
)
from .root_cause import tells_of_lost_peer
from .store_client import StoreClient

#: Ticks without a word from which on a rank is silent.
SILENT_TICKS = 4
#: Times the hang timeout that a rank of another host may be silent where nobody there can say whether it lives.
_UNVOUCHED = 3.0
#: Part of its time that it may spend in comparing digests, and in judging waits that turn out to be none.
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

    def summary(self, summary: Summary) -> None:
        """Report the ledgers of all ranks; called by the last rank that ends."""


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
        #: rank → how it ended, where somebody knows better than its posts
        self.known: dict[int, Position] = {}
        #: the question that is open; 0: none
        self.question = 0
        #: calls that differ, or a hang, have been reported, and nothing has moved since
        self.told = False
        #: the job hangs, and that has been reported; with a cause: a call that differs, which has been reported
        self.hangs = False
        self.cause: CollectiveCall | None = None
        #: those that were opened since they came
        self.posts: dict[int, Heartbeat] = {}
        #: it was the one that told of what stands
        self._tells = False
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
        self._heads: dict[int, HeartbeatHeader] = {}
        #: rank → when its beat was new
        self._heard: dict[int, float] = {}
        #: when digests are compared again, and waits judged
        self._compares_at = self._judges_at = clock()
        self._asked_at = 0.0
        self._done_then = 0
        #: groups whose mismatch has been reported; the mismatches in whose calls ranks may hang
        self._mismatched: set[str] = set()
        self._differ: tuple[CallMismatch, ...] = ()
        self._longest: dict[tuple[str, str], LongWait] = {}

    def take_over(self, question: int) -> None:
        """Continue for a coordinator that has exited, with its open question."""
        self.question = question

    def look(self, beat: int) -> bool:
        """Read all, and judge; True where calls that differ, or a hang, were reported just now.

        :param beat: of the one that looks, a number that grows
        """
        self.read()
        new = self._new_mismatches()
        if not new and not self._waits_long():
            self._nothing()
            return False
        if not new and self._nothing_new():
            return False
        begun = self._spent()
        positions = self.positions()
        if not new and not suspicious(positions._replace(mismatches=self._differ)):
            self._nothing()
            self._long_waits(positions)
            self._judge_later(begun)
            return False
        if self._hang_told and not new:
            return False
        if not self.question:
            self._ask(beat, new)
            return False  # the ranks say more with their next ticks
        if not self._answered(positions) and self._clock() - self._asked_at < 3 * self._tick_s + 1:
            return False
        positions = self.positions(judged=True)
        waiting = differing(positions)
        noted = tuple(self._mismatch(group, between) for group, between in new.items())
        noted = noted or tuple(mismatch for mismatch in waiting if mismatch.group not in self._mismatched)
        self._mismatched.update(mismatch.group for mismatch in noted)
        self._differ += noted
        if new and all(self._store.check([differs_key(group)]) for group in new):
            # the rank that came second has told of it before its call began
            self.told, self._done_then = True, self._done()
            return False
        known = positions._replace(mismatches=(*self._differ, *waiting))
        stuck = hangs(known)
        cause = cause_of(stuck, known)
        if not noted and (cause is not None or not stuck):
            self.hangs, self.cause = bool(stuck), cause
            self._judge_later(begun)
            return False
        self.told, self._done_then = True, self._done()
        # a hang with another cause than the calls that differ is reported by itself, at the next look
        self.hangs, self.cause = not noted or cause is not None, cause
        self.first_to_tell()
        self.tell(positions._replace(mismatches=noted))
        return True

    def look_back(self) -> bool:
        """A wait that ended with the loss of a peer (gloo notices at once) is a hang that did not last: who went? True
        where that was reported just now."""
        self.read()
        positions = self.positions(final=True)
        ranks = tuple(self._afterwards(position) for position in positions.ranks)
        positions = positions._replace(ranks=ranks, over=True, hang_timeout_s=0.0)
        if not stands(positions) or not self.first_to_tell():
            return False
        self.tell(positions)
        return True

    def _afterwards(self, position: Position) -> Position:
        """A rank as it counts once a peer is lost."""
        if position.state == "raised" and tells_of_lost_peer(position.detail):
            # it has lost one itself, which is no news
            return position._replace(state="waiting", detail="until it lost a peer")
        if position.rank not in self._texts and position.rank not in self.known:
            return position._replace(state="silent", detail="it had not told anything yet")
        return position

    def first_to_tell(self) -> bool:
        """Whether nobody has reported what stands; asked by whoever is about to."""
        if self._tells:
            return False
        mine = str(self.rank)
        self._tells = self._store.compare_set(TOLD, "", mine) == mine
        return self._tells

    def tell(self, positions: Positions) -> None:
        """Report it, and let those that sum up know that it was."""
        self._store.set(REPORTED, str(self.rank))
        self._reporter.hang(with_blocks(positions, self._folder))

    @property
    def _hang_told(self) -> bool:
        return self.hangs and self.cause is None

    def _judge_later(self, begun: float) -> None:
        self._judges_at = self._clock() + (self._spent() - begun) / _JUDGING

    def _nothing(self) -> None:
        self.question = 0
        if self.cause is not None:
            self.hangs, self.cause = False, None
        self._differ = tuple(mismatch for mismatch in self._differ if self._is_in(mismatch))
        if self.told and self._done() > self._done_then:
            self.told = self.hangs = self._tells = False
            self._store.set(TOLD, "")
            self._reporter.line("distcheck watch: the job continues")

    def _done(self) -> int:
        return sum(head.done for head in self._heads.values())

    def _nothing_new(self) -> bool:
        """A hang was reported, and nothing has moved since; or waits were judged a moment ago."""
        if self._hang_told:
            return self._done() == self._done_then
        return (self.cause is not None or not self.question) and self._clock() < self._judges_at

    # reading

    def read(self) -> None:
        """The posts of all ranks that have one."""
        unknown = [rank for rank in range(self.world_size) if rank not in self._texts]
        ranks = [*self._texts, *self._there(unknown)]
        if not ranks:
            return
        now = self._clock()
        texts = self._store.multi_get([rank_key(rank) for rank in ranks])
        for rank, text in zip(ranks, texts, strict=True):
            if self._texts.get(rank) != text:
                head = read_head(text)
                if rank not in self._heads or self._heads[rank].beat != head.beat:
                    self._heard[rank] = now
                self._heads[rank], self._texts[rank] = head, text
                self.posts.pop(rank, None)

    def _open(self) -> None:
        """Read the posts, and not only their heads."""
        for rank, text in self._texts.items():
            if rank not in self.posts:
                self.posts[rank] = read_post(text)

    def _there(self, ranks: Sequence[int]) -> list[int]:
        """Those of some ranks that have told something: few questions where it is all of them, or none."""
        if not ranks:
            return []
        if self._store.check([rank_key(rank) for rank in ranks]):
            return list(ranks)
        if len(ranks) == 1:
            return []
        # where many are missing, halving asks twice for each; who came is known for good
        half = len(ranks) // 2
        return self._there(ranks[:half]) + self._there(ranks[half:])

    def _waits_long(self) -> bool:
        """Whether a rank has waited for the hang timeout: the one check of every heartbeat."""
        return any(head.state == "waiting" and head.since_s >= self._hang_timeout_s for head in self._heads.values())

    def positions(self, *, judged: bool = False, final: bool = False) -> Positions:
        """Where all are, by their last words.

        :param judged: the question was answered: who gives no word may have been vouched for
        :param final: what does not answer now is looked at at once
        """
        self._open()
        now = self._clock()
        vouched = self._vouched() if judged else None
        groups: dict[str, tuple[int, ...]] = {}
        timeouts: dict[str, float] = {}
        texts: dict[str, str] = {}
        ranks = []
        for rank in range(self.world_size):
            post = self.posts.get(rank)
            if post is None:
                # a slow file system at its imports, or work before them: it may yet come
                ranks.append(self.known.get(rank, Position(rank, detail=_NOT_YET)))
                continue
            timeouts.update(post.timeouts)
            for name, packed_one in post.groups.items():
                texts.setdefault(name, packed_one)
            position = read_position(post.position, self._stack(post.stack))
            ended = self.known.get(rank)
            if ended is not None:
                told = position.state in ("left", "raised")
                detail = position.detail or ended.detail
                ended = position._replace(state=ended.state, status=ended.status, detail=detail)
                ranks.append(position if told else ended)
                continue
            ranks.append(self._as_seen(post, position, now - self._heard[rank], vouched, final=final))
        groups.update((name, unpacked_ranks(text)) for name, text in texts.items())
        groups[SETUP] = groups["0"] = tuple(range(self.world_size))
        return Positions(tuple(ranks), self.world_size, self._hang_timeout_s, groups, timeouts=timeouts)

    def _stack(self, name: str) -> Sequence[Sequence[Any]]:
        """Frames of a stack, each read from the store once."""
        if not name:
            return ()
        if name not in self._stacks:
            self._stacks[name] = json.loads(self._store.get(stack_key(name)) or "[]")
        return self._stacks[name]

    def _as_seen(
        self, post: Heartbeat, position: Position, quiet_s: float, vouched: Mapping[int, str] | None, *, final: bool
    ) -> Position:
        """A rank that gives no word any more: stopped or gone, where that can be seen."""
        if position.state in ("left", "raised") or post.beat == OFF:
            return position
        if not final and quiet_s < SILENT_TICKS * self._tick_s:
            return position
        letter = None
        if post.space and post.space == self._space:
            letter = kernel_state(position.pid)
        elif vouched is not None:
            letter = vouched.get(position.rank)
        if letter in ("T", "t"):
            return position._replace(state="stopped", detail="SIGSTOP, or a debugger", since_s=quiet_s)
        if letter in ("", "Z", "X"):
            return position._replace(state="left", detail="its process is gone", since_s=quiet_s)
        enough = self._hang_timeout_s * (1.0 if vouched is None else _UNVOUCHED)
        if letter is None and quiet_s >= enough:
            return position._replace(state="silent", detail=f"for {quiet_s:.0f} s", since_s=quiet_s)
        if final:
            return position
        # it lives, or may: something holds the interpreter's lock there
        return position._replace(state="computing", since_s=quiet_s)

    # asking

    def _ask(self, beat: int, new: Mapping[str, tuple[int, int]]) -> None:
        now = self._clock()
        vouch: dict[str, dict[str, int]] = {}
        for rank, post in self.posts.items():
            if post.space and post.space != self._space and now - self._heard[rank] >= SILENT_TICKS * self._tick_s:
                vouch.setdefault(post.space, {})[str(rank)] = post.position[2]
        self._store.set(ASKED, packed(Question(new, vouch)))
        self.question, self._asked_at = beat, now

    def _answered(self, positions: Positions) -> bool:
        return all(
            post.answers == self.question or positions.ranks[rank].state in GONE or post.beat == OFF
            for rank, post in self.posts.items()
        )

    def _vouched(self) -> dict[int, str]:
        return {int(rank): letter for post in self.posts.values() for rank, letter in post.vouches.items()}

    # calls that differ

    def _new_mismatches(self) -> dict[str, tuple[int, int]]:
        """Those that were not reported yet."""
        if not self.question and self._clock() < self._compares_at:
            return {}
        begun = self._spent()
        self._open()
        found = {group: between for group, between in self._mismatches().items() if group not in self._mismatched}
        self._compares_at = self._clock() + (self._spent() - begun) / _COMPARING
        return found

    def _mismatches(self) -> dict[str, tuple[int, int]]:
        """Group → the index up to which all digests are equal, and one at which they are not."""
        tables: dict[str, dict[int, int]] = {}
        differ: dict[str, int] = {}
        for post in self.posts.values():
            for group, pairs in post.digests.items():
                table = tables.setdefault(group, {})
                for index, digest in pairs:
                    if table.setdefault(index, digest) != digest:
                        differ[group] = min(index, differ.get(group, index))
        found = {}
        for group, high in differ.items():
            # known to be equal: what two ranks have, and have alike
            counts: dict[int, int] = {}
            for post in self.posts.values():
                for index, _ in post.digests.get(group, ()):
                    counts[index] = counts.get(index, 0) + 1
            low = max((index for index, count in counts.items() if index < high and count > 1), default=0)
            found[group] = (max(low, high - MILESTONE), high)
        return found

    def _mismatch(self, group: str, between: tuple[int, int]) -> CallMismatch:
        """The first call that differs; without calls where nobody has kept it."""
        told = sorted(
            (index, repr(agreed(call)), rank, call)
            for rank, post in self.posts.items()
            for index, raw in post.calls.get(group, ())
            for call in [read_call(raw)]
        )
        for _, same in groupby(told, key=lambda item: item[0]):
            sides = [[(rank, call) for _, _, rank, call in side] for _, side in groupby(same, key=lambda item: item[1])]
            if len(sides) > 1:
                sides.sort(key=lambda side: (-len(side), side[0][0]))
                calls = tuple((tuple(rank for rank, _ in side), side[0][1]) for side in sides)
                return CallMismatch(group, calls[0][1].number, calls)
        return CallMismatch(group, between[1], ())

    def _is_in(self, mismatch: CallMismatch) -> bool:
        """Whether a rank has made its call that differs, and no other in that group since."""
        self._open()
        numbers = {call.number for _, call in mismatch.calls}
        positions = (read_position(post.position) for post in self.posts.values())
        return any(position.entered.get(mismatch.group) in numbers for position in positions)

    # long, and no hang

    def _long_waits(self, positions: Positions) -> None:
        for wait in long_waits(positions):
            before = self._longest.get(wait.key)
            self._longest[wait.key] = wait if before is None or wait.since_s > before.since_s else before
            # said when it has become long, and again when it has doubled
            last = before.said_s if before is not None and wait.since_s >= before.since_s else 0.0
            if wait.since_s >= max(wait.worth_saying_s(self._hang_timeout_s), 2 * last):
                self._longest[wait.key] = wait._replace(said_s=wait.since_s)
                self._reporter.long_wait(wait)
                self._store.set(LONG, packed(sorted(self._longest.values(), key=lambda item: -item.since_s)[:4]))
            else:
                self._longest[wait.key] = self._longest[wait.key]._replace(said_s=last)


def hand_over(store: StoreClient, rank: int, question: int) -> None:
    """Give up the role of the coordinator: the next rank that reads the key takes over."""
    store.set(COORDINATOR, f"{rank} - {question}")
