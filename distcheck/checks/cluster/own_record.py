"""What this host hands to the comparison: one record, made of the facts of an environment examination and a few more.

:func:`make_host_record` is a pure function of facts, so that facts of a file give the same record;
:func:`read_host_record` reads first what is missing. Nothing is judged here, and torch is not imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from distcheck._version import __version__
from distcheck.checks.host.addresses import bare, is_loopback
from distcheck.checks.host.devices import CUDA_MASK, HIP_MASK, ROCR_MASK, Devices
from distcheck.checks.host.fabric import Fabric
from distcheck.checks.host.gpu_access import GpuAccess, gpu_access
from distcheck.checks.host.gpu_health import THROTTLES
from distcheck.checks.host.gpus import Driver, Gpu, Gpus
from distcheck.checks.host.hostnames import HostName
from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.nccl_interfaces import MOST_DEVICES, choose_nccl_interfaces, gloo_interfaces, parse_filter
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import NcclPlugins, Software
from distcheck.core.checker import Checker
from distcheck.core.model import NotApplicable, Unavailable
from distcheck.core.registry import fact, readers
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.launch.settings import ENVIRONMENT, LAUNCHER, Settings
from distcheck.rules import Selection

from .records import Code, Device, HostInterface, HostRdmaPort, HostRecord, RankRecord

Made = TypeVar("Made")

#: Rooms whose readers make the facts of a record.
PROBE_MODULES = ("distcheck.checks.host", "distcheck.checks.cluster.own_record")
#: Seconds for all that is still to be read.
READING_LIMIT_S = 15.0
#: Namespaces that decide what processes of one kernel share (namespaces(7)).
NAMESPACES = ("ipc", "mnt", "net", "pid", "uts")
#: Settings that each process may have for itself: they stand with the rank, not with the host. NCCL_HOSTID is what
#: NCCL takes for the host's identity instead of its name and boot (NCCL 2.30, ``getHostHash``).
OF_EACH_RANK = (CUDA_MASK, HIP_MASK, ROCR_MASK, "CUDA_DEVICE_ORDER", "NCCL_HOSTID")
#: Variables with numbers of this node, as launchers and schedulers give them, in the order in which they are believed.
NODE_NUMBERS = ("PET_NODE_RANK", "NODE_RANK", "SLURM_NODEID")
#: Variables that differ between tasks, nodes or jobs by their nature, or that describe the job and not the training.
_NATURALLY_DIFFERENT = frozenset(
    {
        "CROSS_RANK", "GLOBAL_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "HOSTNAME", "INVOCATION_ID",
        "JOB_COMPLETION_INDEX", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "ROLE_NAME",
        "ROLE_RANK", "ROLE_WORLD_SIZE", "STY", "TEMP", "TMP", "TMUX", "WORLD_SIZE", "PE_HOSTFILE",
    }
)  # fmt: skip
_OF_THE_JOB = (
    "FLUX_", "JSM_NAMESPACE_", "KUBERNETES_", "LSB_", "LWS_", "MPI_LOCAL", "MV2_COMM_WORLD_", "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_", "PALS_", "PBS_", "PET_", "PMIX_", "PMI_", "RAY_", "SLURM", "SM_", "SRUN_", "TORCHELASTIC_",
)  # fmt: skip
#: Longer values are cut, and distinguished by a hash of the whole: a search path of many modules has thousands of
#: characters, and a record should have a few KiB.
_LONGEST_VALUE = 160
#: Interfaces that a record has room for: a node of Kubernetes has one more for each of its pods.
_MOST_INTERFACES = 24
#: How far up a working tree is searched.
_MOST_PARENTS = 64
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class HostIdentity(NamedTuple):
    """By what NCCL and the kernel distinguish hosts."""

    #: the kernel's boot_id; "" where there is none
    boot_id: str = ""
    #: ``ipc``, ``mnt``, ``net``, ``pid``, ``uts``: the namespace's number; ``shm``: the device of /dev/shm
    namespaces: Mapping[str, str] = {}


@fact()
def read_host_identity(world: World) -> HostIdentity:
    """From /proc/sys/kernel/random/boot_id, /proc/self/ns and /proc/self/mountinfo."""
    if world.platform != "linux":
        raise Unavailable(f"{world.platform} has no boot_id and no namespaces")
    boot_id = world.text_or_empty("/proc/sys/kernel/random/boot_id").strip()
    namespaces = {name: number for name in NAMESPACES if (number := _namespace(world, name))}
    device = _device_of_shared_memory(world)
    if device:
        namespaces["shm"] = device
    if not boot_id and not namespaces:
        raise Unavailable("/proc shows neither a boot_id nor namespaces")
    return HostIdentity(boot_id, namespaces)


@fact()
def read_code(world: World) -> Code:
    """The commit of the working directory, from Git's own files: no program is started, and no file is compared."""
    try:
        folder = world.working_folder
    except OSError as error:
        raise Unavailable(f"the working directory can't be had: {error.strerror}") from error
    found = _find_git(world, folder)
    if found is None:
        return Code(folder)
    try:
        head = world.read_text(f"{found}/HEAD").strip()
    except OSError as error:
        raise Unavailable(f"{found}/HEAD can't be read: {error.strerror}") from error
    name = head.removeprefix("ref:").strip() if head.startswith("ref:") else None
    if name is None:
        return Code(folder, head if _COMMIT.fullmatch(head) else "")
    branch = name.removeprefix("refs/heads/")
    if branch == ".invalid":
        raise Unavailable(f"{found} keeps its references in a reftable, which is not read here")
    return Code(folder, _commit_of(world, found, name), branch)


def host_facts_needed(*, whole: bool = True) -> tuple[type, ...]:
    """The facts that a record is made of.

    :param whole: false: only what a rank needs in addition to the first one of its host
    """
    few = (Settings, Gpus, Devices, Driver, Software, HostIdentity)
    if not whole:
        return few
    return (*few, Code, Fabric, HostName, Interfaces, NcclPlugins, Platform)


def read_host_record(
    launch: Launch,
    world: World,
    facts: Mapping[type, object] | Mapping[str, object] = {},
    *,
    ranks: tuple[RankRecord, ...] | None = None,
    whole: bool = True,
) -> HostRecord:
    """This host's record; what is not among the facts is read, through a plan of its own.

    :param facts: what an examination has read already, by type or (``Report.facts``) by the type's name
    :param ranks: this process's ranks as their launcher numbers them; None: as the launch numbers them
    :param whole: false for a rank that is not the first of its host: what does not differ between them is dropped
    """
    # no probe: only the readers are wanted
    checker = Checker(Selection(ignore=("ALL",)), modules=PROBE_MODULES, plug_ins=False)
    known: dict[type, object] = {**_by_type(facts), Launch: launch}
    wanted = tuple(made for made in host_facts_needed(whole=whole) if made not in known)
    if wanted:
        plan = checker.plan(type(world), *known, also=wanted)
        known.update(_by_type(plan.run(world, facts=known, budget_s=READING_LIMIT_S).facts))
    known[Launch] = launch
    return make_host_record(known, launch, host=world.host_name(), ranks=ranks, pid=world.pid, whole=whole)


def make_host_record(
    facts: Mapping[type, object] | Mapping[str, object],
    launch: Launch,
    *,
    host: str,
    ranks: tuple[RankRecord, ...] | None = None,
    pid: int = 0,
    whole: bool = True,
) -> HostRecord:
    """Return the record that these facts give; what they do not have is in ``unavailable``.

    :param facts: by type or by the type's name
    :param ranks: ranks of this host; their devices and settings are filled in where they are missing.
        None: the rank of the launch, where this process is one
    :param whole: as in :func:`read_host_record`
    """
    known = _by_type(facts)
    unavailable: dict[str, str] = {}

    def get(made: type[Made], *fields: str) -> Made | None:
        value = known.get(made, Unavailable("it was not read"))
        if isinstance(value, made):
            return value
        if isinstance(value, Unavailable) and not isinstance(value, NotApplicable):
            unavailable.update((field, value.why) for field in fields)
        return None

    settings = get(Settings, "settings") or Settings()
    gpus = get(Gpus, "gpus")
    devices = get(Devices)
    identity = get(HostIdentity, "boot_id", "namespaces") or HostIdentity()
    kept = {item.name: item for item in settings.items if _bears_on_all(item.name)}
    own = _own(launch, pid) if ranks is None else ranks
    access = _gpu_access(known)
    record = HostRecord(
        host,
        ranks=tuple(_filled(rank, settings, devices, gpus)._replace(gpu_access=access) for rank in own),
        boot_id=identity.boot_id,
        namespaces=identity.namespaces,
        settings={name: _short(item.value) for name, item in kept.items()},
        origins={name: item.origin for name, item in kept.items() if item.origin not in (ENVIRONMENT, LAUNCHER)},
        gpus=() if gpus is None else tuple(_device(gpu) for gpu in gpus.gpus if not gpu.lost),
    )
    if whole:
        platform = get(Platform, "container")
        software = get(Software, "versions", "backends")
        interfaces = get(Interfaces, "interfaces")
        fabric = get(Fabric, "rdma_ports")
        name = get(HostName)
        record = record._replace(
            container=None if platform is None else platform.container,
            versions=dict(_versions(software, gpus, get(Driver), platform)),
            interfaces=() if interfaces is None else _interfaces(interfaces, settings, name),
            rdma_ports=() if fabric is None else tuple(_rdma_ports(fabric, settings)),
            plugins=_plugins(fabric, get(NcclPlugins)),
            backends=_backends(software, platform),
            code=get(Code, "code"),
        )
    return record._replace(unavailable=unavailable)


def rank_device(local_rank: int | None, devices: Devices | None, gpus: Gpus | None) -> Device | None:
    """The GPU that ``cuda:LOCAL_RANK`` is; None where there is none of that number, or it can't be known.

    A process that sees one GPU only can take no other, whatever its local rank is.
    """
    if devices is None or gpus is None or not devices.visible:
        return None
    if len(devices.visible) == 1:
        name = devices.visible[0]
        if not devices.order_known and not name.startswith("MIG-"):
            return None
    elif local_rank is None or local_rank >= len(devices.visible) or not devices.order_known:
        return None
    else:
        name = devices.visible[local_rank]
    for gpu in gpus.gpus:
        if str(gpu.index) == name:
            return _device(gpu)
        if name in gpu.mig_uuids:
            return _device(gpu)._replace(uuid=name, memory_bytes=0)
    # an instance by its old name, MIG-<UUID of the GPU>/<instance>/<instance>
    return Device(name) if name.startswith("MIG-") else None


def rendezvous_of(launch: Launch) -> str | None:
    """Return ``c10d`` or ``static`` if a launch shows it for sure; torchrun's workers get only the run's id."""
    if launch.standalone:
        return "c10d"
    if launch.rdzv_backend:
        return launch.rdzv_backend
    # torchrun gives the workers of a static rendezvous the id "none"; a c10d one has it too if it was not named
    return "c10d" if launch.variables.get("TORCHELASTIC_RUN_ID", "none") != "none" else None


# the parts of a record


def _by_type(facts: Mapping[type, object] | Mapping[str, object]) -> dict[type, object]:
    types = {made.__name__: made for made in (Launch, *readers())}
    found: dict[type, object] = {}
    for key, value in facts.items():
        made = types.get(key) if isinstance(key, str) else key
        if made is not None:
            found[made] = value
    return found


def _own(launch: Launch, pid: int) -> tuple[RankRecord, ...]:
    if launch.rank is None:
        return ()
    return (
        RankRecord(
            launch.rank, launch.local_rank, launch.world_size, launch.local_world_size, launch.node_rank, pid
        ),
    )  # fmt: skip


def _filled(rank: RankRecord, settings: Settings, devices: Devices | None, gpus: Gpus | None) -> RankRecord:
    own = {name: _short(value) for name in OF_EACH_RANK if (value := settings.get(name)) is not None}
    return rank._replace(
        device=rank.device or rank_device(rank.local_rank, devices, gpus), settings={**own, **rank.settings}
    )


def _gpu_access(known: Mapping[type, object]) -> GpuAccess:
    """Whether torch in this process can use a GPU, as far as facts were read."""

    def get(made: type[Made]) -> Made | Unavailable:
        value = known.get(made)
        return value if isinstance(value, (made, Unavailable)) else Unavailable("it was not read")

    if Gpus not in known:
        return GpuAccess()
    return gpu_access(get(Gpus), get(Devices), get(Driver), get(Software))


def _device(gpu: Gpu) -> Device:
    return Device(
        gpu.uuid,
        gpu.pci,
        gpu.name,
        gpu.memory_bytes,
        gpu.architecture,
        tuple(reason for reason in gpu.throttle if reason in THROTTLES),
    )


def _bears_on_all(name: str) -> bool:
    """A setting that all ranks of this host have, and that others may be compared with."""
    if name in OF_EACH_RANK or name in _NATURALLY_DIFFERENT:
        return False
    return name in NODE_NUMBERS or not name.startswith(_OF_THE_JOB)


def _short(value: str) -> str:
    """A value as it stands; a long one cut, with the hash of the whole."""
    if len(value) <= _LONGEST_VALUE:
        return value
    import hashlib

    digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{value[: _LONGEST_VALUE - 32]}… (sha256 {digest})"


def _versions(
    software: Software | None, gpus: Gpus | None, driver: Driver | None, platform: Platform | None
) -> Iterator[tuple[str, str]]:
    yield "distcheck", __version__
    if software is not None:
        yield from ((name, version) for name, version in software.packages if name != "distcheck")
        found = next((library.version for library in software.nccl_libraries if library.version), None)
        named = {
            "python": software.python,
            "torch": software.torch,
            "cuda": software.cuda,
            "hip": software.hip,
            # what is installed counts only where the loader's choice is unknown
            "nccl": found or (software.nccl_packages[0][1] if len(software.nccl_packages) == 1 else None),
        }
        yield from ((name, version) for name, version in named.items() if version)
    version = gpus.driver_version if gpus is not None else driver.module_version if driver is not None else None
    if version:
        yield "driver", version
    if platform is not None and platform.kernel:
        yield "kernel", platform.kernel


def _backends(software: Software | None, platform: Platform | None) -> tuple[str, ...]:
    """What this build of torch has; empty where only its name is known, and where there is none."""
    if software is None or software.torch_path is None:
        return ()
    elsewhere = platform is not None and platform.system != "linux"
    return tuple(sorted(name for name in software.backends if not (name == "nccl" and elsewhere)))


def _interfaces(interfaces: Interfaces, settings: Settings, name: HostName | None) -> tuple[HostInterface, ...]:
    """Interfaces with an address, those that NCCL takes first and in its order; its own address comes first, too."""
    nccl = choose_nccl_interfaces(
        interfaces,
        ifname=settings.get("NCCL_SOCKET_IFNAME"),
        family=settings.get("NCCL_SOCKET_FAMILY"),
        comm_id=settings.get("NCCL_COMM_ID"),
    ).interfaces
    gloo = gloo_interfaces(
        interfaces,
        ifname=settings.get("GLOO_SOCKET_IFNAME"),
        host_addresses=() if name is None else name.name.addresses,
    ).interfaces
    if name is None and not settings.get("GLOO_SOCKET_IFNAME"):
        gloo = ()  # which one it is depends on the name
    order = {item.name: place for place, item in reversed(list(enumerate((*nccl, *gloo))))}
    first = {item.name: item.address for item in (*gloo, *nccl)}
    kept = [item for item in interfaces.interfaces if item.name in order or _could_carry(item, interfaces)]
    kept.sort(key=lambda item: (order.get(item.name, len(order)), item.name != interfaces.default_route))
    chosen, other = {item.name for item in nccl}, {item.name for item in gloo}
    return tuple(
        HostInterface(
            item.name,
            tuple(sorted(item.addresses, key=lambda address: bare(address) != bare(first.get(item.name, "")))),
            item.kind,
            item.up if item.running is None else item.running,
            item.mtu_bytes,
            item.speed_mbit_per_s,
            nccl=item.name in chosen,
            gloo=item.name in other,
            default_route=item.name == interfaces.default_route,
        )
        for item in kept[:_MOST_INTERFACES]
    )


def _could_carry(item: Interface, interfaces: Interfaces) -> bool:
    """It has an address that other hosts could reach; the host's ends of its pods' interfaces have none."""
    return item.name == interfaces.default_route or any(
        not is_loopback(address) and not bare(address).lower().startswith(("fe80", "169.254."))
        for address in item.addresses
    )


def _rdma_ports(fabric: Fabric, settings: Settings) -> Iterator[HostRdmaPort]:
    wanted = parse_filter(settings.get("NCCL_IB_HCA") or "", MOST_DEVICES)
    for port in fabric.ports:
        yield HostRdmaPort(
            port.device,
            port.port,
            port.state,
            port.link_layer,
            port.rate_gbit_per_s,
            port.efa,
            selected=wanted.takes(port.device, port.port),
        )


def _plugins(fabric: Fabric | None, named: NcclPlugins | None) -> tuple[str, ...]:
    paths: Iterable[str] = (
        *(() if fabric is None else fabric.net_plugins),
        *(
            plugin.path
            for plugin in (() if named is None else named.named)
            if plugin.path and plugin.variable == "NCCL_NET_PLUGIN"
        ),
    )
    return tuple(dict.fromkeys(path.rpartition("/")[2] for path in paths))


# reading


def _namespace(world: World, name: str) -> str:
    """The number in ``ipc:[4026531839]``."""
    return world.link_or_empty(f"/proc/self/ns/{name}").partition("[")[2].rstrip("]")


def _device_of_shared_memory(world: World) -> str:
    """Return ``0:25``: the device number of /dev/shm, by which NCCL knows whether two ranks share it."""
    best, device = "", ""
    for line in world.text_or_empty("/proc/self/mountinfo").splitlines():
        fields = line.split()
        if len(fields) < 5:
            continue
        point = fields[4]
        # what is mounted later at the same path covers what was there before
        if (point == "/dev/shm" or "/dev/shm".startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, device = point, fields[2]
    return device


def _find_git(world: World, folder: str) -> str | None:
    """The folder with Git's own files for a folder of a working tree; None outside of one."""
    for _ in range(_MOST_PARENTS):
        path = f"{folder.rstrip('/')}/.git"
        if world.is_file(path):
            # a worktree, or a submodule: "gitdir: /path/of/the/repository/.git/worktrees/name"
            try:
                target = world.read_text(path).strip()
            except OSError as error:
                raise Unavailable(f"{path} can't be read: {error.strerror}") from error
            if target.startswith("gitdir:"):
                return os.path.normpath(os.path.join(folder, target.removeprefix("gitdir:").strip()))
        elif world.exists(f"{path}/HEAD"):
            return path
        parent = folder.rpartition("/")[0]
        if not folder or parent == folder:
            return None
        folder = parent
    return None


def _commit_of(world: World, git: str, name: str) -> str:
    """The commit of a reference: of this worktree, else of the repository, else among the packed ones."""
    folders = [git]
    if common := world.text_or_empty(f"{git}/commondir").strip():
        folders.append(os.path.normpath(os.path.join(git, common)))
    for folder in folders:
        text = world.text_or_empty(f"{folder}/{name}").strip()
        if _COMMIT.fullmatch(text):
            return text
        if text.startswith("ref:"):  # one reference that stands for another; Git allows a few steps, one is common
            name = text.removeprefix("ref:").strip()
    for folder in folders:
        for line in world.text_or_empty(f"{folder}/packed-refs").splitlines():
            commit, _, packed_name = line.partition(" ")
            if packed_name == name and _COMMIT.fullmatch(commit):
                return commit
    return ""  # a branch without a commit yet
