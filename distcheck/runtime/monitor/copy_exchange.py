"""Compares the copies of models that no wrapper holds: the rows of this rank, and those of several ranks together.

Each rank puts its rows into the store. The lowest rank reads those of some ranks and judges models that have made many
steps. Where ranks may average their models now and then, only the end of the script shows it: the last rank that ends
judges all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from distcheck.runtime.coordination.copies import TrainedModels, unchecked
from distcheck.runtime.coordination.copy_observer import CopyObserver, CopyRow, models_of, row_of
from distcheck.runtime.coordination.protocol import DRIFT_REPORTED, PREFIX, REPLICAS_UNCHECKED, packed
from distcheck.runtime.coordination.store_client import StoreClient

from .sample_exchange import compared_ranks

#: Steps after which a model counts as one that the script does not average later.
_SETTLED = 64


class CopyExchange:
    """Sends the rows of this rank, and reads those of others; used by the side thread alone.

    :param judge: reports what is wrong and was not reported before
    """

    def __init__(self, observer: CopyObserver, judge: Callable[[TrainedModels, StoreClient], None]) -> None:
        self._observer = observer
        self._judge = judge
        self._sent = 0
        self._read: dict[int, list[CopyRow]] = {}
        self._chunks: dict[int, int] = {}
        self._judged = 0

    def tick(self, store: StoreClient, rank: int, world_size: int, final: bool) -> None:
        """Send new rows, and judge what is complete.

        :param final: the script has ended. The last rank that ends finds all rows, so each one judges
        """
        ranks = compared_ranks(world_size)
        rows = [self._observer.rows.popleft() for _ in range(len(self._observer.rows))]
        if len(ranks) < 2 or rank not in ranks:
            return
        if rows:
            store.set(_key(rank, self._sent), packed(rows))
            self._sent += 1
        if store.check([DRIFT_REPORTED]):
            return
        if final:
            store.set(_end_key(rank), packed(self._observer.last()))
        elif rank != ranks[0]:
            return
        self._read_new(store, ranks)
        if final and store.check([_end_key(other) for other in ranks]):
            at_end = [json.loads(text) for text in store.multi_get([_end_key(other) for other in ranks])]
            models = self._models(ranks, at_end)
            if why := unchecked(models):
                store.set(REPLICAS_UNCHECKED, why)
            self._judge(models, store)
        elif not final:
            models = self._models(ranks, [])
            # the first row of a number counts: the same rows are not judged twice
            done = sum(max(steps) for steps in models.steps.values() if steps)
            if done > self._judged:
                self._judged = done
                settled = {
                    number: steps for number, steps in models.steps.items() if steps[max(steps)][0].nth >= _SETTLED
                }
                if settled:
                    self._judge(models._replace(steps=settled), store)

    def _read_new(self, store: StoreClient, ranks: tuple[int, ...]) -> None:
        for other in ranks:
            while store.check([_key(other, self._chunks.get(other, 0))]):
                text = store.get(_key(other, self._chunks.get(other, 0))) or "[]"
                self._read.setdefault(other, []).extend(row_of(values) for values in json.loads(text))
                self._chunks[other] = self._chunks.get(other, 0) + 1

    def _models(self, ranks: tuple[int, ...], at_end: list[Mapping[str, Any]]) -> TrainedModels:
        """Return what the compared ranks train.

        :param at_end: what each rank sent last; none: the script goes on
        """
        rows = (row for other in ranks for row in self._read.get(other, ()))
        return models_of(rows, len(ranks), at_end, finished=bool(at_end))


def _key(rank: int, number: int) -> str:
    return f"{PREFIX}/copies/{rank}/{number}"


def _end_key(rank: int) -> str:
    return f"{PREFIX}/copies/{rank}/end"
