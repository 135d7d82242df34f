"""Matches the calls of all ranks as they arrive: which belong together, and which differ.

Pure, in the parent: :mod:`.coordinator` receives the calls of the ranks.
"""

from __future__ import annotations

from typing import NamedTuple

from distcheck.runtime.coordination.call_mismatch import sides_of
from distcheck.runtime.coordination.call_signatures import agreed
from distcheck.runtime.coordination.model import CallMismatch, CollectiveCall


class RankCall(NamedTuple):
    """One rank is about to make one call."""

    rank: int
    #: global ranks of the call's group
    ranks: tuple[int, ...]
    #: which of the group's compared calls this is, from 1
    ordinal: int
    call: CollectiveCall


class Ticket(NamedTuple):
    """The key of an entry."""

    group: str
    ranks: tuple[int, ...]
    #: how often the rank created this group again: names return once the default group was destroyed
    life: int
    ordinal: int


class CallTable:
    """All calls that not all of their ranks have come to, or that differ."""

    def __init__(self) -> None:
        #: those that differ, in the order in which that was seen
        self.differing: list[Ticket] = []
        #: rank → its last call
        self.last: dict[int, CollectiveCall] = {}
        self._calls: dict[Ticket, dict[int, CollectiveCall]] = {}
        #: (group, ranks) → rank → (life, ordinal of its last call)
        self._reached: dict[tuple[str, tuple[int, ...]], dict[int, tuple[int, int]]] = {}

    def enter(self, entry: RankCall) -> Ticket:
        """Record a call and compare it with those of the other ranks."""
        reached = self._reached.setdefault((entry.call.group, entry.ranks), {})
        life, last = reached.get(entry.rank, (0, 0))
        if entry.ordinal <= last:
            life += 1
        reached[entry.rank] = (life, entry.ordinal)
        self.last[entry.rank] = entry.call
        ticket = Ticket(entry.call.group, entry.ranks, life, entry.ordinal)
        there = self._calls.setdefault(ticket, {})
        if ticket not in self.differing and any(agreed(call) != agreed(entry.call) for call in there.values()):
            self.differing.append(ticket)
        there[entry.rank] = entry.call
        if len(there) == len(entry.ranks) and ticket not in self.differing:
            del self._calls[ticket]
        return ticket

    def met(self, ticket: Ticket) -> bool:
        """Return whether all ranks of the group have reached it and agree."""
        if ticket in self.differing:
            return False
        reached = self._reached[ticket.group, ticket.ranks]
        return all(reached.get(rank, (0, 0)) >= (ticket.life, ticket.ordinal) for rank in ticket.ranks)

    def groups(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and ranks of all groups in which there were calls."""
        return tuple(self._reached)

    def mismatch(self, ticket: Ticket) -> CallMismatch:
        """What the ranks that have come so far have called."""
        sides = sides_of(sorted(self._calls[ticket].items()))
        return CallMismatch(ticket.group, sides[0][1].number or ticket.ordinal, sides)
