"""How the side thread of a rank comes to a store of its own, and how it knows which rank it is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

#: Seconds that one question to the store may take.
_ANSWER_WITHIN_S = 5.0


class RankHost(NamedTuple):
    """Which rank this is."""

    rank: int
    world_size: int
    host: str


def rank_info_of(environ: Mapping[str, str], host: str) -> RankHost | None:
    """Which rank this is by its launcher's variables; None where no launcher says so."""
    try:
        return RankHost(int(environ["RANK"]), int(environ["WORLD_SIZE"]), host)
    except (KeyError, ValueError):
        return None


def late_rank_info(joined: Callable[[], bool], host: str) -> Callable[[], RankHost | None]:
    """Which rank this is as its process group says, as soon as there is one: ``mp.spawn``, ``srun python``."""

    def rank_info() -> RankHost | None:
        if not joined():
            return None
        module = sys.modules["torch.distributed.distributed_c10d"]
        with contextlib.suppress(ValueError):  # it was destroyed meanwhile
            return RankHost(module.get_rank(), module.get_world_size(), host)
        return None

    return rank_info


def outlives_ranks(environ: Mapping[str, str]) -> bool:
    """Whether the store is the launcher's, and not rank 0's own."""
    return environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


class StoreConnection:
    """Gives a store, or None while there is none yet: torchrun's agent serves one from the start; else the group's is
    cloned as soon as there is a group."""

    def __init__(self, joined: Callable[[], bool], environ: Mapping[str, str]) -> None:
        self._joined = joined
        self._environ = environ
        #: rank 0's own store, which would go with its group: whoever still talks to it would be told of a broken pipe
        self._anchor: Any = None

    def __call__(self) -> Any:
        distributed = sys.modules.get("torch.distributed")
        module = sys.modules.get("torch.distributed.distributed_c10d")
        if distributed is None or module is None or getattr(distributed.__spec__, "_initializing", False):
            return None
        if outlives_ranks(self._environ):
            return self._of_agent(distributed)
        if not self._joined():
            return None
        with contextlib.suppress(ValueError):  # the group was destroyed meanwhile
            self._anchor = module._get_default_store()
            store = self._anchor.clone()
            store.set_timeout(timedelta(seconds=_ANSWER_WITHIN_S))
            return store
        return None

    def release(self) -> None:
        """Let go of what would outlive its group: another one is to be made."""
        self._anchor = None

    def _of_agent(self, distributed: Any) -> Any:
        environ = self._environ
        store = distributed.TCPStore(
            environ["MASTER_ADDR"], int(environ["MASTER_PORT"]), is_master=False, wait_for_workers=False,
            timeout=timedelta(seconds=_ANSWER_WITHIN_S),
        )  # fmt: skip
        # one store may serve several jobs, and a job that was restarted finds what it left
        run = environ.get("TORCHELASTIC_RUN_ID", "none")
        return distributed.PrefixStore(f"{run}/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
