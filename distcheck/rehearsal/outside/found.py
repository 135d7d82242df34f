"""The ranks of jobs that run on this host, found from outside by the environment in which they were started.

What is read of a process is what its owner may read in /proc: nothing is sent to it, and it does not notice. Of its
environment only the variables are kept that say which rank of which job it is, and where its recorder writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ...collectives.seat import with_rank_variables
from ...environment.processes import Ancestor, launcher_of, read_process
from ...launch.schedulers import scheduler_of
from ...model import Unavailable
from ...world import World

#: Names by which users and schedulers know a job; the first that is set names it.
_JOB_NAMES = (
    "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "SLURM_ARRAY_JOB_ID", "TORCHELASTIC_RUN_ID", "RAY_JOB_ID",
)  # fmt: skip
#: What must be equal for two ranks to be of one job.
_JOB_KEY = (*_JOB_NAMES, "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
#: Where the flight recorder is asked and where it writes (torch 2.13, ProcessGroupNCCL.hpp, FlightRecorder.cpp).
_RECORDER = (
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "HOME",
    "XDG_CACHE_HOME",
)  # fmt: skip
_KEPT = frozenset(
    {
        *_JOB_KEY,
        *_RECORDER,
        "RANK",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "TORCHELASTIC_RESTART_COUNT",
        "SLURM_ARRAY_TASK_ID",
    }
)
#: No process has an environment near it (Linux allows 2 MiB for arguments and environment by default, execve(2)).
_LONGEST_ENVIRONMENT = 2 * 1024 * 1024
#: Seconds for one process; a hundred are read in some milliseconds.
_LIMIT_S = 2.0
#: A library that only torch has, as it stands among a process's mapped files.
_TORCH_LIBRARY = b"libtorch"
#: How torch calls its threads for backward, one a GPU (torch 2.13, csrc/autograd/engine.cpp).
_GRADIENTS = "pt_autograd"
_DRIVER_LIBRARY = b"/libcuda.so"
#: Links between a process and the rank above it; no wrapper comes near it, and it only bounds the walk.
_DEEPEST = 64


class Look(NamedTuple):
    """One look at the main thread of a process, as the kernel knows it (proc(5))."""

    #: ``R`` runs, ``S`` sleeps, ``D`` blocked in the kernel, ``T`` and ``t`` stopped, ``Z`` ended; "" gone
    state: str = ""
    #: seconds of processor time that the main thread has had
    cpu_s: float = 0.0
    #: how often it has gone to sleep by itself, and the threads that compute gradients on GPUs with it
    sleeps: int = 0
    #: the process that traces it; 0: none
    tracer: int = 0


class Process(NamedTuple):
    """A process of the user's that could be a rank, or starts ranks."""

    pid: int
    parent: int
    #: as the kernel knows it: ``python3``, ``pt_main_thread``
    name: str = ""
    #: its program and its script or module, with credentials masked
    arguments: tuple[str, ...] = ()
    launcher: str | None = None
    #: seconds since it was started
    age_s: float = 0.0
    python: bool = False
    #: torch is loaded
    torch: bool = False
    #: the driver's library is loaded: it computes on GPUs
    cuda: bool = False
    #: what is kept of its environment, with torch's names filled in from the launcher's
    variables: Mapping[str, str] = {}
    #: RANK stood in its environment itself; else a scheduler's number stands for it
    torchs_own: bool = True
    #: its working directory; "" where it can't be read
    folder: str = ""


class RankProcess(NamedTuple):
    """A process that is a rank."""

    rank: int
    process: Process
    local_rank: int | None = None

    @property
    def pid(self) -> int:
        """Its number on this host."""
        return self.process.pid


class Job(NamedTuple):
    """Ranks of one job on this host."""

    #: what a user calls it: a scheduler's number, a run's id, or where it meets
    name: str
    #: by rank
    ranks: tuple[RankProcess, ...]
    #: all of the job's, on all hosts
    world_size: int
    #: what ``--job`` may call it
    names: tuple[str, ...] = ()
    #: ranks that belong on this host and have no process any more
    ended: tuple[int, ...] = ()
    #: ranks that belong on this host and can't be seen from here
    hidden: tuple[int, ...] = ()
    #: processes that claim a rank that another one has
    surplus: tuple[RankProcess, ...] = ()
    #: processes above the ranks: launchers, wrappers, shells
    above: tuple[int, ...] = ()
    #: ``environment``, or ``start`` where only the order of their start numbers them
    numbered_by: str = "environment"


class Processes(NamedTuple):
    """This user's processes on this host, as far as they bear on ranks."""

    processes: tuple[Process, ...] = ()
    #: parents of all processes that can be seen, whosever they are
    parents: Mapping[int, int] = {}
    #: programs called like Python of this user's whose environment can't be read
    unreadable: tuple[int, ...] = ()


# reading


def read_processes(world: World, *, everyone: bool = False) -> Processes:
    """All processes of this user that Python runs or that start ranks.

    :param everyone: also other users' (only root can read what is asked of them)
    :raises Unavailable: there is no /proc
    """
    if world.platform != "linux":
        raise Unavailable(f"{world.platform} has no /proc, where the ranks of a job are looked for")
    try:
        numbers = [int(name) for name in world.list_folder("/proc") if name.isdecimal()]
    except OSError as error:
        raise Unavailable(f"/proc can't be read: {error.strerror}") from error
    users = None if everyone else _users(world)
    up_s = _uptime(world)
    found: list[Process] = []
    parents: dict[int, int] = {}
    unreadable: list[int] = []
    for pid in numbers:
        fields = _stat_fields(world, f"/proc/{pid}/stat")
        if fields is None:
            continue
        parents[pid] = int(fields[1])
        if pid == world.pid or (users is not None and _owner(world, pid) not in users):
            continue
        try:
            process = _within(partial(_process, world, pid, fields, up_s))
        except OSError:
            if name_of(world, pid).startswith(("python", "pt_")):
                unreadable.append(pid)
            continue
        if process is not None:
            found.append(process)
    return Processes(tuple(found), parents, tuple(unreadable))


def look_at(world: World, pid: int) -> Look:
    """The main thread of a process right now."""
    fields = _stat_fields(world, f"/proc/{pid}/task/{pid}/stat")
    if fields is None:
        return Look()
    status = _status(world, f"/proc/{pid}/task/{pid}/status")
    return Look(
        fields[0],
        (int(fields[11]) + int(fields[12])) / _ticks(),
        _sleeps(status) + sum(_sleeps(_status(world, path)) for path in _gradient_threads(world, pid)),
        _number(status.get("TracerPid")) or 0,
    )


def _sleeps(status: Mapping[str, str]) -> int:
    return _number(status.get("voluntary_ctxt_switches")) or 0


def _gradient_threads(world: World, pid: int) -> Iterator[str]:
    """With GPUs a main thread may spin at one line in every step (``loss.item()``); these wake up once in each."""
    try:
        threads = world.list_folder(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        status = f"/proc/{pid}/task/{thread}/status"
        if thread != str(pid) and _status(world, status).get("Name", "").startswith(_GRADIENTS):
            yield status


def name_of(world: World, pid: int) -> str:
    """A process's name, which can be read of any; "" for one that has gone."""
    return _status(world, f"/proc/{pid}/status").get("Name", "")


def _within(read: Callable[[], Process | None]) -> Process | None:
    """Read: the memory of a process may be locked (one that is blocked in the kernel, or that dumps its core), and
    whoever reads its environment then blocks as well.

    :raises TimeoutError: it did not come within _LIMIT_S
    """
    import threading

    answers: list[Process | OSError | None] = []

    def answer() -> None:
        try:
            answers.append(read())
        except OSError as error:
            answers.append(error)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    thread.join(_LIMIT_S)
    if not answers:
        raise TimeoutError(f"nothing of it could be read within {_LIMIT_S:g} s")
    if isinstance(answers[0], OSError):
        raise answers[0]
    return answers[0]


def _process(world: World, pid: int, fields: Sequence[str], up_s: float) -> Process | None:
    """What is kept of a process; None for one that can be neither a rank nor above one. Raises OSError."""
    raw = world.read_bytes(f"/proc/{pid}/environ", _LONGEST_ENVIRONMENT)
    own: Ancestor = read_process(world, pid)
    launcher = launcher_of(own)
    python = _runs_python(world, pid, own)
    if not python and launcher is None:
        return None
    environ = _variables(raw)
    numbered = with_rank_variables(environ)
    return Process(
        pid,
        int(fields[1]),
        own.name,
        own.arguments,
        launcher,
        max(0.0, up_s - int(fields[19]) / _ticks()),
        python,
        *(_libraries(world, pid) if python else (False, False)),
        {name: value for name, value in numbered.items() if name in _KEPT},
        "RANK" in environ,
        _folder(world, pid),
    )


def _variables(raw: bytes) -> dict[str, str]:
    """An environment as the kernel shows it: as it was when the program was started."""
    pairs = (item.partition("=") for item in raw.decode("utf-8", "replace").split("\0") if item)
    return {name: value for name, equals, value in pairs if equals}


def _runs_python(world: World, pid: int, own: Ancestor) -> bool:
    try:
        program = world.read_link(f"/proc/{pid}/exe")
    except OSError:
        program = own.arguments[0] if own.arguments else ""
    return program.rpartition("/")[2].startswith(("python", "pypy"))


def _libraries(world: World, pid: int) -> tuple[bool, bool]:
    """Whether torch's and the CUDA driver's libraries are among the files that it has mapped."""
    try:
        maps = world.read_bytes(f"/proc/{pid}/maps")
    except OSError:
        return False, False
    return _TORCH_LIBRARY in maps, _DRIVER_LIBRARY in maps


def _folder(world: World, pid: int) -> str:
    try:
        return world.read_link(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _users(world: World) -> Collection[int]:
    """Whose processes are looked at: the caller's, and under sudo those of the user behind it."""
    users = {world.user_id}
    behind = _number(os.environ.get("SUDO_UID"))
    if world.user_id == 0 and behind is not None:
        users.add(behind)
    return users


def _owner(world: World, pid: int) -> int | None:
    """The user that a process runs as: the second of four, the effective one."""
    words = _status(world, f"/proc/{pid}/status").get("Uid", "").split()
    return _number(words[1]) if len(words) > 1 else None


def _stat_fields(world: World, path: str) -> list[str] | None:
    """The fields behind the name, from the state on; None for a process that is hidden or gone."""
    try:
        fields = world.read_text(path).rpartition(")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 and fields[1].isdigit() else None


def _status(world: World, path: str) -> dict[str, str]:
    try:
        lines = world.read_text(path).splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _uptime(world: World) -> float:
    try:
        return float(world.read_text("/proc/uptime").split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None


# finding


def find_jobs(processes: Processes) -> tuple[Job, ...]:
    """The jobs that run here, by the environments of their processes; biggest first. Pure."""
    by_pid = {process.pid: process for process in processes.processes}
    groups: dict[tuple[str, ...], dict[int, list[Process]]] = {}
    for process in processes.processes:
        rank, size = _number(process.variables.get("RANK")), _number(process.variables.get("WORLD_SIZE"))
        if rank is None or not size or not process.python or process.launcher is not None:
            continue
        if not process.torchs_own and not process.torch:
            continue  # any program of a step has the scheduler's number
        groups.setdefault(_key(process), {}).setdefault(rank, []).append(process)
    jobs = [_job(claims, by_pid, processes.parents) for claims in groups.values()]
    return tuple(sorted(jobs, key=lambda job: (-len(job.ranks), job.name)))


def _key(process: Process) -> tuple[str, ...]:
    return tuple(process.variables.get(name, "") for name in _JOB_KEY)


def _job(claims: Mapping[int, list[Process]], by_pid: Mapping[int, Process], parents: Mapping[int, int]) -> Job:
    ranks: list[RankProcess] = []
    surplus: list[RankProcess] = []
    for rank in sorted(claims):
        first, *others = (_as_rank(rank, process) for process in _heads(claims[rank], parents))
        ranks.append(first)
        surplus.extend(others)
    variables = ranks[0].process.variables
    above = tuple(dict.fromkeys(pid for item in ranks for pid in _above(item.pid, parents)))
    # a launcher that can be seen shows all of its children
    seen_whole = any(by_pid[pid].launcher is not None for pid in above if pid in by_pid)
    absent = tuple(_absent(ranks))
    return Job(
        _name(variables),
        tuple(ranks),
        int(variables["WORLD_SIZE"]),
        tuple(_names(variables)),
        ended=absent if seen_whole else (),
        hidden=() if seen_whole else absent,
        surplus=tuple(surplus),
        above=above,
    )


def _as_rank(rank: int, process: Process) -> RankProcess:
    return RankProcess(rank, process, _number(process.variables.get("LOCAL_RANK")))


def _heads(claims: Sequence[Process], parents: Mapping[int, int]) -> list[Process]:
    """Of all processes with one rank those that are it, newest first: an older one was left by an earlier start.

    Not their children (loaders of data, compilers, trackers), and not a wrapper in Python that has not loaded torch.
    """
    loaded = [process for process in claims if process.torch]
    candidates = loaded or list(claims)
    own = {process.pid for process in candidates}
    heads = [process for process in candidates if own.isdisjoint(_above(process.pid, parents))]
    return sorted(heads, key=lambda process: (process.age_s, process.pid))


def _above(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """The ancestors of a process, nearest first."""
    for _ in range(_DEEPEST):
        pid = parents.get(pid, 0)
        if pid <= 1:
            return
        yield pid


def _absent(ranks: Sequence[RankProcess]) -> Iterator[int]:
    """Ranks that the launcher has started on this host and that are not among these. All launchers number the ranks of
    a host one after another; where these are not so, nothing is known."""
    firsts = {item.rank - item.local_rank for item in ranks if item.local_rank is not None}
    sizes = {_number(item.process.variables.get("LOCAL_WORLD_SIZE")) for item in ranks}
    if len(firsts) != 1 or len(sizes) != 1:
        return
    first, size = firsts.pop(), sizes.pop()
    here = {item.rank for item in ranks}
    yield from (rank for rank in range(first, first + (size or 0)) if rank not in here)


def _names(variables: Mapping[str, str]) -> Iterator[str]:
    """What a user may call the job: its number with and without step and task."""
    for name in _JOB_NAMES:
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
        return f"torchrun {run}" if run != "none" else f"torchrun at {_meeting(variables)}"
    return f"the job that meets at {_meeting(variables)}"


def _meeting(variables: Mapping[str, str]) -> str:
    return f"{variables.get('MASTER_ADDR', '?')}:{variables.get('MASTER_PORT', '?')}"


def spawned_job(parent: Process, processes: Iterable[Process]) -> Job | None:
    """The children of a process that started its ranks itself (``mp.spawn``): numbered in the order of their start.

    Nothing in their environment says which of its children are ranks: the caller knows from the parent's stack.
    """
    children = sorted(
        (process for process in processes if process.parent == parent.pid and process.python and process.torch),
        key=lambda process: (-process.age_s, process.pid),
    )
    if not children:
        return None
    ranks = tuple(RankProcess(number, process, number) for number, process in enumerate(children))
    return Job(
        f"the ranks that process {parent.pid} started", ranks, len(ranks), above=(parent.pid,), numbered_by="start"
    )


# choosing


def jobs_of_process(jobs: Iterable[Job], pid: int, parents: Mapping[int, int]) -> tuple[Job, ...]:
    """The jobs that a process belongs to: as a rank, above ranks, or below one."""
    around = {pid, *_above(pid, parents)}
    return tuple(
        job for job in jobs if pid in job.above or any(item.pid in around for item in (*job.ranks, *job.surplus))
    )


def jobs_called(jobs: Iterable[Job], name: str) -> tuple[Job, ...]:
    """The jobs that a user calls so."""
    return tuple(job for job in jobs if name in job.names)
