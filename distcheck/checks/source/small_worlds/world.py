"""Matches what the ranks of a small world call, as torch does, and finds a rank that can never go on.

Each rank is followed until it waits for another one. When the calls of the others have what it waits for, it is
followed again from the start. A message counts as sent when the sender gets there, so a deadlock that is found here is
one with any buffer.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .matching import Call, Fault, InvalidCall, compared, message_fault
from .values import Blocked, Group, ScriptExit, Undecided, WorldSize

#: how many steps all ranks of a world may take together
STEPS = 30_000
#: how many elements of a list cost as much as a step
ELEMENTS = 16
#: how often the ranks of a world are followed again
ROUNDS = 400
_MESSAGES = ("send", "recv")


class Ended(NamedTuple):
    """How far a rank was followed."""

    #: ``ended``, ``waits`` or ``undecided``
    state: str
    #: the call that it waits in
    call: Call | None = None


class World:
    """Ranks that follow one script: ``follow(rank, communicate)`` follows one of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.default = Group(0, tuple(range(size)))
        self.steps = 0
        #: the files that ranks were followed through
        self.files: set[int] = set()
        #: the number of steps at which what is followed now is given up
        self.limit = STEPS
        #: whether something is reckoned from the number of ranks
        self.uses_size = [False]
        #: whether a value was taken that a launch may change: an option, the length of data
        self.assumed = False
        self._calls: list[list[Call]] = [[] for _ in range(size)]
        self._results: list[dict[int, list[Any]]] = [{} for _ in range(size)]
        self._ends = [Ended("undecided")] * size
        self._unseen: list[Counter[ast.expr | None]] = [Counter() for _ in range(size)]
        self._rank = 0

    @property
    def ranks(self) -> WorldSize:
        """The number of ranks, as the script gets it."""
        found = WorldSize(self.size)
        found.uses = self.uses_size
        return found

    def step(self, elements: int = 0) -> None:
        """Count a step of a rank, and what it takes for so many elements."""
        self.steps += 1 + elements // ELEMENTS
        if self.steps > self.limit:
            raise Undecided

    def note_unseen(self, node: ast.expr | None) -> None:
        """Note a call of something that is not known: it may communicate."""
        self._unseen[self._rank][node] += 1

    def enter(self, call: Call) -> list[Any] | None:
        """Record a call of the rank that is followed; return what it receives, None for one that goes on alone."""
        calls = self._calls[self._rank]
        call.rank, call.index = self._rank, len(calls)
        calls.append(call)
        if len(calls) > ROUNDS:
            raise Undecided
        return self.result(call) if call.blocking else None

    def turn(self, call: Call) -> int:
        """Return the number of calls of its group that its rank makes before it."""
        return _position(self._calls[call.rank], call)

    def result(self, call: Call) -> list[Any]:
        """Return what a call receives, or wait."""
        found = self._results[call.rank].get(call.index)
        if found is None:
            raise Blocked(call)
        return found

    @property
    def is_decided(self) -> bool:
        """Whether all ranks were followed to their ends."""
        return all(end.state == "ended" for end in self._ends)

    def run(self, follow: Callable[[int], None]) -> Fault | None:
        """Follow all ranks as far as they get. Return what goes wrong, None if nothing that is known does."""
        fault = self._fault(follow)
        if fault is None or fault.alone:
            return fault
        # what is not seen may be the other side, unless all ranks go through it
        return fault if all(one == self._unseen[0] for one in self._unseen) else None

    def _fault(self, follow: Callable[[int], None]) -> Fault | None:
        waiting = list(range(self.size))
        for _ in range(ROUNDS):
            for rank in waiting:
                fault = self._follow(rank, follow)
                if fault is not None:
                    return fault
                if self._ends[rank].state == "undecided" and not self._calls[rank]:
                    # nothing is known of a rank; it would hardly be of the others
                    return None
            fault = self._match()
            if fault is not None:
                return fault
            waiting = [
                rank
                for rank, end in enumerate(self._ends)
                if end.state == "waits" and end.call is not None and end.call.index in self._results[rank]
            ]
            if not waiting:
                break
        else:
            return None
        return self._stuck()

    def _follow(self, rank: int, follow: Callable[[int], None]) -> Fault | None:
        self._calls[rank] = []
        self._unseen[rank] = Counter()
        self._rank = rank
        try:
            follow(rank)
        except Blocked as waits:
            self._ends[rank] = Ended("waits", waits.args[0])
        except ScriptExit:
            self._ends[rank] = Ended("ended")
        except InvalidCall as refused:
            return refused.fault._replace(alone=True)
        except (Undecided, RecursionError):
            self._ends[rank] = Ended("undecided")
        else:
            self._ends[rank] = Ended("ended")
        return None

    # what belongs together

    def _match(self) -> Fault | None:
        by_group: dict[tuple[int, tuple[int, ...]], dict[int, list[Call]]] = defaultdict(lambda: defaultdict(list))
        channels: dict[tuple[Any, ...], tuple[list[Call], list[Call]]] = defaultdict(lambda: ([], []))
        for rank, calls in enumerate(self._calls):
            for call in calls:
                if call.kind in _MESSAGES:
                    sends = call.kind == "send"
                    pair = (rank, call.peer) if sends else (call.peer, rank)
                    channels[pair, call.group.number, call.tag][not sends].append(call)
                    if sends:
                        self._results[rank][call.index] = []
                else:
                    by_group[call.group.number, call.group.ranks][rank].append(call)
        for (_, ranks), calls_of in by_group.items():
            for turn in zip(*(calls_of.get(rank, []) for rank in ranks), strict=False):
                fault = compared(turn)
                if fault is not None:
                    return fault
                self._exchange(turn)
        for sent, received in channels.values():
            for one, other in zip(sent, received, strict=False):
                fault = message_fault(one, other)
                if fault is not None:
                    return fault
                self._results[other.rank][other.index] = list(one.gives)
        return None

    def _exchange(self, turn: Sequence[Call]) -> None:
        parts = [call.gives for call in turn]
        for call in turn:
            self._results[call.rank][call.index] = parts

    # who can never go on

    def _missing(self, call: Call) -> list[int]:
        """Return the ranks that a call waits for."""
        if call.kind in _MESSAGES:
            return [call.peer]
        position = _position(self._calls[call.rank], call)
        return [
            rank for rank in call.group.ranks if rank != call.rank and _count(self._calls[rank], call.group) <= position
        ]

    def _stuck(self) -> Fault | None:
        free = {rank for rank, end in enumerate(self._ends) if end.state == "undecided"}
        waits = {rank: end.call for rank, end in enumerate(self._ends) if end.state == "waits" and end.call is not None}
        missing = {rank: self._missing(call) for rank, call in waits.items()}
        while True:
            freed = {rank for rank in waits if rank not in free and all(other in free for other in missing[rank])}
            if not freed:
                break
            free |= freed
        stuck = [rank for rank in waits if rank not in free]
        if not stuck:
            return self._unreceived() if not free else None
        messages = [rank for rank in stuck if waits[rank].kind == "recv"]
        for rank in messages:
            other = missing[rank][0]
            if other not in free:
                return self._lost_message(waits[rank], waits.get(other))
        for rank in stuck:
            # a rank that has ended explains more than one that waits as well
            for other in sorted(missing[rank], key=lambda one: one in waits):
                if other not in free:
                    return self._absent(waits[rank], other, waits.get(other))
        return None

    def _lost_message(self, call: Call, other: Call | None) -> Fault:
        sent = sum(
            one.kind == "send" and one.peer == call.rank and one.group.number == call.group.number
            for one in self._calls[call.peer]
        )
        taken = sum(
            one.kind == "recv" and one.peer == call.peer and one.index < call.index for one in self._calls[call.rank]
        )
        if other is not None and other.kind == "recv" and other.peer == call.rank and other.blocking:
            return Fault(
                "DC716",
                call,
                f"rank {call.rank} waits here for a message of rank {other.rank}, which waits for one of rank "
                f"{call.rank} in line {{line}}",
                "let one of the two send first",
                other,
            )
        then = "ends" if other is None else "waits in line {line} (`{other}`)"
        if sent > taken:
            tags = sorted(
                {str(one.tag) for one in self._calls[call.peer] if one.kind == "send" and one.peer == call.rank}
            )
            return Fault(
                "DC709",
                call,
                f"rank {call.rank} waits here for a message of rank {call.peer} with tag {call.tag}, which sends its "
                f"messages with tag {', '.join(tags[:4])}",
                "give the send and its receive the same tag",
                other,
            )
        elsewhere = [one for one in self._calls[call.peer] if one.kind == "send"]
        if not sent and elsewhere:
            peers = ", ".join(map(str, sorted({one.peer for one in elsewhere})))
            return Fault(
                "DC709",
                call,
                f"rank {call.rank} waits here for a message of rank {call.peer}, which sends to rank {peers} only, in "
                "line {line} (`{other}`)",
                "send to each rank that receives",
                elsewhere[0],
            )
        return Fault(
            "DC709",
            call,
            f"rank {call.rank} waits here for message {taken + 1} of rank {call.peer}, which sends it {sent or 'none'} "
            f"and {then}",
            "let both sides reckon the number of messages in the same way, or send an end mark",
            other,
        )

    def _absent(self, call: Call, rank: int, other: Call | None) -> Fault:
        done = sum(_same_place(one, call) for one in self._calls[rank])
        own = sum(_same_place(one, call) for one in self._calls[call.rank])
        if call.kind == "new_group" or (other is not None and other.kind == "new_group"):
            return Fault("DC706", call, f"rank {call.rank} waits in {{call}} for rank {rank}, which "
                         + ("never makes the group" if other is None else "is in `{other}` in line {line}"),
                         "let every rank create every group, in one order", other)  # fmt: skip
        if other is not None and other.group.number != call.group.number:
            return Fault(
                "DC703",
                call,
                f"rank {call.rank} waits in {{call}} for rank {rank}, which waits in another group in line {{line}} "
                "(`{other}`)",
                "use the groups in the same order on all ranks that belong to both",
                other,
            )
        if done and own > done:
            return Fault(
                "DC519",
                call,
                f"rank {call.rank} calls {{call}} {own} times and rank {rank} only {done} times"
                + ("" if other is None else ": it is in `{other}` in line {line}"),
                "give all ranks the same number of turns, or reduce a flag that shows whether a rank has no more",
                other,
            )
        return Fault(
            "DC701",
            call,
            f"rank {call.rank} waits in {{call}} for rank {rank}, which "
            + ("ends without it" if other is None else "waits in line {line} (`{other}`)"),
            "let all ranks of the group make the call, or none",
            other,
        )

    def _unreceived(self) -> Fault | None:
        received: dict[tuple[Any, ...], int] = defaultdict(int)
        for rank, calls in enumerate(self._calls):
            for call in calls:
                if call.kind == "recv":
                    received[call.peer, rank, call.group.number, call.tag] += 1
        for rank, calls in enumerate(self._calls):
            for call in calls:
                if call.kind == "send":
                    key = (rank, call.peer, call.group.number, call.tag)
                    received[key] -= 1
                    if received[key] < 0 and call.blocking:
                        return Fault(
                            "DC709",
                            call,
                            f"rank {rank} sends rank {call.peer} a message here that it never receives",
                            "let both sides reckon the number of messages in the same way",
                        )
        return None


def _same_place(one: Call, other: Call) -> bool:
    return one.node is other.node


def _position(calls: list[Call], call: Call) -> int:
    """Return the number of calls of its group before a call."""
    return sum(one.index < call.index and _is_of(one, call.group) for one in calls)


def _count(calls: list[Call], group: Group) -> int:
    return sum(_is_of(one, group) for one in calls)


def _is_of(call: Call, group: Group) -> bool:
    return call.kind not in _MESSAGES and call.group.number == group.number
