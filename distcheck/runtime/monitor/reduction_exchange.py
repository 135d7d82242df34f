"""Compares the gradients of the first steps before and after their reduction, on all ranks of a running job.

Each rank puts its rows into the store once, after the last of these steps or at its end. The lowest rank judges them.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from distcheck.runtime.coordination.protocol import PREFIX, packed
from distcheck.runtime.coordination.reductions import MOST_RANKS, Reductions, gradient_of, reductions_of
from distcheck.runtime.coordination.store_client import StoreClient
from distcheck.runtime.coordination.training import TrainingObserver


class ReductionExchange:
    """Sends the rows of this rank, and reads those of all; used by the side thread alone.

    :param judge: reports what is wrong and was not reported before
    """

    def __init__(self, training: TrainingObserver, judge: Callable[[Reductions, StoreClient], None]) -> None:
        self._training = training
        self._judge = judge
        self._sent = self._judged = False

    def tick(self, store: StoreClient, rank: int, world_size: int, final: bool) -> None:
        """Send the rows once they are complete, and judge those of all ranks.

        :param final: the script has ended. The last rank that ends finds all rows, so each one judges
        """
        if self._judged or not 1 < world_size <= MOST_RANKS:
            return
        if not self._sent and (final or self._training.reductions_are_complete):
            self._sent = True
            store.set(_key(rank), packed(list(self._training.reductions)))
            self._training.reductions.clear()
        ranks = range(world_size)
        if self._sent and (rank == 0 or final) and store.check([_key(other) for other in ranks]):
            self._judged = True
            texts = store.multi_get([_key(other) for other in ranks])
            rows = [gradient_of(values) for text in texts for values in json.loads(text)]
            self._judge(reductions_of(rows, set(ranks)), store)


def _key(rank: int) -> str:
    return f"{PREFIX}/reductions/{rank}"
