"""What each rank did in its collectives until the job ended: calls and seconds of each call site."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.flight_recorder import records
from distcheck.runtime.coordination.long_waits import LongWait
from distcheck.runtime.coordination.protocol import LONG, REPORTED, ledger_key
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.store_client import StoreClient

#: Places of one rank that are kept, those with most time first.
_PLACES = 20


#: Calls that end for all ranks together. A broadcast or a gather may be over for one side long before.
_TOGETHER = frozenset({
    "all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_single", "all_gather_into_tensor",
    "all_gather_object", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "all_to_all",
    "all_to_all_single", "barrier", "monitored_barrier",
})  # fmt: skip


class CallSiteTotals(NamedTuple):
    """The calls of one place."""

    place: str
    operation: str
    group: str
    #: until their end
    waits: bool
    calls: int
    total_s: float
    longest_s: float

    @property
    def text(self) -> str:
        return f"{self.operation} at {self.place}" if self.place else self.operation


class Ledger(NamedTuple):
    """What the calls of one rank have cost."""

    rank: int
    host: str
    #: that this process may use
    cores: int
    #: how it ended: ``left``, ``raised``
    state: str
    status: int
    #: seconds since the script began
    span_s: float
    calls: int
    #: in all calls that wait
    in_calls_s: float
    sites: tuple[CallSiteTotals, ...] = ()
    #: group → backend
    backends: Mapping[str, str] = {}
    #: it has ended with its process group
    kept_group: bool = False
    #: looks of the side thread, and those at which a collective was open, whoever made it
    looks: int = 0
    open_looks: int = 0
    #: the flight recorder, which alone sees what C++ calls, takes notes
    recorder: bool = True
    #: why a call could not be noted; "" where all were
    trouble: str = ""


class Summary(NamedTuple):
    """All ranks of a job, at its end."""

    #: of the ranks that have left one
    ledgers: tuple[Ledger, ...]
    #: ranks of the job
    world_size: int
    #: the longest waits for ranks that computed
    long: tuple[LongWait, ...] = ()
    #: a standstill was reported before, and passed
    reported: bool = False

    @property
    def healthy(self) -> bool:
        """All ranks have ended as they should."""
        return len(self.ledgers) == self.world_size and all(
            item.state == "left" and item.status == 0 for item in self.ledgers
        )

    @property
    def span_s(self) -> float:
        return max((item.span_s for item in self.ledgers), default=0.0)


def ledger_of(
    posts: CallRecorder,
    rank_info: RankInfo,
    *,
    cores: int,
    span_s: float,
    looks: Sequence[int],
    state: str,
    status: int,
) -> Ledger:
    """A rank's account, out of the notes of its calls."""
    spent = list(posts.spent.items())
    most = sorted(spent, key=lambda item: -item[1].total_s)[:_PLACES]
    return Ledger(
        rank_info.rank, rank_info.host, cores, state, status, span_s, posts.done,
        sum(item.total_s for (_, _, _, waits), item in spent if waits),
        tuple(CallSiteTotals(*key, *item) for key, item in most), dict(posts.backends), posts.joined,
        looks[0], looks[1], records(posts.joined) or not looks[0] or not posts.joined, posts.trouble,
    )  # fmt: skip


def read_summary(store: StoreClient, world_size: int) -> Summary:
    """All accounts that were left in the store."""
    keys = [ledger_key(rank) for rank in range(world_size)]
    texts = store.multi_get(keys) if store.check(keys) else ()
    long = json.loads(store.get(LONG) or "[]")
    return Summary(
        tuple(_read(text) for text in texts), world_size, tuple(LongWait(*item) for item in long),
        bool(store.check([REPORTED])),
    )  # fmt: skip


def _read(text: str) -> Ledger:
    ledger = Ledger(*json.loads(text))
    return ledger._replace(sites=tuple(CallSiteTotals(*site) for site in ledger.sites))
