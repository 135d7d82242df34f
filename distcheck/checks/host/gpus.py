"""The GPUs of this host, as the driver sees them: kinds, health, and who uses them. No CUDA context is created.

Which of them a rank may use is the matter of ``devices.py``; what their health means that of ``gpu_health.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import Unavailable, expand_ranges, to_plain
from distcheck.core.registry import fact
from distcheck.core.world import World

from .processes import read_start, read_users, shown_command


class GpuProcess(NamedTuple):
    """A process that holds memory of a GPU."""

    pid: int
    memory_bytes: int | None
    user: str | None = None
    #: command line with credentials masked; None where /proc does not show it
    command: str | None = None
    #: seconds since 1970, UTC
    started_at: float | None = None
    #: a launched rank or its worker, the caller's own, without a parent: no process waits for it
    orphan: bool = False
    own: bool = False


class Gpu(NamedTuple):
    """One GPU. None: unknown to the driver."""

    #: in the driver's order, which is PCI order
    index: int  # type: ignore[assignment]  # hides a tuple's method that no caller needs
    uuid: str
    name: str
    #: as /sys/bus/pci/devices writes it: ``0000:07:00.0``
    pci: str = ""
    memory_bytes: int = 0
    memory_used_bytes: int = 0
    #: such as ``9.0`` for NVIDIA, ``gfx942`` for AMD
    architecture: str = ""
    #: ``default``, ``exclusive-process``, ``prohibited``
    compute_mode: str | None = None
    persistence_mode: bool | None = None
    mig_enabled: bool | None = None
    #: UUIDs of its MIG instances
    mig_uuids: tuple[str, ...] = ()
    ecc_uncorrected_volatile: int | None = None
    ecc_uncorrected_lifetime: int | None = None
    #: rows that were replaced after uncorrectable errors
    remapped_rows: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages_pending: bool | None = None
    #: words of NVML's clock event reasons that are active: ``sw-thermal``, ``hw-thermal``, ``hw-power-brake``,
    #: ``hw-slowdown``, ``sw-power-cap``, ``idle``, ``application-clocks``, ``sync-boost``, ``display-clocks``
    throttle: tuple[str, ...] = ()
    temperature_c: int | None = None
    #: NVML's fabric state on NVSwitch machines: ``not-supported``, ``not-started``, ``in-progress``, ``completed``
    fabric_state: str | None = None
    #: NVML's return code of the registration with the fabric, 0 is success
    fabric_status: int | None = None
    #: links to other GPUs that are up: NVLink, or XGMI for AMD
    nvlinks_active: int | None = None
    numa_node: int | None = None
    #: CPUs near it
    cpus: tuple[int, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    #: what could not be read about it: NVML's own words by call
    errors: tuple[str, ...] = ()
    #: the driver lists it, but can't reach it any more
    lost: bool = False


class Gpus(NamedTuple):
    """The GPUs of this host that this process may access. Unavailable without a driver."""

    #: ``nvidia`` or ``amd``
    vendor: str
    gpus: tuple[Gpu, ...]
    driver_version: str = ""
    #: the newest CUDA that the driver supports, such as ``12.4``; empty for AMD
    driver_cuda: str = ""


class Driver(NamedTuple):
    """What the GPU drivers leave in files: there also where their libraries don't answer."""

    #: version of NVIDIA's kernel module, None where it is not loaded
    module_version: str | None = None
    #: version of the NVML library that the loader finds, None where there is none
    library_version: str | None = None
    #: the device nodes of NVIDIA's GPUs: ``/dev/nvidia0`` …
    nodes: tuple[str, ...] = ()
    #: those of them that this process may not open
    blocked: tuple[str, ...] = ()
    nvswitches: int = 0
    #: GPUs that AMD's kernel driver lists
    amd_gpus: int = 0
    #: /dev/dxg is there, through which WSL2 reaches the GPUs of Windows
    through_windows: bool = False
    #: device nodes that all GPUs of a driver share: ``/dev/nvidiactl``, ``/dev/nvidia-uvm``, ``/dev/kfd`` …
    shared_nodes: tuple[str, ...] = ()

    @property
    def nothing_there(self) -> bool:
        """No GPU of either vendor can be in reach of this process."""
        return not self.nodes and not self.amd_gpus and not self.through_windows


class PeerPaths(NamedTuple):
    """How the IOMMU treats the GPUs' accesses to each other."""

    #: PCI address of a GPU and the kind of its IOMMU group, in the kernel's words: ``DMA``, ``DMA-FQ`` (translated),
    #: ``identity``; GPUs without a group are skipped
    groups: tuple[tuple[str, str], ...] = ()


#: Without persistence mode the driver initializes GPUs one after another, which takes about two seconds each. All
#: ranks of a host do so at the same time.
NVML_LIMIT_S = 12.0
_NVML_LIMIT_OF_A_GPU_S = 4.0


def nvml_limit_s(world: World) -> float:
    """Return how long NVML may take to answer for the GPUs that the driver lists."""
    return max(NVML_LIMIT_S, _NVML_LIMIT_OF_A_GPU_S * len(world.names_or_empty("/proc/driver/nvidia/gpus")))


@fact(limit_s=nvml_limit_s, isolated=True)
def read_gpus(world: World) -> Gpus:
    """From NVML, or from /sys/class/kfd for AMD. Of the ranks of a host, the first one reads NVML for all."""
    nodes = [(name, world.writable(f"/dev/{name}")) for name in _nvidia_nodes(world)]
    if not nodes:
        return _read_gpus(world)
    import json

    from distcheck.core.facts_file import from_plain

    # a cgroup may give each rank other devices
    name = json.dumps(["gpus", nodes, world.environ.get("LD_LIBRARY_PATH")])
    answer = world.read_together(name, lambda: json.dumps(to_plain(_gpus_or_why(world))).encode())
    found: Gpus | Unavailable = from_plain(Gpus, json.loads(answer))
    if isinstance(found, Unavailable):
        raise found
    return found


def _gpus_or_why(world: World) -> Gpus | Unavailable:
    try:
        return _read_gpus(world)
    except Unavailable as unavailable:
        return unavailable


def _read_gpus(world: World) -> Gpus:
    try:
        nvml = world.nvml()
    except Unavailable as error:
        if world.exists("/proc/driver/nvidia/version"):
            raise
        if cards := tuple(_amd_gpus(world)):
            return Gpus("amd", cards, _first_line(world, "/sys/module/amdgpu/version"))
        if why := _why_no_amd_gpu(world):
            raise Unavailable(f"{error.why}{AMD_UNREAD}{why}") from None
        raise
    return _nvidia_gpus(world, nvml)


@fact()
def read_driver(world: World) -> Driver:
    """From /proc/driver/nvidia, /dev and /sys/class/kfd; opens no device."""
    if world.platform != "linux":
        raise Unavailable(f"the drivers' files are read on Linux only, not on {world.platform}")
    names = world.names_or_empty("/dev")
    nodes = tuple(f"/dev/{name}" for name in _nvidia_nodes(world))
    return Driver(
        module_version=_module_version(world),
        library_version=_library_version(world),
        nodes=nodes,
        # access(2) checks the cgroup of the container too, and cannot hang as opening a lost GPU can
        blocked=tuple(node for node in nodes if not world.writable(node)),
        nvswitches=len(world.names_or_empty("/proc/driver/nvidia-nvswitch/devices")),
        amd_gpus=sum(1 for _ in _amd_nodes(world)),
        through_windows=world.exists("/dev/dxg"),
        shared_nodes=tuple(f"/dev/{name}" for name in names if re.fullmatch(r"nvidia\D.*|kfd", name)),
    )


@fact()
def read_peer_paths(world: World, gpus: Gpus) -> PeerPaths:
    """From /sys/bus/pci: the IOMMU group of each GPU."""
    if world.platform != "linux":
        raise Unavailable(f"{world.platform} does not show IOMMU groups")
    if not world.exists("/sys/bus/pci/devices"):
        raise Unavailable("/sys/bus/pci/devices is not there")
    addresses = [gpu.pci for gpu in gpus.gpus if gpu.pci]
    kinds = ((pci, _first_line(world, f"/sys/bus/pci/devices/{pci}/iommu_group/type")) for pci in addresses)
    return PeerPaths(tuple((pci, kind) for pci, kind in kinds if kind))


# NVIDIA


def _nvidia_nodes(world: World) -> tuple[str, ...]:
    """The device nodes of GPUs in /dev: ``nvidia0`` …"""
    return tuple(name for name in world.names_or_empty("/dev") if re.fullmatch(r"nvidia\d+", name))


#: Values of NVML that don't change (nvml.h of CUDA 13).
_NOT_SUPPORTED, _NO_PERMISSION, _NOT_FOUND, _FUNCTION_NOT_FOUND, _GPU_IS_LOST = 3, 4, 6, 13, 15
_UNCORRECTED, _VOLATILE, _LIFETIME = 1, 0, 1
_COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
_FABRIC_STATES = {0: "not-supported", 1: "not-started", 2: "in-progress", 3: "completed"}
_CLOCK_REASONS = {
    0x1: "idle",
    0x2: "application-clocks",
    0x4: "sw-power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "hw-power-brake",
    0x100: "display-clocks",
}
_CORE_TEMPERATURE = 0
#: Most links that any GPU has (NVML_NVLINK_MAX_LINKS; 18 up to Blackwell).
_MOST_LINKS = 36


class _Card:
    """Reads one GPU from NVML, and records errors."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle
        self.errors: list[str] = []
        self.lost = False

    def ask(self, *names: str, also: tuple[Any, ...] = ()) -> Any:
        """The answer of the first of these calls that the driver knows; None where it can't be had.

        That a GPU has no such feature, or that only root may know, is no error.
        """
        if self.lost:
            return None
        for name in names:
            call = getattr(self.nvml, name, None)
            if call is None:
                continue
            try:
                return call(self.handle, *also)
            except self.nvml.NVMLError as error:
                if error.value == _FUNCTION_NOT_FOUND:
                    continue
                if error.value not in (_NOT_SUPPORTED, _NO_PERMISSION):
                    self.failed(name, error)
                return None
            except getattr(self.nvml, "NVMLLibraryMismatchError", ()):
                continue
        return None

    def failed(self, name: str, error: Any) -> None:
        """Record an error of a call, and that the GPU is lost if this is the error."""
        self.errors.append(f"{name}: {error}")
        self.lost = error.value == _GPU_IS_LOST

    def switch(self, *names: str) -> bool | None:
        """The answer as on or off."""
        answer = self.ask(*names)
        return None if answer is None else bool(answer)


def _nvidia_gpus(world: World, nvml: Any) -> Gpus:
    describe = _process_reader(world)
    cards = []
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise Unavailable(f"NVML: nvmlDeviceGetCount: {error}") from error
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            # NVML counts GPUs that a cgroup keeps from this process; they are no concern of ours
            if error.value != _NO_PERMISSION:
                cards.append(Gpu(index, "", "", errors=(f"nvmlDeviceGetHandleByIndex: {error}",), lost=True))
            continue
        cards.append(_nvidia_gpu(world, _Card(nvml, handle), index, describe))
    return Gpus("nvidia", tuple(cards), _system_version(nvml), _cuda_version(nvml))


def _nvidia_gpu(world: World, card: _Card, index: int, describe: Callable[[int, int | None], GpuProcess]) -> Gpu:
    identity = card.ask("nvmlDeviceGetPciInfo")
    pci = "" if identity is None else _sysfs_address(_text(identity.busId))
    memory = card.ask("nvmlDeviceGetMemoryInfo")
    capability = card.ask("nvmlDeviceGetCudaComputeCapability")
    mode = card.ask("nvmlDeviceGetComputeMode")
    mig = card.ask("nvmlDeviceGetMigMode")
    mig_enabled = None if mig is None else bool(mig[0])
    remapped = card.ask("nvmlDeviceGetRemappedRows")
    fabric_state, fabric_status = _fabric(card)
    used = card.ask("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2") or ()
    numa_node, cpus = _near(world, pci)
    return Gpu(
        index=index,
        uuid=_text(card.ask("nvmlDeviceGetUUID")),
        name=_text(card.ask("nvmlDeviceGetName")),
        pci=pci,
        memory_bytes=0 if memory is None else int(memory.total),
        memory_used_bytes=0 if memory is None else int(memory.used),
        architecture="" if capability is None else f"{capability[0]}.{capability[1]}",
        compute_mode=None if mode is None else _COMPUTE_MODES.get(int(mode), str(mode)),
        persistence_mode=card.switch("nvmlDeviceGetPersistenceMode"),
        mig_enabled=mig_enabled,
        mig_uuids=tuple(_mig_uuids(card)) if mig_enabled else (),
        ecc_uncorrected_volatile=card.ask("nvmlDeviceGetTotalEccErrors", also=(_UNCORRECTED, _VOLATILE)),
        ecc_uncorrected_lifetime=card.ask("nvmlDeviceGetTotalEccErrors", also=(_UNCORRECTED, _LIFETIME)),
        remapped_rows=None if remapped is None else int(remapped[1]),
        remap_pending=None if remapped is None else bool(remapped[2]),
        remap_failed=None if remapped is None else bool(remapped[3]),
        retired_pages_pending=card.switch("nvmlDeviceGetRetiredPagesPendingStatus"),
        throttle=_clock_reasons(card),
        temperature_c=card.ask("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", also=(_CORE_TEMPERATURE,)),
        fabric_state=fabric_state,
        fabric_status=fabric_status,
        nvlinks_active=_active_links(card),
        numa_node=numa_node,
        cpus=cpus,
        processes=tuple(describe(int(process.pid), process.usedGpuMemory) for process in used),
        errors=tuple(card.errors),
        lost=card.lost,
    )


def _mig_uuids(card: _Card) -> Iterator[str]:
    for index in range(card.ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
        try:
            instance = card.nvml.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, index)
            yield _text(card.nvml.nvmlDeviceGetUUID(instance))
        except card.nvml.NVMLError as error:
            # slots without an instance, and instances that a cgroup hides from this process
            if error.value not in (_NOT_FOUND, _NO_PERMISSION):
                card.failed("nvmlDeviceGetMigDeviceHandleByIndex", error)
                return


def _clock_reasons(card: _Card) -> tuple[str, ...]:
    mask = card.ask("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons") or 0
    return tuple(word for bit, word in _CLOCK_REASONS.items() if mask & bit)


def _active_links(card: _Card) -> int | None:
    """Links that are up; None for a card without any."""
    states = []
    for link in range(_MOST_LINKS):
        if card.lost:
            break
        try:
            states.append(card.nvml.nvmlDeviceGetNvLinkState(card.handle, link))
        except card.nvml.NVMLError as error:
            # the first link that the card does not have ends the list: NVML has no call for their number
            if error.value == _GPU_IS_LOST:
                card.failed("nvmlDeviceGetNvLinkState", error)
            break
    return sum(map(bool, states)) if states else None


def _fabric(card: _Card) -> tuple[str | None, int | None]:
    """State of the GPU's registration with NVSwitch's fabric manager, and NVML's code for how it went."""
    import ctypes

    for call, layout in (
        ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfoV_t"),
        ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
    ):
        if card.lost or not hasattr(card.nvml, call) or not hasattr(card.nvml, layout):
            continue
        answer = getattr(card.nvml, layout)()
        try:
            getattr(card.nvml, call)(card.handle, ctypes.byref(answer))
        except card.nvml.NVMLError as error:
            if error.value == _NOT_SUPPORTED:
                return "not-supported", None
            if error.value == _GPU_IS_LOST:
                card.failed(call, error)
            continue
        state = int(answer.state)
        # the code has a meaning only after the registration
        return _FABRIC_STATES.get(state, str(state)), int(answer.status) if state == 3 else None
    return None, None


def _system_version(nvml: Any) -> str:
    try:
        return _text(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return ""


def _cuda_version(nvml: Any) -> str:
    """Such as ``12.4``, which NVML writes 12040."""
    for name in ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"):
        try:
            number = int(getattr(nvml, name)())
        except (nvml.NVMLError, AttributeError):
            continue
        return f"{number // 1000}.{number % 1000 // 10}"
    return ""


def _module_version(world: World) -> str | None:
    """From the line ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar …``."""
    found = re.search(r"\s(\d{3,}\.\d+(?:\.\d+)?)\s", _first_line(world, "/proc/driver/nvidia/version") + " ")
    return found[1] if found else None


def _library_version(world: World) -> str | None:
    """The number in the name of the file that the loader's name of NVML leads to."""
    usual = (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/nvidia/lib64",
        "/usr/local/nvidia/lib",
        "/usr/lib/wsl/lib",
    )
    named = (world.environ.get("LD_LIBRARY_PATH") or "").split(":")
    for folder in (*filter(None, named), *usual):
        try:
            target = world.read_link(f"{folder}/libnvidia-ml.so.1")
        except OSError:
            # WSL's library is a file of that name and carries no number
            if world.exists(f"{folder}/libnvidia-ml.so.1"):
                return ""
            continue
        found = re.search(r"libnvidia-ml\.so\.(\d+\.\d+(?:\.\d+)?)$", target)
        return found[1] if found else ""
    return None


def _sysfs_address(nvml_address: str) -> str:
    """NVML's ``00000000:07:00.0`` as ``0000:07:00.0``."""
    domain, _, rest = nvml_address.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else nvml_address.lower()


def _text(value: Any) -> str:
    """NVML's texts: bytes in old releases of its Python module."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


# AMD

#: Stands before the reason why AMD's GPUs are unavailable, behind NVML's.
AMD_UNREAD = "; AMD: "
_KFD = "/sys/class/kfd/kfd"
_NODES = f"{_KFD}/topology/nodes"
#: The device that each process on AMD GPUs opens, next to the one of each GPU.
_KFD_NODE = "/dev/kfd"
#: Kind of a link in the kernel's topology (HSA_IOLINK_TYPE_XGMI).
_XGMI = 11


def _amd_nodes(world: World) -> Iterator[tuple[str, dict[str, int]]]:
    """The GPUs in the kernel's topology with their properties; those that a cgroup keeps from us can't be read."""
    folder = _NODES
    for name in sorted(world.names_or_empty(folder), key=lambda name: (len(name), name)):
        properties = _properties(world, f"{folder}/{name}/properties")
        if properties.get("simd_count", 0) > 0 and properties.get("gfx_target_version", 0) > 0:
            yield name, properties


def _why_no_amd_gpu(world: World) -> str | None:
    """Return why this process has no AMD GPU although the driver is there; None without a driver."""
    listed = list(_amd_nodes(world))
    if not world.exists(_KFD_NODE):
        count = f"{len(listed)} GPU{'s' * (len(listed) != 1)}"
        return f"{_KFD_NODE} does not exist, although the driver lists {count}" if listed else None
    if not listed:
        return f"{_KFD_NODE} exists, but no GPU can be read in {_NODES}"
    if not world.writable(_KFD_NODE):
        return f"{_KFD_NODE} can't be opened"
    return "the devices of the GPUs can't be opened: " + ", ".join(_render_node(properties) for _, properties in listed)


def _render_node(properties: dict[str, int]) -> str:
    """The device of one GPU; that of all GPUs where an old driver does not name it."""
    minor = properties.get("drm_render_minor", 0)
    return f"/dev/dri/renderD{minor}" if minor > 0 else _KFD_NODE


def _opens(world: World, node: str) -> bool:
    return world.exists(node) and world.writable(node)


def _amd_gpus(world: World) -> Iterator[Gpu]:
    """The GPUs whose devices this process may open: ROCm passes over the others."""
    describe = _process_reader(world)
    nodes = _amd_nodes(world) if _opens(world, _KFD_NODE) else ()
    usable = (node for node in nodes if _opens(world, _render_node(node[1])))
    for index, (name, properties) in enumerate(usable):
        folder = f"{_NODES}/{name}"
        device = f"/sys/class/drm/renderD{properties.get('drm_render_minor', -1)}/device"
        location = properties.get("location_id", 0)
        pci = f"{properties.get('domain', 0):04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
        numa_node, cpus = _near(world, pci)
        banks = (
            _properties(world, f"{folder}/mem_banks/{bank}/properties").get("size_in_bytes", 0)
            for bank in world.names_or_empty(f"{folder}/mem_banks")
        )
        total = _number(world, f"{device}/mem_info_vram_total") or sum(banks)
        unique = properties.get("unique_id", 0)
        yield Gpu(
            index=index,
            uuid=f"GPU-{unique:016x}" if unique else "",
            name=_first_line(world, f"{device}/product_name") or _first_line(world, f"{folder}/name") or "AMD GPU",
            pci=pci,
            memory_bytes=total,
            memory_used_bytes=_number(world, f"{device}/mem_info_vram_used") or 0,
            architecture=_gfx(properties["gfx_target_version"]),
            ecc_uncorrected_volatile=_properties(world, f"{device}/ras/umc_err_count").get("ue:"),
            nvlinks_active=_xgmi_links(world, folder),
            numa_node=numa_node,
            cpus=cpus,
            processes=tuple(_amd_processes(world, _first_line(world, f"{folder}/gpu_id"), describe)),
        )


def _gfx(version: int) -> str:
    """The target's name from its number: 90402 is gfx942, 90010 is gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _xgmi_links(world: World, folder: str) -> int:
    return sum(
        _properties(world, f"{folder}/{kind}/{link}/properties").get("type") == _XGMI
        for kind in ("io_links", "p2p_links")
        for link in world.names_or_empty(f"{folder}/{kind}")
    )


def _amd_processes(world: World, card: str, describe: Callable[[int, int | None], GpuProcess]) -> Iterator[GpuProcess]:
    for name in world.names_or_empty(f"{_KFD}/proc"):
        used = _number(world, f"{_KFD}/proc/{name}/vram_{card}") if name.isdigit() else None
        if used:
            yield describe(int(name), used)


# processes

#: The inode of the first PID namespace (PROC_PID_INIT_INO, include/linux/proc_ns.h): only there do the numbers that a
#: driver gives mean the same processes as ours.
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
_LONGEST_COMMAND = 200


def _process_reader(world: World) -> Callable[[int, int | None], GpuProcess]:
    """Return the description of a process; only its number if this process cannot see it."""
    ours = world.link_or_empty("/proc/self/ns/pid") == _FIRST_PID_NAMESPACE
    users = read_users(world) if ours else {}

    def describe(pid: int, memory_bytes: int | None) -> GpuProcess:
        status = world.text_or_empty(f"/proc/{pid}/status") if ours else ""
        owner = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
        if owner is None:
            return GpuProcess(pid, memory_bytes)
        arguments = [part for part in world.text_or_empty(f"/proc/{pid}/cmdline").split("\0") if part]
        own = int(owner[1]) == world.user_id
        return GpuProcess(
            pid,
            memory_bytes,
            user=users.get(int(owner[1]), f"user {owner[1]}"),
            command=" ".join(shown_command(arguments))[:_LONGEST_COMMAND] or None,
            started_at=read_start(world, pid),
            orphan=own and _is_orphan(world, pid, status, arguments),
            own=own,
        )

    return describe


def _is_orphan(world: World, pid: int, status: str, arguments: Sequence[str]) -> bool:
    """Whether a process was started by a launcher or by multiprocessing, lost its parent, and really has a GPU open.

    A training process that was sent to the background on purpose has lost its parent as well, but nothing started
    it as a worker.
    """
    parent = re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)
    if parent is None or (parent[1] != "1" and _first_line(world, f"/proc/{parent[1]}/comm") != "systemd"):
        return False
    worker = any("multiprocessing.spawn" in part or "multiprocessing.forkserver" in part for part in arguments)
    if not worker and "\0TORCHELASTIC_RUN_ID=" not in "\0" + world.text_or_empty(f"/proc/{pid}/environ"):
        return False
    # one that was closed meanwhile leads nowhere
    files = (world.link_or_empty(f"/proc/{pid}/fd/{name}") for name in world.names_or_empty(f"/proc/{pid}/fd"))
    return any(file.startswith(("/dev/nvidia", "/dev/kfd")) for file in files)


# small files


def _near(world: World, pci: str) -> tuple[int | None, tuple[int, ...]]:
    """NUMA node and CPUs of a PCI device; None on machines with one node, where the kernel writes -1."""
    if not pci:
        return None, ()
    folder = f"/sys/bus/pci/devices/{pci}"
    node = _number(world, f"{folder}/numa_node")
    return (None if node is None or node < 0 else node), tuple(
        expand_ranges(_first_line(world, f"{folder}/local_cpulist"))
    )


def _properties(world: World, path: str) -> dict[str, int]:
    """A file of lines ``name number``."""
    pairs = (line.split() for line in world.text_or_empty(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].lstrip("-").isdigit()}


def _number(world: World, path: str) -> int | None:
    text = _first_line(world, path)
    return int(text) if text.lstrip("-").isdigit() else None


def _first_line(world: World, path: str) -> str:
    return world.text_or_empty(path).partition("\n")[0].strip()
