"""Compares the copies of models that no wrapper holds: the rows of this rank, and those of several ranks together.

Each rank puts its rows into the store. The lowest rank reads those of some ranks and judges models that have made many
steps. Where ranks may average their models now and then, only the end of the script shows it: the last rank that ends
judges all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from distcheck.core.model import grouped
from distcheck.runtime.coordination.copies import ModelStep, ParameterCopy, TrainedModels, unchecked
from distcheck.runtime.coordination.copy_observer import CopyObserver, CopyRow
from distcheck.runtime.coordination.digests import Digest
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
                self._read.setdefault(other, []).extend(_row(values) for values in json.loads(text))
                self._chunks[other] = self._chunks.get(other, 0) + 1

    def _models(self, ranks: tuple[int, ...], at_end: list[Mapping[str, Any]]) -> TrainedModels:
        """Return the models of which all compared ranks have made the same rows.

        :param at_end: what each rank sent last; none: the script goes on
        """
        rows = [row for other in ranks for row in self._read.get(other, ())]
        steps: dict[int, dict[int, tuple[ModelStep, ...]]] = {}
        for (number, count), together in sorted(grouped(rows, lambda row: (row.model, row.nth)).items()):
            if len(together) == len(ranks) and len({row.network for row in together}) == 1:
                steps.setdefault(number, {})[count] = tuple(_step(row) for row in sorted(together))
        synced: dict[int, dict[str, int]] = {}
        for sent in at_end:
            for name_of_model, (_, counts) in sent.items():
                known = synced.setdefault(int(name_of_model), {})
                known.update({name: max(count, known.get(name, 0)) for name, count in counts.items()})
        return TrainedModels(
            steps, bool(at_end), any(row.divided for row in rows), any(row.wrapped for row in rows), synced
        )


def _row(values: list[Any]) -> CopyRow:
    row = CopyRow(*values)
    return row._replace(
        parameters=tuple(
            (name, varied, None if gradient is None else Digest(*gradient), Digest(*value))
            for name, varied, gradient, value in row.parameters
        ),
        reduced_among={name: tuple(ranks) for name, ranks in row.reduced_among.items()},
        buffers={name: Digest(*value) for name, value in row.buffers.items()},
    )


def _step(row: CopyRow) -> ModelStep:
    parameters = {name: ParameterCopy(varied, gradient, value) for name, varied, gradient, value in row.parameters}
    return ModelStep(
        row.rank, row.model, row.network, False, "", row.place, row.step, (), row.calls, parameters, tuple(row.rates),
        row.synced, row.hooked_elsewhere, row.unreduced, row.reduced_among, row.divides_data, row.buffers,
    )  # fmt: skip


def _key(rank: int, number: int) -> str:
    return f"{PREFIX}/copies/{rank}/{number}"


def _end_key(rank: int) -> str:
    return f"{PREFIX}/copies/{rank}/end"
