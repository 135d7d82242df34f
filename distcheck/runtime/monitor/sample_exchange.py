"""Which samples the ranks of a running job read: the rows of this rank, and what those of several ranks show together.

The hooks of :mod:`distcheck.runtime.coordination.loader_hooks` write rows about the first batches of the first passes
over each loader. Each rank puts them into the store when a pass has given enough. The lowest rank reads those of some
ranks and has them judged by the probes of a rehearsal. No collective is added, and no batch is read later than these.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.frames import innermost_own
from distcheck.runtime.coordination.loader_watcher import RecordLimits
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.coordination.protocol import PREFIX, SAMPLES_UNCHECKED, packed
from distcheck.runtime.coordination.sampling import Samples, samples_of
from distcheck.runtime.coordination.store_client import StoreClient

#: Passes are recorded one by one: two epochs, and one more where a script warms up.
LIMITS = RecordLimits(batches=16, passes=3, all_passes=24, thorough=False)
#: Ranks that are compared: neighbours, which share a host, and as many that are spread over the job.
_NEIGHBOURS = _SPREAD = 8
#: Rows of this process that wait to be sent: some passes of the longest kind.
_MOST_ROWS = 2_000
#: Rows behind which a pass gives no more.
_LAST_ROWS = ("samples.end", "samples.open")


class SampleLog:
    """The rows of this process. The main thread appends, and the side thread takes what is complete."""

    def __init__(self, calls: CallRecorder) -> None:
        self.at_end: list[Callable[[], object]] = []
        self.lost: dict[str, int] = {}
        #: why a row could not be made; "": all were
        self.error = ""
        self._calls = calls
        self._begun = time.monotonic()
        self._rows: deque[LoggedEvent] = deque()
        #: rows that were made, those of them that belong to complete passes, and those that were taken
        self._made = self._complete = self._taken = 0
        #: the script's own groups, once they are in the rows
        self._groups: set[tuple[int, ...]] = set()

    def note(self, kind: str, *, place: tuple[str, str] | None = None, **data: Any) -> None:
        """Append one row; if one is lost, the samples are not checked as a whole."""
        if kind == "stage.hook_failed":
            self.error = self.error or str(data["why"])
            return
        if len(self._rows) >= _MOST_ROWS:
            self.error = self.error or f"more than {_MOST_ROWS:,} rows wait to be sent"
            self.count_lost(kind)
            return
        where, function = innermost_own(sys._getframe(1)) if place is None else place
        self._rows.append(LoggedEvent(kind, None, 0, time.monotonic() - self._begun, 0, where, function, data))
        self._made += 1
        if kind in _LAST_ROWS:
            self._note_groups()
            self._complete = self._made

    def count_lost(self, kind: str) -> None:
        """Count a row that was not kept."""
        self.lost[kind] = self.lost.get(kind, 0) + 1

    def finish(self) -> None:
        """Complete all rows: the script has ended."""
        for last in self.at_end:
            last()
        self._complete = self._made

    def taken(self) -> list[LoggedEvent]:
        """Return the rows of passes that are complete, once."""
        rows = [self._rows.popleft() for _ in range(self._complete - self._taken)]
        self._taken += len(rows)
        return rows

    def _note_groups(self) -> None:
        """Add a row for each group of some ranks that the script made: these may read the same on purpose."""
        world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
        if world is None or not self._calls.joined:
            return
        everybody = max((len(ranks) for ranks in world.pg_group_ranks.values()), default=0)
        for ranks in world.pg_group_ranks.values():
            members = tuple(sorted(ranks))
            if 1 < len(members) < everybody and members not in self._groups:
                self._groups.add(members)
                self.note("samples.group", place=("", ""), ranks=list(members))


class SampledRanks(NamedTuple):
    """What some ranks read."""

    samples: Samples
    #: ranks that were compared
    ranks: tuple[int, ...]


class SampleExchange:
    """Sends the rows of this rank, and reads those of others; used by the side thread alone.

    :param judge: reports what is wrong and was not reported before
    """

    def __init__(self, log: SampleLog, judge: Callable[[SampledRanks, StoreClient], None]) -> None:
        self._log = log
        self._judge = judge
        self._sent = 0
        self._read: dict[int, list[LoggedEvent]] = {}
        self._chunks: dict[int, int] = {}
        self._judged = 0

    def tick(self, store: StoreClient, rank: int, world_size: int, final: bool) -> None:
        """Send rows of complete passes, and judge what is new.

        :param final: the script has ended. The last rank that ends finds all rows, so each one judges
        """
        ranks = compared_ranks(world_size)
        if final:
            self._log.finish()
            if self._log.error:
                store.set(SAMPLES_UNCHECKED, f"rank {rank}: {self._log.error}")
        if len(ranks) < 2 or rank not in ranks:
            self._log.taken()
            return
        rows = self._log.taken()
        if rows:
            store.set(_key(rank, self._sent), packed(rows))
            self._sent += 1
        if final:
            store.set(_end_key(rank), "1")
        elif rank != ranks[0]:
            return
        self._read_new(store, ranks)
        over = final and store.check([_end_key(other) for other in ranks])
        complete = min(self._chunks.get(other, 0) for other in ranks)
        if complete > self._judged or over:
            self._judged = complete
            rows = [row for other in ranks for row in self._read.get(other, ())]
            samples = samples_of(_with_twins(rows), world_size)
            if over and (why := samples.unchecked()):
                store.set(SAMPLES_UNCHECKED, why)
            self._judge(SampledRanks(samples, ranks), store)

    def _read_new(self, store: StoreClient, ranks: tuple[int, ...]) -> None:
        for other in ranks:
            while store.check([_key(other, self._chunks.get(other, 0))]):
                text = store.get(_key(other, self._chunks.get(other, 0))) or "[]"
                # process IDs of several hosts may be equal
                self._read.setdefault(other, []).extend(
                    LoggedEvent(*row)._replace(rank=other, pid=other) for row in json.loads(text)
                )
                self._chunks[other] = self._chunks.get(other, 0) + 1


def compared_ranks(world_size: int) -> tuple[int, ...]:
    """Return the ranks whose samples are compared: all of a small job, 16 of a large one."""
    spread = range(0, world_size, max(1, world_size // _SPREAD))
    return tuple(sorted({*range(min(_NEIGHBOURS, world_size)), *list(spread)[:_SPREAD]}))


def _with_twins(rows: list[LoggedEvent]) -> list[LoggedEvent]:
    """Return the rows, in which the ranks of a group that wraps no model may read the same: it may split a model."""
    wrapped = {tuple(row.data["ranks"]) for row in rows if row.kind == "samples.wrapped"}
    return [
        row._replace(kind="samples.twins") if row.kind == "samples.group" and tuple(row.data["ranks"]) not in wrapped
        else row
        for row in rows
    ]  # fmt: skip


def _key(rank: int, number: int) -> str:
    return f"{PREFIX}/samples/{rank}/{number}"


def _end_key(rank: int) -> str:
    return f"{PREFIX}/samples/{rank}/end"
