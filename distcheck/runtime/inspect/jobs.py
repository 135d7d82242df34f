"""The ranks of jobs that run on this host, found from the environments of their processes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck.launch.schedulers import scheduler_of
from distcheck.runtime.coordination.model import MOST_RANKS

from .processes import JOB_KEY, JOB_NAMES, Processes, RankCandidate, number

#: Links between a process and the rank above it; this only bounds the walk.
_DEEPEST = 64


class RankProcess(NamedTuple):
    """A process that is a rank."""

    rank: int
    process: RankCandidate
    local_rank: int | None = None

    @property
    def pid(self) -> int:
        """Return its process ID on this host."""
        return self.process.pid


class Job(NamedTuple):
    """The ranks of one job on this host."""

    #: name for the user: a scheduler's number, a run's id, or its rendezvous
    name: str
    #: by rank
    ranks: tuple[RankProcess, ...]
    #: number of all ranks, on all hosts
    world_size: int
    #: names that ``--job`` accepts
    names: tuple[str, ...] = ()
    #: ranks of this host without a process
    ended: tuple[int, ...] = ()
    #: ranks of this host that cannot be seen from here
    hidden: tuple[int, ...] = ()
    #: processes that claim a rank that another one has
    surplus: tuple[RankProcess, ...] = ()
    #: processes above the ranks: launchers, wrappers, shells
    above: tuple[int, ...] = ()
    #: ``environment``, or ``start`` if only the order of their start numbers them
    numbered_by: str = "environment"


# search


def find_jobs(processes: Processes) -> tuple[Job, ...]:
    """Return the jobs that run here, by the environments of their processes; the biggest first."""
    by_pid = {process.pid: process for process in processes.processes}
    groups: dict[tuple[str, ...], dict[int, list[RankCandidate]]] = {}
    for process in processes.processes:
        rank, size = _count(process, "RANK"), _count(process, "WORLD_SIZE")
        if rank is None or not size or not process.python or process.launcher is not None:
            continue
        if not process.torchs_own and not process.torch:
            continue  # any program of a step has the scheduler's number
        groups.setdefault(_key(process), {}).setdefault(rank, []).append(process)
    jobs = [_job(claims, by_pid, processes.parents) for claims in groups.values()]
    return tuple(sorted(jobs, key=lambda job: (-len(job.ranks), job.name)))


def _key(process: RankCandidate) -> tuple[str, ...]:
    return tuple(process.variables.get(name, "") for name in JOB_KEY)


def _job(
    claims: Mapping[int, list[RankCandidate]], by_pid: Mapping[int, RankCandidate], parents: Mapping[int, int]
) -> Job:
    ranks: list[RankProcess] = []
    surplus: list[RankProcess] = []
    for rank in sorted(claims):
        first, *others = (_as_rank(rank, process) for process in _heads(claims[rank], parents))
        ranks.append(first)
        surplus.extend(others)
    variables = ranks[0].process.variables
    above = tuple(dict.fromkeys(pid for item in ranks for pid in ancestors(item.pid, parents)))
    # a visible launcher shows all of its children
    seen_whole = any(by_pid[pid].launcher is not None for pid in above if pid in by_pid)
    absent = tuple(_absent(ranks))
    return Job(
        _name(variables),
        tuple(ranks),
        _count(ranks[0].process, "WORLD_SIZE") or 0,
        tuple(_names(variables)),
        ended=absent if seen_whole else (),
        hidden=() if seen_whole else absent,
        surplus=tuple(surplus),
        above=above,
    )


def _as_rank(rank: int, process: RankCandidate) -> RankProcess:
    return RankProcess(rank, process, _count(process, "LOCAL_RANK"))


def _count(process: RankCandidate, name: str) -> int | None:
    """Return the number of ranks in a variable; None if there is none, or if it is too large for a job."""
    found = number(process.variables.get(name))
    return None if found is None or found > MOST_RANKS else found


def _heads(claims: Sequence[RankCandidate], parents: Mapping[int, int]) -> list[RankCandidate]:
    """Return the processes that are a rank, newest first; an earlier start left the older ones.

    Not their children (loaders of data, compilers, trackers), and not a wrapper in Python that has not loaded torch.
    """
    loaded = [process for process in claims if process.torch]
    candidates = loaded or list(claims)
    own = {process.pid for process in candidates}
    heads = [process for process in candidates if own.isdisjoint(ancestors(process.pid, parents))]
    return sorted(heads, key=lambda process: (process.age_s, process.pid))


def ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """Return the ancestors of a process, nearest first."""
    for _ in range(_DEEPEST):
        pid = parents.get(pid, 0)
        if pid <= 1:
            return
        yield pid


def _absent(ranks: Sequence[RankProcess]) -> Iterator[int]:
    """Ranks that the launcher has started on this host and that are not among these. All launchers number the ranks of
    a host one after another; where these are not so, nothing is known."""
    firsts = {item.rank - item.local_rank for item in ranks if item.local_rank is not None}
    sizes = {_count(item.process, "LOCAL_WORLD_SIZE") for item in ranks}
    if len(firsts) != 1 or len(sizes) != 1:
        return
    first, size = firsts.pop(), sizes.pop()
    here = {item.rank for item in ranks}
    yield from (rank for rank in range(first, first + (size or 0)) if rank not in here)


def _names(variables: Mapping[str, str]) -> Iterator[str]:
    """Return names of the job: its number with and without step and task."""
    for name in JOB_NAMES:
        if value := variables.get(name):
            yield value
    job, step = variables.get("SLURM_JOB_ID"), variables.get("SLURM_STEP_ID")
    if job and step:
        yield f"{job}.{step}"
    array, task = variables.get("SLURM_ARRAY_JOB_ID"), variables.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        yield f"{array}_{task}"


def _name(variables: Mapping[str, str]) -> str:
    scheduler = scheduler_of(variables)
    if scheduler is not None and scheduler.job_id:
        return f"{scheduler.name} job {scheduler.job_id}"
    if run := variables.get("TORCHELASTIC_RUN_ID"):
        return f"torchrun {run}" if run != "none" else f"torchrun at {_rendezvous(variables)}"
    return f"the job with rendezvous {_rendezvous(variables)}"


def _rendezvous(variables: Mapping[str, str]) -> str:
    return f"{variables.get('MASTER_ADDR', '?')}:{variables.get('MASTER_PORT', '?')}"


def spawned_job(parent: RankCandidate, processes: Iterable[RankCandidate]) -> Job | None:
    """Return the children of a process that started its ranks itself (``mp.spawn``), in the order of their start.

    Their environments do not show which of its children are ranks: the caller knows from the parent's stack. If the
    parent has a rank, as an operator gives it to a pod, that rank counts nodes.
    """
    children = sorted(children_with_torch(parent.pid, processes), key=lambda process: (-process.age_s, process.pid))
    if not children:
        return None
    node, nodes = _count(parent, "RANK") or 0, _count(parent, "WORLD_SIZE") or 1
    first = node * len(children) if node < nodes else 0
    ranks = tuple(RankProcess(first + local, process, local) for local, process in enumerate(children))
    return Job(
        f"the ranks that process {parent.pid} started",
        ranks,
        len(children) * nodes,
        tuple(_names(parent.variables)),
        above=(parent.pid,),
        numbered_by="start",
    )


def children_with_torch(pid: int, processes: Iterable[RankCandidate]) -> list[RankCandidate]:
    """Return the Python children of a process that have loaded torch."""
    return [process for process in processes if process.parent == pid and process.python and process.torch]


def with_spawned(job: Job, spawned: Mapping[int, Job]) -> Job:
    """Return a job whose ranks are children of processes that claim to be ranks.

    :param spawned: such a process → its ranks
    """
    ranks = [rank for item in job.ranks for rank in (spawned[item.pid].ranks if item.pid in spawned else (item,))]
    size = max(job.world_size, *(made.world_size for made in spawned.values()))
    return job._replace(
        ranks=tuple(sorted(ranks, key=lambda item: item.rank)),
        world_size=size,
        ended=(),
        hidden=(),
        above=(*job.above, *spawned),
        numbered_by="start",
    )


# selection


def jobs_of_process(jobs: Iterable[Job], pid: int, parents: Mapping[int, int]) -> tuple[Job, ...]:
    """Return the jobs to which a process belongs: as a rank, above ranks, or below one."""
    around = {pid, *ancestors(pid, parents)}
    return tuple(
        job for job in jobs if pid in job.above or any(item.pid in around for item in (*job.ranks, *job.surplus))
    )


def jobs_called(jobs: Iterable[Job], name: str) -> tuple[Job, ...]:
    """Return the jobs with a name."""
    return tuple(job for job in jobs if name in job.names)
