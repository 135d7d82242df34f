"""The rank of this process and the rendezvous of its job, from torch's variables or from those of another launcher.

This module only reads variables. If one is missing, the rule about rendezvous variables (DC101) prints the fix.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from distcheck.launch.schedulers import Scheduler, expand_hostlist, scheduler_of

#: The first port for jobs whose launcher names none: below Linux's ephemeral range, which begins at
#: 32768 (ip-sysctl, ip_local_port_range), so that no outgoing connection holds one.
_FIRST_PORT = 20000
_PORTS = 10000


class RankInfo(NamedTuple):
    """One rank of a job: its numbers, its rendezvous, and its process where that is known."""

    rank: int
    world_size: int
    local_rank: int | None = None
    local_world_size: int | None = None
    node_rank: int | None = None
    master_addr: str = "127.0.0.1"
    master_port: int = 0
    #: torchrun's agent serves the store; else rank 0 does
    agent_store: bool = False
    #: how often the launcher restarted the processes of this job
    restarts: int = 0
    host: str = ""
    #: process ID; 0: unknown
    pid: int = 0

    @property
    def serves(self) -> bool:
        """Return whether this rank serves the store."""
        return self.rank == 0 and not self.agent_store

    @property
    def leads(self) -> bool:
        """Return whether this rank reports for its host: the first rank there, or one without a local rank."""
        return self.local_rank in (0, None) or self.local_world_size is None


def with_rank_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, with those that torch reads filled in from the launcher's own."""
    seen = dict(environ)
    scheduler = scheduler_of(environ)
    if scheduler is None or scheduler.numbered_by is None:
        return seen
    if seen.get("RANK") and seen["RANK"] != str(scheduler.rank):
        return seen  # the ranks have other numbers than the scheduler's tasks
    numbers = {
        "RANK": scheduler.rank,
        "WORLD_SIZE": scheduler.tasks,
        "LOCAL_RANK": scheduler.local_rank,
        "LOCAL_WORLD_SIZE": scheduler.tasks_on_node,
    }
    for name, number in numbers.items():
        if number is not None and not seen.get(name):
            seen[name] = str(number)
    address = _first_host(seen, scheduler)
    if address is not None and not seen.get("MASTER_ADDR"):
        seen["MASTER_ADDR"] = address
    if seen.get("MASTER_ADDR") and not seen.get("MASTER_PORT"):
        seen["MASTER_PORT"] = str(_port(scheduler, seen))
    return seen


def rank_info_of(environ: Mapping[str, str], *, host: str = "", rendezvous: bool = True) -> RankInfo | None:
    """Return the rank of this process, or None if a variable is missing or not a number.

    :param rendezvous: several ranks need MASTER_ADDR and MASTER_PORT too
    """
    rank, world_size, port = (_number(environ.get(name)) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    if rank is None or world_size is None or world_size < 1:
        return None
    if rendezvous and world_size > 1 and (not environ.get("MASTER_ADDR") or port is None):
        return None
    node = environ.get("GROUP_RANK") or environ.get("NODE_RANK") or environ.get("SLURM_NODEID")
    return RankInfo(
        rank,
        world_size,
        _number(environ.get("LOCAL_RANK")),
        _number(environ.get("LOCAL_WORLD_SIZE")),
        _number(node),
        environ.get("MASTER_ADDR") or "127.0.0.1",
        port or 0,
        environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        _number(environ.get("TORCHELASTIC_RESTART_COUNT")) or 0,
        host,
    )


def rank_info_of_group(joined: Callable[[], bool], host: str) -> Callable[[], RankInfo | None]:
    """Return a function that returns the rank in the default group, or None while there is no group.

    For ranks without variables: ``mp.spawn``, ``srun python``.
    """

    def rank_info() -> RankInfo | None:
        if not joined():
            return None
        module = sys.modules["torch.distributed.distributed_c10d"]
        with contextlib.suppress(ValueError):  # the group was destroyed meanwhile
            return RankInfo(module.get_rank(), module.get_world_size(), host=host)
        return None

    return rank_info


def _first_host(environ: Mapping[str, str], scheduler: Scheduler) -> str | None:
    """Return the host of rank 0: the first of the scheduler's list, or this one if all tasks are here."""
    if scheduler.node_list:
        try:
            hosts = expand_hostlist(scheduler.node_list.replace(" ", ","))
        except ValueError:
            return None
        if hosts:
            return hosts[0]
    if scheduler.tasks is not None and scheduler.tasks == scheduler.tasks_on_node:
        return "127.0.0.1"
    return None


def _port(scheduler: Scheduler, environ: Mapping[str, str]) -> int:
    """Return a port: the same on all ranks of a step, and another for another job."""
    import hashlib

    names = ("SLURM_STEP_ID", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_ID_NAMESPACE")
    key = "\0".join([scheduler.name, scheduler.job_id or "", *(environ.get(name, "") for name in names)])
    return _FIRST_PORT + int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % _PORTS


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if number >= 0 else None
