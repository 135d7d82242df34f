"""What each rank did in its collectives until the job ended: calls and seconds of each call site."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.flight_recorder import records
from distcheck.runtime.coordination.long_waits import LongWait
from distcheck.runtime.coordination.protocol import LONG, REPLICAS_UNCHECKED, REPORTED, SAMPLES_UNCHECKED, ledger_key
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.store_client import StoreClient

#: Call sites of one rank that are kept, those with the most time first.
_PLACES = 20


#: Calls that end for all ranks together. A broadcast or a gather may end much earlier for one side.
_TOGETHER = frozenset({
    "all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_single", "all_gather_into_tensor",
    "all_gather_object", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "all_to_all",
    "all_to_all_single", "barrier", "monitored_barrier",
})  # fmt: skip


class CallSiteTotals(NamedTuple):
    """The calls of one call site."""

    place: str
    operation: str
    group: str
    #: the call returns when the collective has ended
    waits: bool
    calls: int
    total_s: float
    longest_s: float

    @property
    def text(self) -> str:
        return f"{self.operation} at {self.place}" if self.place else self.operation


class Ledger(NamedTuple):
    """The cost of all calls of one rank."""

    rank: int
    host: str
    #: CPU cores that this process may use
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
    #: it ended with its process group
    kept_group: bool = False
    #: samples of the side thread, and those with an open collective, made by Python or C++
    looks: int = 0
    open_looks: int = 0
    #: the flight recorder, which alone sees calls of C++, records
    recorder: bool = True
    #: why a call could not be recorded; "": all were
    error: str = ""


class Summary(NamedTuple):
    """All ranks of a job, at its end."""

    #: of the ranks that wrote one
    ledgers: tuple[Ledger, ...]
    #: ranks of the job
    world_size: int
    #: the longest waits for ranks that compute
    long: tuple[LongWait, ...] = ()
    #: a hang was reported before, and passed
    reported: bool = False
    #: why replicas were not compared although that was requested; "": they were, or it was not
    replicas_unchecked: str = ""
    #: why the samples of ranks were not compared; "": they were, as far as a model is trained from them
    samples_unchecked: str = ""

    @property
    def healthy(self) -> bool:
        """Return whether all ranks ended with status 0."""
        return len(self.ledgers) == self.world_size and all(
            item.state == "left" and item.status == 0 for item in self.ledgers
        )

    @property
    def span_s(self) -> float:
        return max((item.span_s for item in self.ledgers), default=0.0)


def ledger_of(
    calls: CallRecorder,
    rank_info: RankInfo,
    *,
    cores: int,
    span_s: float,
    looks: Sequence[int],
    state: str,
    status: int,
) -> Ledger:
    """Return the ledger of a rank, from the records of its calls."""
    spent = list(calls.spent.items())
    most = sorted(spent, key=lambda item: -item[1].total_s)[:_PLACES]
    return Ledger(
        rank_info.rank, rank_info.host, cores, state, status, span_s, calls.done,
        sum(item.total_s for (_, _, _, waits), item in spent if waits),
        tuple(CallSiteTotals(*key, *item) for key, item in most), dict(calls.backends), calls.joined,
        looks[0], looks[1], records(calls.joined) or not looks[0] or not calls.joined, calls.error,
    )  # fmt: skip


def read_summary(store: StoreClient, world_size: int) -> Summary:
    """Return all ledgers that are in the store."""
    keys = [ledger_key(rank) for rank in range(world_size)]
    texts = store.multi_get(keys) if store.check(keys) else ()
    long = json.loads(store.get(LONG) or "[]")
    return Summary(
        tuple(_read(text) for text in texts), world_size, tuple(LongWait(*item) for item in long),
        bool(store.check([REPORTED])), store.get(REPLICAS_UNCHECKED) or "", store.get(SAMPLES_UNCHECKED) or "",
    )  # fmt: skip


def _read(text: str) -> Ledger:
    ledger = Ledger(*json.loads(text))
    return ledger._replace(sites=tuple(CallSiteTotals(*site) for site in ledger.sites))
