"""This user's processes on this host that could be ranks, read from /proc with the rights of their owner.

Nothing is sent to a process. Of its environment only the variables are kept that identify its rank and job, and the
output of its flight recorder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from distcheck.checks.host.processes import Ancestor, launcher_of, read_process
from distcheck.core.model import Unavailable
from distcheck.core.world import World
from distcheck.runtime.coordination.rank_info import with_rank_variables

#: Names by which users and schedulers know a job; the first one that is set is used.
JOB_NAMES = (
    "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "SLURM_ARRAY_JOB_ID", "TORCHELASTIC_RUN_ID", "RAY_JOB_ID",
)  # fmt: skip
#: Variables that two ranks of one job share.
JOB_KEY = (*JOB_NAMES, "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
#: Where the flight recorder is requested, and where it writes (torch 2.13, ProcessGroupNCCL.hpp, FlightRecorder.cpp).
_RECORDER = (
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "HOME",
    "XDG_CACHE_HOME",
)  # fmt: skip
_KEPT = frozenset(
    {
        *JOB_KEY,
        *_RECORDER,
        "RANK",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "TORCHELASTIC_RESTART_COUNT",
        "SLURM_ARRAY_TASK_ID",
    }
)
#: Longest environment; Linux allows 2 MiB for arguments and environment by default (execve(2)).
_LONGEST_ENVIRONMENT = 2 * 1024 * 1024
#: Seconds for one process; a hundred take some milliseconds.
_LIMIT_S = 2.0
#: A process that starts or ends cannot be read for a moment.
_TRIES = 2
#: A library that only torch has, among the mapped files of a process.
_TORCH_LIBRARY = b"libtorch"
#: Names of torch's backward threads, one a GPU (torch 2.13, csrc/autograd/engine.cpp).
_GRADIENTS = "pt_autograd"
_DRIVER_LIBRARY = b"/libcuda.so"
#: Generations below a process, and processes, whose CPU time counts as its own.
_GENERATIONS, _FAMILY = 4, 256
#: Digits of 2^64.
_MOST_DIGITS = 20


class ThreadSample(NamedTuple):
    """One sample of the main thread of a process, from the kernel (proc(5))."""

    #: ``R`` runs, ``S`` sleeps, ``D`` blocked in the kernel, ``T`` and ``t`` stopped, ``Z`` zombie; "" exited
    state: str = ""
    #: CPU seconds of the main thread
    cpu_s: float = 0.0
    #: number of times that it went to sleep, with the threads that compute gradients on GPUs
    sleeps: int = 0
    #: the process that traces it; 0: none
    tracer: int = 0
    #: CPU seconds of all of its threads and of its children: a copy, a download, an archive
    around_s: float = 0.0


class RankCandidate(NamedTuple):
    """A process of the user that could be a rank, or that starts ranks."""

    pid: int
    parent: int
    #: its name in the kernel: ``python3``, ``pt_main_thread``
    name: str = ""
    #: its program and its script or module, with credentials masked
    arguments: tuple[str, ...] = ()
    launcher: str | None = None
    #: seconds since its start
    age_s: float = 0.0
    python: bool = False
    #: torch is loaded
    torch: bool = False
    #: the driver's library is loaded: it computes on GPUs
    cuda: bool = False
    #: the kept variables, with torch's names filled in from the launcher's
    variables: Mapping[str, str] = {}
    #: RANK was set in its environment; else a scheduler's number replaces it
    torchs_own: bool = True
    #: its working directory; "" if it cannot be read
    folder: str = ""


class Processes(NamedTuple):
    """This user's processes on this host that bear on ranks."""

    processes: tuple[RankCandidate, ...] = ()
    #: parents of all visible processes, of any user
    parents: Mapping[int, int] = {}
    #: Python-like programs of the inspected users whose environment cannot be read
    unreadable: tuple[int, ...] = ()


# reading


def read_processes(world: World, *, everyone: bool = False) -> Processes:
    """Return all processes of this user that run Python or start ranks.

    :param everyone: those of other users too (only root can read them)
    :raises Unavailable: there is no /proc
    """
    if world.platform != "linux":
        raise Unavailable(f"{world.platform} has no /proc, which lists the ranks of a job")
    try:
        numbers = [int(name) for name in world.list_folder("/proc") if name.isdecimal()]
    except OSError as error:
        raise Unavailable(f"/proc can't be read: {error.strerror}") from error
    users = None if everyone else _users(world)
    parents: dict[int, int] = {}
    left: list[tuple[int, list[str]]] = []
    for pid in numbers:
        fields = _stat_fields(world, f"/proc/{pid}/stat")
        if fields is not None:
            parents[pid] = int(fields[1])
            if pid != world.pid and (users is None or _owner(world, pid) in users):
                left.append((pid, fields))
    found: list[RankCandidate] = []
    for _ in range(_TRIES):
        left = _read_some(world, left, found)
    unreadable = tuple(pid for pid, _ in left if _may_be_python(world, pid))
    return Processes(tuple(found), parents, unreadable)


def _read_some(
    world: World, some: Sequence[tuple[int, list[str]]], found: list[RankCandidate]
) -> list[tuple[int, list[str]]]:
    """Return the processes that could not be read; the others join what is found."""
    up_s = _uptime(world)
    left = []
    for pid, fields in some:
        try:
            process = _within(partial(_process, world, pid, fields, up_s))
        except (ProcessLookupError, FileNotFoundError):
            continue  # it ends now, and has no environment any more
        except OSError:
            left.append((pid, fields))
            continue
        if process is not None:
            found.append(process)
    return left


def _may_be_python(world: World, pid: int) -> bool:
    fields = _stat_fields(world, f"/proc/{pid}/stat")
    return fields is not None and fields[0] not in "ZX" and name_of(world, pid).startswith(("python", "pt_"))


def look_at(world: World, pid: int) -> ThreadSample:
    """Return the current state of the main thread."""
    fields = _stat_fields(world, f"/proc/{pid}/task/{pid}/stat")
    if fields is None:
        return ThreadSample()
    status = _status(world, f"/proc/{pid}/task/{pid}/status")
    return ThreadSample(
        fields[0],
        (int(fields[11]) + int(fields[12])) / _ticks(),
        _sleeps(status) + sum(_sleeps(_status(world, path)) for path in _gradient_threads(world, pid)),
        number(status.get("TracerPid")) or 0,
        _time_around(world, pid, _GENERATIONS, [_FAMILY]),
    )


def _time_around(world: World, pid: int, generations: int, left: list[int]) -> float:
    """Return the CPU time of a process with all of its threads, and of those below it that run."""
    fields = _stat_fields(world, f"/proc/{pid}/stat")
    left[0] -= 1
    if fields is None or left[0] < 0:
        return 0.0
    own = (int(fields[11]) + int(fields[12])) / _ticks()
    below = _children(world, pid) if generations else ()
    return own + sum(_time_around(world, child, generations - 1, left) for child in below)


def _children(world: World, pid: int) -> Iterator[int]:
    """Return the children of all of its threads; none if the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    try:
        threads = world.list_folder(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        with contextlib.suppress(OSError):
            yield from map(int, world.read_text(f"/proc/{pid}/task/{thread}/children").split())


def _sleeps(status: Mapping[str, str]) -> int:
    return number(status.get("voluntary_ctxt_switches")) or 0


def _gradient_threads(world: World, pid: int) -> Iterator[str]:
    """Count wake-ups of backward threads: with GPUs a main thread may spin at one line (``loss.item()``)."""
    try:
        threads = world.list_folder(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        status = f"/proc/{pid}/task/{thread}/status"
        if thread != str(pid) and _status(world, status).get("Name", "").startswith(_GRADIENTS):
            yield status


def name_of(world: World, pid: int) -> str:
    """Return the name of a process, which any user may read; "" if it exited."""
    return _status(world, f"/proc/{pid}/status").get("Name", "")


def _within(read: Callable[[], RankCandidate | None]) -> RankCandidate | None:
    """Return what a function reads; it blocks while the memory of the process is locked (kernel, core dump).

    :raises TimeoutError: it did not return within _LIMIT_S
    """
    import threading

    answers: list[RankCandidate | OSError | None] = []

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


def _process(world: World, pid: int, fields: Sequence[str], up_s: float) -> RankCandidate | None:
    """Return what is kept of a process; None if it can be neither a rank nor above one. Raise OSError."""
    raw = world.read_bytes(f"/proc/{pid}/environ", _LONGEST_ENVIRONMENT)
    own: Ancestor = read_process(world, pid)
    launcher = launcher_of(own)
    python = _runs_python(world, pid, own)
    if not python and launcher is None:
        return None
    environ = _variables(raw)
    numbered = with_rank_variables(environ)
    return RankCandidate(
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
    """Return an environment as the kernel shows it: as it was when the program started."""
    pairs = (item.partition("=") for item in raw.decode("utf-8", "replace").split("\0") if item)
    return {name: value for name, equals, value in pairs if equals}


def _runs_python(world: World, pid: int, own: Ancestor) -> bool:
    try:
        program = world.read_link(f"/proc/{pid}/exe")
    except OSError:
        program = own.arguments[0] if own.arguments else ""
    return program.rpartition("/")[2].startswith(("python", "pypy"))


def _libraries(world: World, pid: int) -> tuple[bool, bool]:
    """Return whether the libraries of torch and of the CUDA driver are among the mapped files of a process."""
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
    """Return the users whose processes are inspected: the caller, and under sudo the user who called it."""
    users = {world.user_id}
    if world.user_id == 0 and world.user_behind is not None:
        users.add(world.user_behind)
    return users


def _owner(world: World, pid: int) -> int | None:
    """Return the effective user of a process: the second of four."""
    words = _status(world, f"/proc/{pid}/status").get("Uid", "").split()
    return number(words[1]) if len(words) > 1 else None


def _stat_fields(world: World, path: str) -> list[str] | None:
    """Return the fields after the name, from the state on; None for a hidden or exited process."""
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


def number(text: str | None) -> int | None:
    """Return a whole number; None for another text, or for one that no counter of the kernel reaches."""
    if text is None or not text.strip().isdecimal() or len(text.strip()) > _MOST_DIGITS:
        return None
    return int(text)
