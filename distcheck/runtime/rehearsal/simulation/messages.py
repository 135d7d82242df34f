"""What one rank sends and another one expects: elements and dtypes of messages, and parts of an ``all_to_all``.

Backends compare none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination.call_signatures import OBJECTS

from .plan import Rehearsal, where

#: Dtypes in which bytes are sent that another dtype is made of.
_BYTES = frozenset({"uint8", "int8"})
#: Those of the two messages in which objects travel: sizes, and bytes.
_OF_OBJECTS = frozenset({OBJECTS, "int64", "uint8"})


class Message(NamedTuple):
    """One side of a send and its receive."""

    rank: int
    place: str
    operation: str
    #: global rank of the other side
    peer: int
    size: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        return prod(self.size)

    @property
    def text(self) -> str:
        """Return ``isend (float32 [20]) at train.py:88``."""
        what = "" if self.dtype == OBJECTS else f" ({self.dtype} {list(self.size)})"
        return f"{self.operation}{what} at {self.place}"


class Split(NamedTuple):
    """What one rank passes to an ``all_to_all``."""

    rank: int
    place: str
    operation: str
    number: int
    #: global ranks of the group
    ranks: tuple[int, ...]
    #: elements for, and from, each of them
    sent: tuple[int, ...]
    expected: tuple[int, ...]


class Messages(NamedTuple):
    """What all ranks have sent and expected."""

    #: a send and its receive
    pairs: tuple[tuple[Message, Message], ...] = ()
    #: the calls of all ranks with one number
    splits: tuple[tuple[Split, ...], ...] = ()


@fact(of_this_host=False)
def read_messages(rehearsal: Rehearsal) -> Messages:
    """From what the ranks wrote down."""
    sides: dict[tuple[object, ...], dict[str, Message]] = {}
    for row in rehearsal.of_ranks("messages.pair"):
        data = row.data
        ends = (row.rank, data["peer"]) if data["direction"] == "send" else (data["peer"], row.rank)
        key = (data["group"], data["life"], *ends, data["tag"], data["nth"])
        sides.setdefault(key, {})[data["direction"]] = row.fill(Message)
    pairs = tuple((both["send"], both["recv"]) for both in sides.values() if len(both) == 2)
    splits: dict[tuple[object, ...], list[Split]] = {}
    for row in rehearsal.of_ranks("messages.split"):
        splits.setdefault(_call_of(row.data), []).append(row.fill(Split))
    if not (pairs or splits):
        raise NotApplicable("ranks sent each other no messages")
    return Messages(pairs, tuple(map(tuple, splits.values())))


def _call_of(data: Mapping[str, object]) -> tuple[object, ...]:
    return (data["group"], str(data["ranks"]), data["life"], data["number"], data["operation"])


@probe(rules.DC709)
def messages_match(messages: Messages) -> Iterator[Finding]:
    """Report a send whose receive expects other elements or another dtype."""
    reported: set[tuple[str, str]] = set()
    for sent, received in messages.pairs:
        both = {sent.dtype, received.dtype}
        objects = OBJECTS in both
        other_dtype = len(both) > 1 and not (both <= _OF_OBJECTS if objects else both & _BYTES)
        if not other_dtype and (sent.elements == received.elements or sent.dtype != received.dtype):
            continue
        if (sent.place, received.place) in reported:
            continue
        reported.add((sent.place, received.place))
        what = "objects" if objects else "dtypes" if other_dtype else "sizes"
        differ = "holds objects on one of its two ranks" if objects else f"has other {what} on its two ranks"
        yield rules.DC709.found(
            f"a message {differ}: rank {sent.rank} calls {sent.text}, rank {received.rank} calls {received.text}",
            where=where(received.place, [received.rank]),
            fix=Fix(_FIXES[what], where="code"),
            # gloo leaves the end of a longer buffer as it is
            severity=_severity(certain=other_dtype or sent.elements > received.elements),
            evidence={"sender": sent.rank, "receiver": received.rank},
        )


_FIXES = {
    "objects": "receive what send_object_list sends with recv_object_list, and tensors with recv",
    "dtypes": "receive into a tensor of the dtype that is sent; no dtype travels with a message",
    "sizes": "send the size first, and receive into a tensor of that size",
}


@probe(rules.DC709)
def parts_match(messages: Messages) -> Iterator[Finding]:
    """Report ranks that send another number of elements than the other rank of an all_to_all expects."""
    reported: set[str] = set()
    for calls in messages.splits:
        by_rank = {call.rank: call for call in calls}
        for call in calls:
            wrong = [
                (rank, call.sent[at], by_rank[rank].expected[by_rank[rank].ranks.index(call.rank)])
                for at, rank in enumerate(call.ranks)
                if rank in by_rank and call.rank in by_rank[rank].ranks
            ]
            wrong = [item for item in wrong if item[1] != item[2]]
            if not wrong or call.place in reported:
                continue
            reported.add(call.place)
            rank, sent, expected = wrong[0]
            yield rules.DC709.found(
                f"rank {call.rank} sends {sent} elements to rank {rank} in {call.operation} here, and rank {rank} "
                f"expects {expected} from it",
                where=where(call.place, [call.rank, rank]),
                fix=Fix(
                    "exchange the split sizes with all_to_all_single first, and pass what was received as "
                    "output_split_sizes",
                    where="code",
                ),
                severity=_severity(certain=True),
                evidence={"sender": call.rank, "receiver": rank, "sent": sent, "expected": expected},
            )


def _severity(*, certain: bool) -> Severity:
    return max(rules.DC709.severities) if certain else min(rules.DC709.severities)
