"""Room for what ranks share and scratch: /dev/shm, the temporary folder, the working directory.

Only the room is judged here; the memory of a container is the matter of ``limits.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.registry import fact, probe
from distcheck.core.wording import size_text
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.rules import shared_fixes

from .devices import runs_on_gpus
from .gpus import Gpus
from .platform import Platform
from .software import Software

MIB = 1 << 20
#: What Docker, containerd and Podman give a container that requests nothing: 64 MiB.
CONTAINER_DEFAULT_BYTES = 64 * MIB
#: NCCL's shared-memory transport takes about 9.2 MiB a channel pair (NVIDIA/nccl#290: segments of 9,637,888 bytes),
#: and only between GPUs without P2P. A rank that sends over the network takes about 31.5 MiB more (NCCL 2.25 and later,
#: ``ncclProxyOpsPool``). Neither is certain on a given host, so that a lack of this much is no more than a warning.
NEEDED_PER_RANK_BYTES = 64 * MIB
#: Programs that give what they start a /dev/shm of its own.
CONTAINER_STARTERS = frozenset({"docker", "podman", "nerdctl", "kubectl"})
#: Below this size a data loader with several workers runs out as well; what torch's issues settle on as a start.
SMALL_BYTES = 1024 * MIB
#: How training scripts commonly name the number of DataLoader workers: ``--num-workers 8``, ``--workers=4``.
_WORKERS_OPTION = re.compile(r"--(?:(?:data)?loader[-_])?(?:num[-_])?workers(?:=([0-9]+))?")
#: Logs of torchrun, compiler caches and sockets need some room; a job that can't have this much fails at its start.
SCRATCH_NEEDED_BYTES = 256 * MIB
#: Longest path of a Unix socket (Linux ``sun_path``, 108 bytes) less the names that torch and Python append.
LONGEST_SOCKET_FOLDER = 80


_EMPTY = Fix(
    "list your own files there, and remove those of runs that have ended",
    command='find /dev/shm -maxdepth 1 -type f -user "$(id -un)" -ls',
    where="host",
    risk="segments of a running job must stay",
)


class SharedMemory(NamedTuple):
    """/dev/shm of this process's mount namespace."""

    total_bytes: int
    free_bytes: int
    #: files that crashed runs of NCCL and torch leave: how many, and their size
    leftovers: int = 0


class Folder(NamedTuple):
    """A folder that a job writes to."""

    path: str
    #: the variable that names it, or what it is for
    role: str
    free_bytes: int
    writable: bool


class Scratch(NamedTuple):
    """The folders that torchrun, compilers and data loaders write to."""

    folders: tuple[Folder, ...]


@fact()
def read_shared_memory(world: World) -> SharedMemory:
    """Size and free room of /dev/shm."""
    if world.platform != "linux":
        raise Unavailable(f"{world.platform} has no /dev/shm")
    try:
        space = world.space("/dev/shm")
        names = world.list_folder("/dev/shm")
    except OSError as error:
        raise Unavailable(f"/dev/shm can't be read: {error.strerror}") from error
    leftovers = sum(name.startswith(("nccl-", "torch_")) for name in names)
    return SharedMemory(space.total_bytes, space.free_bytes, leftovers)


@fact()
def read_scratch(world: World) -> Scratch:
    """The temporary folder, and the caches that variables move elsewhere."""
    roles = {"TMPDIR": "/tmp", "TORCHINDUCTOR_CACHE_DIR": "", "TRITON_CACHE_DIR": ""}
    folders = []
    for role, default in roles.items():
        path = world.environ.get(role) or default
        if not path or not path.startswith("/"):
            continue
        try:
            space = world.space(path)
        except FileNotFoundError:
            if role == "TMPDIR" and path != default:
                folders.append(Folder(path, role, 0, False))
            continue
        except OSError as error:
            raise Unavailable(f"{path} can't be read: {error.strerror}") from error
        folders.append(Folder(path, role, space.free_bytes, world.writable(path)))
    if not folders:
        raise Unavailable("this platform has no /tmp, and TMPDIR is not set")
    return Scratch(tuple(folders))


@probe(rules.DC320)
def shared_memory_holds_the_ranks(
    launch: Launch,
    memory: SharedMemory,
    gpus: Gpus | Unavailable,
    software: Software | Unavailable,
    platform: Platform | Unavailable,
) -> Iterator[Finding]:
    """/dev/shm has room for the segments of NCCL and of DataLoader workers, where the launch uses either.

    At most a warning: how much NCCL puts there depends on P2P between the GPUs, network devices and version, and how
    much workers put there depends on the batches. No reader knows these.
    """
    if launch.command is not None and CONTAINER_STARTERS.intersection(launch.command.wrappers):
        raise Unavailable("the command starts a container, which has a /dev/shm of its own")
    cards = 0 if isinstance(gpus, Unavailable) else len(gpus.gpus)
    ranks = launch.ranks_here or cards
    if ranks < 2:
        return
    needed = ranks * NEEDED_PER_RANK_BYTES
    full = memory.free_bytes < needed and memory.total_bytes >= max(needed, SMALL_BYTES)
    if not full:
        needed = max(needed, SMALL_BYTES)
        if memory.total_bytes >= needed:
            return
    users = _users_of_shared_memory(launch, gpus, software)
    use = f"{' and '.join(users)} of {ranks} ranks can need {size_text(needed)}"
    if not users:
        use = "nothing shows that this launch uses it, but NCCL and DataLoader workers would"
    files = f"{memory.leftovers} file{'s' * (memory.leftovers != 1)}"
    left = f"; {files} there may be left over by crashed runs" if full and memory.leftovers else ""
    yield rules.DC320.found(
        f"/dev/shm has {size_text(memory.free_bytes)} free of {size_text(memory.total_bytes)}; {use}{left}",
        severity=Severity.WARNING if users and launch.launched else Severity.INFO,
        where=Where(object="/dev/shm"),
        evidence={
            "total_bytes": memory.total_bytes,
            "free_bytes": memory.free_bytes,
            "ranks": ranks,
            "needed_bytes": needed,
            "leftover_files": memory.leftovers,
        },
        fix=_EMPTY if full else _enlarge(platform, "16g"),
    )


@probe(rules.DC327)
def scratch_has_room(launch: Launch, scratch: Scratch) -> Iterator[Finding]:
    """The folders for logs, sockets and caches can be written and have room."""
    for folder in scratch.folders:
        evidence = {"path": folder.path, "free_bytes": folder.free_bytes, "writable": folder.writable}
        if not folder.writable:
            problem = "can't be written"
        elif folder.free_bytes < SCRATCH_NEEDED_BYTES:
            problem = f"has only {size_text(folder.free_bytes)} free"
        elif folder.role == "TMPDIR" and len(folder.path) > LONGEST_SOCKET_FOLDER:
            problem = f"is {len(folder.path)} characters long, too long for the sockets that are made in it"
        else:
            continue
        yield rules.DC327.found(
            f"{folder.path} ({folder.role}) {problem}",
            severity=None if launch.launched else Severity.INFO,
            where=Where(variable=folder.role),
            evidence=evidence,
            fix=Fix(
                f"name a short folder of yours with at least {size_text(SCRATCH_NEEDED_BYTES)} free, in the job "
                "script, "
                "so that every rank gets it",
                where="job-script",
            ),
        )


def _users_of_shared_memory(launch: Launch, gpus: Gpus | Unavailable, software: Software | Unavailable) -> list[str]:
    """What in this launch is known or expected to use /dev/shm. gloo does not."""
    users = ["NCCL"] if runs_on_gpus(launch, gpus, software) else []
    words = launch.command.script_args if launch.command is not None else ()
    for word, following in zip(words, (*words[1:], ""), strict=False):
        option = _WORKERS_OPTION.fullmatch(word)
        if option is not None and (option[1] or following).isdecimal() and int(option[1] or following) > 0:
            users.append("DataLoader workers")
            break
    return users


def _enlarge(platform: Platform | Unavailable, size: str) -> Fix:
    """How /dev/shm grows, by what this machine is."""
    container = None if isinstance(platform, Unavailable) else platform.container
    if container == "kubernetes":
        return shared_fixes.memory_volume(size)
    if container in ("docker", "podman"):
        return Fix(f"start the container with --shm-size={size}, or with --ipc=host", where="launch-line")
    if container is None and not isinstance(platform, Unavailable):
        return Fix(f"have an administrator enlarge it: mount -o remount,size={size} /dev/shm", by="admin", where="host")
    return Fix(
        f"start the container with --shm-size={size} (Docker, Podman), "
        "or mount a memory volume at /dev/shm (Kubernetes)",
        where="launch-line",
    )
