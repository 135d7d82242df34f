"""What this process and its container may use: files, locked memory, processes, memory, CPUs.

It compares limits with what a job of this size needs at least. Room on disks and in /dev/shm is the matter of
``storage.py``, the memory of GPUs that of ``gpus.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where, rank_ranges
from distcheck.core.registry import fact, probe
from distcheck.core.world import World
from distcheck.launch.model import ELASTIC_LAUNCHERS, Launch
from distcheck.launch.settings import Settings
from distcheck.rules import shared_fixes

from .devices import Devices
from .fabric import Fabric
from .gpus import Gpu, Gpus
from .platform import Platform

MIB = 1 << 20
GIB = 1 << 30
#: CAP_IPC_LOCK in the capability masks of /proc/PID/status (linux/capability.h).
CAP_IPC_LOCK_BIT = 14
#: What the kernel's first user namespace has in /proc/PID/uid_map: all users, unchanged (user_namespaces(7)).
#: In any other one, locked memory counts although the process seems to have CAP_IPC_LOCK.
WHOLE_UID_MAP = ["0", "0", "4294967295"]
#: cgroup v1 writes "no limit" as the largest page-aligned number (9223372036854771712 with pages of 4 KiB).
UNLIMITED_BYTES = 1 << 60

#: Below this hard limit a data loader that passes tensors as file descriptors runs out, and nothing but an
#: administrator helps (pytorch/pytorch#973; the default that distributions gave before systemd 240).
FILES_NEEDED = 4096
#: From so many ranks on NCCL's bootstrap and proxies were seen to run out of 1024 files (NVIDIA/nccl#550, 16 ranks
#: with eight sockets a thread; goodfire-ai/spd#957, 32 GPUs on 4 nodes).
LARGE_JOB_RANKS = 32
#: Most sockets that NCCL opens for one connection to a peer (NCCL_NSOCKS_PERTHREAD times NCCL_SOCKET_NTHREADS, 2.30).
FILES_PER_PEER = 64
#: What a shell or job script may request without harm; more than this no thread reports.
FILES_ADVISED = 65536
#: NCCL registers buffers of 4 MiB (NCCL_BUFFSIZE) for each peer and channel. The usual defaults of 64 KiB and 8 MiB
#: were reported as too low (NVIDIA/nccl-tests#206, openucx/ucx#8229), nothing of this size.
LOCKED_MEMORY_NEEDED_BYTES = GIB
#: A rank that has imported torch and used gloo has 222 MiB resident (torch 2.13, CPU build).
MEMORY_PER_RANK_BYTES = 256 * MIB
#: A rank that has put its first tensor on a GPU: 0.4 to 2 GiB in reports (pytorch/pytorch#12873, #113326).
MEMORY_PER_GPU_RANK_BYTES = GIB
#: A rank with gloo and two data-loader workers has 12 threads with one OpenMP thread each (torch 2.13, CPU build);
#: CUDA, NCCL and autograd bring about as many.
THREADS_PER_RANK = 24
_PASS_CPUS_ON = Fix(
    "pass the number on in the batch script, before the srun; srun of Slurm 22.05 and newer does not inherit it",
    command="export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK",
    where="job-script",
    safe=True,
)


class Limits(NamedTuple):
    """Limits of this process; None is unlimited, or unknown where the platform has no such limit."""

    open_files_soft: int | None = None
    open_files_hard: int | None = None
    locked_memory_soft_bytes: int | None = None
    locked_memory_hard_bytes: int | None = None
    processes_soft: int | None = None
    #: it has CAP_IPC_LOCK where that counts: locked memory has no limit then
    can_lock_memory: bool | None = None
    #: cgroup v1 or v2; None outside Linux
    cgroup_version: int | None = None
    memory_limit_bytes: int | None = None
    #: what that cgroup uses and can't give back: without the page cache that is not in use
    memory_used_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_total_bytes: int | None = None
    #: processes that the kernel ended in the cgroup that has the memory limit
    oom_kills: int | None = None
    #: CPUs' worth of time that the cgroup grants
    cpu_quota: float | None = None
    affinity: tuple[int, ...] = ()
    tasks_limit: int | None = None
    tasks_now: int | None = None


@fact()
def read_limits(world: World) -> Limits:
    """From getrlimit, /proc and the cgroup of this process."""
    if world.platform == "win32":
        raise Unavailable("Windows has no limits of this kind")
    files = world.resource_limit("nofile")
    locked = world.resource_limit("memlock")
    processes = world.resource_limit("nproc")
    limits = Limits(
        open_files_soft=files[0],
        open_files_hard=files[1],
        locked_memory_soft_bytes=locked[0],
        locked_memory_hard_bytes=locked[1],
        processes_soft=processes[0],
        affinity=_affinity(world),
    )
    if world.platform != "linux":
        return limits
    memory = _numbers(world.text_or_empty("/proc/meminfo"), unit=1024)
    limits = limits._replace(
        # root's processes are not counted against its limit (getrlimit(2), RLIMIT_NPROC)
        processes_soft=None if world.user_id == 0 else processes[0],
        can_lock_memory=_can_lock_memory(world),
        memory_available_bytes=memory.get("MemAvailable"),
        memory_total_bytes=memory.get("MemTotal"),
    )
    return _with_cgroup(world, limits)


@probe(rules.DC321)
def files_are_enough(launch: Launch, limits: Limits, platform: Platform | Unavailable) -> Iterator[Finding]:
    """Ranks may open the files that NCCL's sockets and the data loaders need."""
    if not launch.launched:
        return
    soft, hard = limits.open_files_soft, limits.open_files_hard
    ranks = _world_size(launch)
    large = ranks >= LARGE_JOB_RANKS
    needed = max(FILES_NEEDED, min(ranks * FILES_PER_PEER, FILES_ADVISED)) if large else FILES_NEEDED
    evidence = {"soft_limit": soft, "hard_limit": hard, "ranks": ranks or None, "needed": needed}
    job = f"a job of {ranks} ranks" if large else "a training process"
    if hard is not None and hard < needed:
        yield rules.DC321.found(
            f"this process may open {soft} files and can't raise that above {hard}; {job} needs about {needed}",
            where=Where(object="nofile"),
            evidence=evidence,
            fix=_raise_files(platform),
        )
    elif soft is not None and soft < needed:
        most = f", to {hard} at most" if hard else ""
        yield rules.DC321.found(
            f"this process may open {soft} files unless it raises that itself{most}; {job} needs about {needed}",
            severity=Severity.WARNING if large else Severity.INFO,
            where=Where(object="nofile"),
            evidence=evidence,
            fix=Fix(
                "raise the soft limit in the job script, before the launch, on every node",
                command=f"ulimit -n {FILES_ADVISED if hard is None else min(hard, FILES_ADVISED)}",
                where="job-script",
                safe=True,
            ),
        )


@probe(rules.DC322)
def memory_can_be_locked(
    launch: Launch, limits: Limits, fabric: Fabric, gpus: Gpus | Unavailable, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """Report a low limit of locked memory on a host with an RDMA device: NCCL registers memory with it."""
    devices = sorted({port.device for port in fabric.ports if port.state == "ACTIVE"})
    nccl = launch.backend != "gloo" if launch.backend else _cards(gpus) > 0
    if not devices or not nccl or limits.can_lock_memory:
        return
    soft = limits.locked_memory_soft_bytes
    if soft is None or soft >= LOCKED_MEMORY_NEEDED_BYTES:
        return
    hard = limits.locked_memory_hard_bytes
    yield rules.DC322.found(
        f"this process may lock {_size(soft)} of memory, and NCCL registers far more with {', '.join(devices)}",
        severity=Severity.WARNING if launch.launched and launch.several_nodes else Severity.INFO,
        where=Where(object="memlock"),
        evidence={"soft_limit_bytes": soft, "hard_limit_bytes": hard, "devices": devices},
        fix=_raise_locked_memory(launch, platform, hard),
    )


@probe(rules.DC323)
def memory_is_enough(
    launch: Launch, limits: Limits, gpus: Gpus | Unavailable, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """The memory that is left to this container, job or host holds the ranks."""
    if limits.oom_kills and limits.memory_limit_bytes is not None:
        yield rules.DC323.found(
            f"at the memory limit of {_size(limits.memory_limit_bytes)} the kernel has already ended "
            f"{limits.oom_kills} process{'es' * (limits.oom_kills != 1)} here",
            severity=Severity.WARNING if launch.launched else Severity.INFO,
            where=Where(object="oom"),
            evidence={"oom_kills": limits.oom_kills, "limit_bytes": limits.memory_limit_bytes},
            fix=_raise_memory(launch, platform),
        )
    cards = _cards(gpus)
    ranks = launch.ranks_here or cards
    if not ranks:
        return
    each = MEMORY_PER_GPU_RANK_BYTES if cards and launch.backend != "gloo" else MEMORY_PER_RANK_BYTES
    # a running rank has taken its part already, so that only what is granted can be judged
    room, source = _memory_room(limits, free=launch.stage != "rank")
    if room is None or room >= ranks * each:
        return
    yield rules.DC323.found(
        f"{source} leaves {_size(room)}, and {ranks} ranks need at least {_size(each)} each",
        severity=Severity.WARNING if launch.launched else Severity.INFO,
        where=Where(object="memory"),
        evidence={
            "room_bytes": room,
            "limit_bytes": limits.memory_limit_bytes,
            "used_bytes": limits.memory_used_bytes,
            "available_bytes": limits.memory_available_bytes,
            "ranks": ranks,
            "needed_bytes": ranks * each,
        },
        fix=_raise_memory(launch, platform),
    )


@probe(rules.DC324)
def threads_are_enough(
    launch: Launch, limits: Limits, settings: Settings, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """The limits of processes and threads hold the ranks, their workers and their threads."""
    ranks = launch.ranks_here
    if not launch.launched or not ranks:
        return
    # an agent gives its ranks one OpenMP thread each; without it each rank starts one for each CPU
    pools = settings.get("OMP_NUM_THREADS") is None and not _has_agent(launch)
    each = THREADS_PER_RANK + (len(limits.affinity) if pools else 0)
    needed = ranks * each
    rooms = []
    if limits.tasks_limit is not None:
        # running ranks have taken their part already
        used = 0 if launch.stage == "rank" else limits.tasks_now or 0
        rooms.append((limits.tasks_limit - used, f"the cgroup's pids.max of {limits.tasks_limit}", "pids.max"))
    if limits.processes_soft is not None:
        rooms.append((limits.processes_soft, f"the limit of {limits.processes_soft} processes (ulimit -u)", "nproc"))
    if not rooms:
        return
    room, source, limit = min(rooms)
    if room >= needed:
        return
    yield rules.DC324.found(
        f"{source} leaves room for {max(room, 0)} threads; {ranks} ranks need at least {needed}",
        where=Where(object=limit),
        evidence={
            "tasks_limit": limits.tasks_limit,
            "tasks_now": limits.tasks_now,
            "processes_limit": limits.processes_soft,
            "ranks": ranks,
            "needed": needed,
        },
        fix=_raise_processes(platform, limit),
    )


@probe(rules.DC325)
def cpus_are_enough(
    launch: Launch, limits: Limits, settings: Settings, gpus: Gpus | Unavailable, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """A rank has at least one CPU, and where it may choose, more than one."""
    ranks = launch.ranks_here or _cards(gpus)
    here = len(limits.affinity)
    host = 0 if isinstance(platform, Unavailable) else platform.cpus
    # a scheduler binds each of its tasks for itself; an agent's ranks share what the agent has
    bound = launch.stage == "rank" and not _has_agent(launch)
    rooms = []
    if limits.cpu_quota is not None:
        rooms.append((limits.cpu_quota, f"a quota of {limits.cpu_quota:g} CPUs"))
    if here and not bound:
        rooms.append((here, f"{here} of {host} CPUs" if host > here else f"{here} CPUs"))
    evidence = {
        "cpu_quota": limits.cpu_quota,
        "affinity_cpus": here or None,
        "host_cpus": host or None,
        "ranks": ranks or None,
    }
    fix = _more_cpus(launch, settings, platform)
    if rooms and ranks > 1 and min(rooms)[0] < ranks:
        room, text = min(rooms)
        # a machine that has no more to give is slow, but this is no mistake of the launch
        limited = limits.cpu_quota is not None or host > here
        yield rules.DC325.found(
            f"{ranks} ranks share {text}",
            severity=Severity.WARNING if launch.launched and limited else Severity.INFO,
            where=Where(object="cpu"),
            evidence={**evidence, "cpus": room},
            fix=fix,
        )
    elif bound and here == 1 and host >= 2 * max(ranks, 1):
        yield rules.DC325.found(
            f"this rank may run on 1 of {host} CPUs, so that its data loading and NCCL's threads share it",
            severity=Severity.WARNING,
            where=Where(object="cpu"),
            evidence=evidence,
            fix=fix,
        )


@probe(rules.DC325)
def srun_passes_the_cpus_on(launch: Launch, settings: Settings) -> Iterator[Finding]:
    """Report an srun in a batch script that does not get the CPUs per task that the script requested."""
    command = launch.command
    if command is None or "srun" not in command.wrappers:
        return
    if command.cpus_per_task is not None or "cpus_per_task" in command.unknown:
        return
    requested = settings.get("SLURM_CPUS_PER_TASK") or ""
    passed = settings.get("SRUN_CPUS_PER_TASK") or command.assignments.get("SRUN_CPUS_PER_TASK")
    if passed or not requested.isdecimal() or int(requested) < 2:
        return
    yield rules.DC325.found(
        f"srun does not take over the batch script's {requested} CPUs per task, so that each task may run on one CPU",
        where=Where(variable="SLURM_CPUS_PER_TASK"),
        evidence={"SLURM_CPUS_PER_TASK": requested, "SRUN_CPUS_PER_TASK": None},
        fix=_PASS_CPUS_ON,
    )


@probe(rules.DC326, per="process")
def rank_is_near_its_gpu(
    launch: Launch, limits: Limits, gpus: Gpus, devices: Devices | Unavailable
) -> Iterator[Finding]:
    """A rank may run on at least one CPU that is near its GPU."""
    if launch.local_rank is None or not limits.affinity:
        return
    gpu = _gpu_of_rank(launch.local_rank, gpus, devices)
    if gpu is None or not gpu.cpus or set(gpu.cpus) & set(limits.affinity):
        return
    near = rank_ranges(gpu.cpus)
    yield rules.DC326.found(
        f"local rank {launch.local_rank} may run on CPUs {rank_ranges(limits.affinity)}, "
        f"but GPU {gpu.index} is near CPUs {near}",
        where=Where(local_rank=launch.local_rank, gpu=str(gpu.index)),
        evidence={"affinity": rank_ranges(limits.affinity), "gpu_cpus": near, "numa_node": gpu.numa_node},
        fix=Fix(
            "bind each rank near its GPU: torchrun --numa-binding=node (torch 2.13 has it), srun --gpu-bind=closest, "
            f"or numactl --physcpubind={near} in front of this rank's command",
            where="launch-line",
        ),
    )


# reading


def _affinity(world: World) -> tuple[int, ...]:
    try:
        return world.cpu_affinity()
    except Unavailable:
        return ()


def _numbers(text: str, *, unit: int = 1) -> dict[str, int]:
    """Return lines of a name and a number (``MemTotal:  16303428 kB``, ``oom_kill 3``); others are dropped."""
    found = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 2 and parts[1].isdecimal():
            found[parts[0].rstrip(":")] = int(parts[1]) * unit
    return found


def _number(text: str) -> int | None:
    """One number; None for ``max``, for nothing, and for what cgroup v1 writes where there is no limit."""
    word = text.strip()
    if not word.isdecimal() or int(word) >= UNLIMITED_BYTES:
        return None
    return int(word)


def _can_lock_memory(world: World) -> bool | None:
    """Return whether the process has CAP_IPC_LOCK in the first user namespace; None where /proc does not show it."""
    for line in world.text_or_empty("/proc/self/status").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            try:
                has = bool(int(value, 16) >> CAP_IPC_LOCK_BIT & 1)
            except ValueError:
                return None
            users = world.text_or_empty("/proc/self/uid_map").split()
            return has and users in ([], WHOLE_UID_MAP)
    return None


class _Group(NamedTuple):
    """The folders of one controller, from this process's cgroup up to what is mounted."""

    version: int
    folders: tuple[str, ...]


def _groups(world: World) -> dict[str, _Group]:
    """Where the controllers ``memory``, ``cpu`` and ``pids`` of this process stand, by name."""
    paths: dict[str, str] = {}
    for line in world.text_or_empty("/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            paths["unified" if number == "0" and not controller else controller] = path
    mounts = _cgroup_mounts(world.text_or_empty("/proc/self/mountinfo"))
    found = {}
    for controller in ("memory", "cpu", "pids"):
        name = controller if controller in paths else "unified"
        if name not in paths:
            continue
        standard = "/sys/fs/cgroup" if name == "unified" else f"/sys/fs/cgroup/{name}"
        mount, root = mounts.get(name, (standard, "/"))
        found[controller] = _Group(2 if name == "unified" else 1, _folders(mount, root, paths[name]))
    return found


def _cgroup_mounts(mountinfo: str) -> dict[str, tuple[str, str]]:
    """Mount point and root of each v1 controller and of ``unified`` (proc(5), mountinfo)."""
    found: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if not dash or len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            found.setdefault("unified", (fields[4], fields[3]))
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                found.setdefault(option, (fields[4], fields[3]))
    return found


def _folders(mount: str, root: str, path: str) -> tuple[str, ...]:
    """The folders from a cgroup up to its mount point.

    In a container the path may be the host's while only a part of the tree is mounted: what lies outside of that part
    can't be seen, and the mounted top is the container's own cgroup.
    """
    if root != "/":
        inside = path == root or path.startswith(root + "/")
        path = path[len(root) :] if inside else "/"
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        parts = []
    return tuple("/".join([mount.rstrip("/"), *parts[:count]]) for count in range(len(parts), -1, -1))


def _with_cgroup(world: World, limits: Limits) -> Limits:
    groups = _groups(world)
    memory = groups.get("memory")
    if memory is None:
        return limits
    limits = limits._replace(cgroup_version=memory.version)
    tightest = None
    for folder in memory.folders:
        level = _memory_level(world, folder, memory.version)
        if level is not None and (tightest is None or level[0] - level[1] < tightest[0] - tightest[1]):
            tightest = level
    if tightest is not None:
        limits = limits._replace(memory_limit_bytes=tightest[0], memory_used_bytes=tightest[1], oom_kills=tightest[2])
    if cpu := groups.get("cpu"):
        quotas = [quota for folder in cpu.folders if (quota := _quota(world, folder, cpu.version)) is not None]
        limits = limits._replace(cpu_quota=min(quotas, default=None))
    if pids := groups.get("pids"):
        levels = []
        for folder in pids.folders:
            most = _number(world.text_or_empty(f"{folder}/pids.max"))
            now = _number(world.text_or_empty(f"{folder}/pids.current"))
            if most is not None:
                levels.append((most - (now or 0), most, now))
        if levels:
            _, most, now = min(levels, key=lambda level: level[0])
            limits = limits._replace(tasks_limit=most, tasks_now=now)
    return limits


def _memory_level(world: World, folder: str, version: int) -> tuple[int, int, int | None] | None:
    """Limit, use without the page cache that is not in use, and kills at one level; None where it has no limit."""
    text = world.text_or_empty
    limit = _number(text(f"{folder}/memory.max" if version == 2 else f"{folder}/memory.limit_in_bytes"))
    if limit is None:
        return None
    used = _number(text(f"{folder}/memory.current" if version == 2 else f"{folder}/memory.usage_in_bytes")) or 0
    details = _numbers(text(f"{folder}/memory.stat"))
    cache = details.get("total_inactive_file", details.get("inactive_file", 0))
    events = _numbers(text(f"{folder}/memory.events" if version == 2 else f"{folder}/memory.oom_control"))
    return limit, max(used - cache, 0), events.get("oom_kill")


def _quota(world: World, folder: str, version: int) -> float | None:
    """CPUs' worth of time at one level; None where it has no limit."""
    if version == 2:
        words = world.text_or_empty(f"{folder}/cpu.max").split()
    else:
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [word for name in files for word in world.text_or_empty(f"{folder}/{name}").split()]
    if len(words) != 2 or not words[0].isdecimal() or not words[1].isdecimal() or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


# judging


def _cards(gpus: Gpus | Unavailable) -> int:
    return 0 if isinstance(gpus, Unavailable) else len(gpus.gpus)


def _has_agent(launch: Launch) -> bool:
    return launch.agent_store or launch.launcher in ELASTIC_LAUNCHERS


def _world_size(launch: Launch) -> int:
    """Ranks of the whole job, as far as it is known; 0 where nothing is."""
    if launch.world_size is not None:
        return launch.world_size
    return (launch.ranks_here or 0) * (launch.nnodes_max or launch.nnodes or 1)


def _memory_room(limits: Limits, *, free: bool) -> tuple[int | None, str]:
    """The least memory that any limit leaves, in bytes, and what leaves it."""
    rooms = []
    if limits.memory_limit_bytes is not None:
        used = (limits.memory_used_bytes or 0) if free else 0
        rooms.append((limits.memory_limit_bytes - used, f"the memory limit of {_size(limits.memory_limit_bytes)}"))
    host = limits.memory_available_bytes if free else limits.memory_total_bytes
    if host is not None:
        rooms.append((host, "this host's memory"))
    if not rooms:
        return None, ""
    room, source = min(rooms)
    return max(room, 0), source


def _gpu_of_rank(local_rank: int, gpus: Gpus, devices: Devices | Unavailable) -> Gpu | None:
    """The GPU that ``cuda:LOCAL_RANK`` is, or the only one that this rank sees."""
    visible = None if isinstance(devices, Unavailable) else devices.visible
    if visible is None:
        return gpus.gpus[local_rank] if 0 <= local_rank < len(gpus.gpus) else None
    if len(visible) == 1:
        entry = visible[0]
    elif 0 <= local_rank < len(visible):
        entry = visible[local_rank]
    else:
        return None
    return next((gpu for gpu in gpus.gpus if entry in (str(gpu.index), gpu.uuid) or entry in gpu.mig_uuids), None)


def _container(platform: Platform | Unavailable) -> str | None:
    return None if isinstance(platform, Unavailable) else platform.container


def _raise_files(platform: Platform | Unavailable) -> Fix:
    container = _container(platform)
    if container in ("docker", "podman"):
        option = f"--ulimit nofile={FILES_ADVISED}:{FILES_ADVISED}"
        return Fix(f"start the container with {option}", where="launch-line")
    if container == "kubernetes":
        return Fix(
            f"have an administrator raise LimitNOFILE of the container runtime on the nodes to {FILES_ADVISED} or more",
            by="admin",
            where="host",
        )
    return Fix(
        f"have an administrator raise the hard limit to {FILES_ADVISED}: 'nofile' in /etc/security/limits.conf for "
        "logins, LimitNOFILE of the scheduler's daemon for jobs",
        by="admin",
        where="host",
    )


def _raise_locked_memory(launch: Launch, platform: Platform | Unavailable, hard: int | None) -> Fix:
    container = _container(platform)
    if hard is None or hard >= LOCKED_MEMORY_NEEDED_BYTES:
        most = "unlimited" if hard is None else str(hard // 1024)
        return Fix(
            "raise the soft limit in the job script, before the launch, on every node",
            command=f"ulimit -l {most}",
            where="job-script",
            safe=True,
        )
    if container in ("docker", "podman"):
        return Fix("start the container with --ulimit memlock=-1", where="launch-line")
    if container == "kubernetes":
        return Fix(
            "give the container the capability IPC_LOCK (securityContext.capabilities.add), or have an administrator "
            "set LimitMEMLOCK=infinity for the container runtime on the nodes",
            where="job-script",
        )
    if launch.scheduler == "slurm":
        return shared_fixes.LOCK_MORE_IN_SLURM
    return Fix(
        "have an administrator allow it: 'memlock unlimited' in /etc/security/limits.conf for logins, "
        "LimitMEMLOCK=infinity for the daemon that starts the job; then log in again",
        by="admin",
        where="host",
    )


def _raise_memory(launch: Launch, platform: Platform | Unavailable) -> Fix:
    less = shared_fixes.LESS_MEMORY
    container = _container(platform)
    if launch.scheduler == "slurm":
        return shared_fixes.MORE_MEMORY_IN_SLURM
    if container == "kubernetes":
        return shared_fixes.MORE_MEMORY_IN_A_POD
    if container in ("docker", "podman"):
        return Fix(f"start the container with a larger --memory, or {less}", where="launch-line")
    return Fix(f"start fewer ranks here, free memory, or {less}", where="launch-line")


def _raise_processes(platform: Platform | Unavailable, limit: str) -> Fix:
    container = _container(platform)
    less = "set OMP_NUM_THREADS=1 and start fewer data-loader workers"
    if limit == "nproc":
        return Fix(
            f"raise the soft limit with ulimit -u in the job script (ulimit -Hu shows how far), or {less}",
            where="job-script",
        )
    if container in ("docker", "podman"):
        return Fix(f"start the container with --pids-limit=-1, or {less}", where="launch-line")
    if container == "kubernetes":
        return Fix(
            f"have an administrator raise podPidsLimit of the kubelet; until then {less}", by="admin", where="host"
        )
    return Fix(
        f"have an administrator raise TasksMax of the slice or service; until then {less}", by="admin", where="host"
    )


def _more_cpus(launch: Launch, settings: Settings, platform: Platform | Unavailable) -> Fix:
    container = _container(platform)
    if settings.get("SLURM_CPUS_PER_TASK") and not settings.get("SRUN_CPUS_PER_TASK"):
        return _PASS_CPUS_ON
    if launch.scheduler == "slurm":
        return Fix("request more CPUs with --cpus-per-task, in the batch script and at the srun", where="job-script")
    if container == "kubernetes":
        return Fix("raise resources.limits.cpu of the container, or start fewer ranks in it", where="job-script")
    if container in ("docker", "podman"):
        return Fix(
            "start the container with more --cpus or --cpuset-cpus, or start fewer ranks in it", where="launch-line"
        )
    return Fix(
        "start no more ranks than CPUs, or widen the binding (taskset, numactl, mpirun --bind-to none)",
        where="launch-line",
    )


def _size(size_bytes: int) -> str:
    """A size for people: KiB, whole MiB, or GiB with one digit from 1 GiB on."""
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    return f"{size_bytes / MIB:.0f} MiB" if size_bytes >= MIB else f"{size_bytes / 1024:.0f} KiB"
