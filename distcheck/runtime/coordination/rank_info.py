"""Which rank this process is, and where its job meets: from torch's variables, or from those of any other launcher.

It only reads variables. Where they say too little, the rule about rendezvous variables (DC101) says what to type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distcheck.launch.schedulers import Scheduler, expand_hostlist, scheduler_of

#: Ports from here on are taken for jobs whose launcher names none: below Linux's ephemeral range, which begins at
#: 32768 (ip-sysctl, ip_local_port_range), so that no outgoing connection holds one.
_FIRST_PORT = 20000
_PORTS = 10000


class RankInfo(NamedTuple):
    """One rank among all."""

    rank: int
    world_size: int
    local_rank: int | None = None
    local_world_size: int | None = None
    node_rank: int | None = None
    master_addr: str = "127.0.0.1"
    master_port: int = 0
    #: torchrun's agent serves the store; else rank 0 does
    agent_store: bool = False
    #: how often the launcher has started this job's processes again
    restarts: int = 0

    @property
    def serves(self) -> bool:
        """This rank serves the store."""
        return self.rank == 0 and not self.agent_store

    @property
    def leads(self) -> bool:
        """It speaks for its host: its first rank, or one that can't tell."""
        return self.local_rank in (0, None) or self.local_world_size is None


def with_rank_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with those that torch reads filled in from the launcher's own, as far as it tells."""
    seen = dict(environ)
    scheduler = scheduler_of(environ)
    if scheduler is None or scheduler.numbered_by is None:
        return seen
    if seen.get("RANK") and seen["RANK"] != str(scheduler.rank):
        return seen  # whoever numbered the ranks did it otherwise, and what the scheduler counts is something else
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


def rank_info_of(environ: Mapping[str, str]) -> RankInfo | None:
    """This process's rank_info; None where rank, number of ranks or the meeting place are missing or can't be read."""
    numbers = {name: _number(environ.get(name)) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
    rank, world_size, port = numbers["RANK"], numbers["WORLD_SIZE"], numbers["MASTER_PORT"]
    if rank is None or world_size is None or world_size < 1:
        return None
    if world_size > 1 and (not environ.get("MASTER_ADDR") or port is None):
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
    )


def _first_host(environ: Mapping[str, str], scheduler: Scheduler) -> str | None:
    """The host of rank 0: the first of the scheduler's list, or this one where all tasks are here."""
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
    """The same port on all ranks of one step, and another one for another job."""
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
