"""Whether the GPUs, their driver and the way between them are well: judged from what ``gpus.py`` has read.

How many ranks they can serve is the matter of ``devices.py``. Nothing here measures: what only shows under load is
left to a live process group.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where, grouped_pairs, rank_ranges
from distcheck.core.registry import probe
from distcheck.core.world import NO_NVML
from distcheck.launch.model import Launch
from distcheck.launch.settings import Settings
from distcheck.rules import shared_fixes

from .devices import Devices, runs_on_gpus, visible_gpus
from .gpus import AMD_UNREAD, Driver, Gpu, GpuProcess, Gpus, PeerPaths
from .platform import Platform
from .software import DriverLibrary, Software, version_numbers

GIB = 1 << 30
#: What a process that only has a context open takes of a GPU is below this, so its owner is not worth naming
#: (a CUDA context of torch takes 0.2 to 0.6 GiB).
NOTEWORTHY_BYTES = GIB

#: The oldest driver on which anything built with a CUDA of that major version runs (CUDA Compatibility, r590, minor
#: version compatibility; patch levels from the CUDA toolkit's release notes, Linux).
OLDEST_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}

#: NVML's words for return code 18, from the library and from its Python module.
MISMATCH_WORDS = ("Driver/library version mismatch", "NVML/RM version mismatch")
#: Answers of NVML when the device nodes cannot be opened any more: return codes 999 and 4.
LOST_WORDS = ("Unknown Error", "Insufficient Permissions")

#: Clock reasons that indicate a fault; power caps, application clocks and idling are intended.
THROTTLES = {
    "sw-thermal": "its temperature",
    "hw-thermal": "its temperature (the hardware's own limit)",
    "hw-power-brake": "the power supply's brake signal",
    "hw-slowdown": "the hardware (temperature, power or its supply)",
}


# driver and software


@probe(rules.DC304)
def driver_is_new_enough(
    launch: Launch,
    software: Software,
    gpus: Gpus | Unavailable,
    driver: Driver | Unavailable,
    library: DriverLibrary | Unavailable,
) -> Iterator[Finding]:
    """The driver can run what torch's CUDA was built for."""
    if software.cuda is None:
        return
    if isinstance(library, DriverLibrary) and library.compat:
        return  # forward compatibility is what it is for; whether it may be used here is DC333
    if isinstance(gpus, Unavailable):
        # NVML does not answer, but the loaded module has its version
        if isinstance(driver, Unavailable) or driver.module_version is None or not driver.nodes:
            raise Unavailable(gpus.why)
        version, supported = driver.module_version, ""
    elif gpus.vendor != "nvidia" or not gpus.gpus:
        return
    else:
        version, supported = gpus.driver_version, gpus.driver_cuda
    wanted = version_numbers(software.cuda)
    if not wanted or not version_numbers(version):
        raise Unavailable(f"CUDA {software.cuda!r} and driver {version!r} can't be compared")
    oldest = OLDEST_DRIVERS.get(wanted[0])
    if supported and version_numbers(supported) >= wanted:
        return
    if oldest is None:
        if supported and version_numbers(supported)[0] >= wanted[0]:
            return
        if not supported:
            raise Unavailable(f"no oldest driver is known for CUDA {software.cuda}")
    elif version_numbers(version) >= version_numbers(oldest):
        return
    usable = next(iter(version_numbers(supported)), wanted[0] - 1)
    needed = f"{oldest} or newer" if oldest else f"one for CUDA {wanted[0]}"
    newest = f", which knows CUDA up to {supported}" if supported else ""
    yield rules.DC304.found(
        f"torch {software.torch} is built with CUDA {software.cuda}, which needs driver {needed}; "
        f"driver {version} is loaded{newest}",
        severity=None if launch.launched and launch.backend in (None, "nccl") else Severity.INFO,
        evidence={"cuda": software.cuda, "driver": version, "driver_cuda": supported or None, "oldest_driver": oldest},
        fix=Fix(
            f"install a build of torch for CUDA {usable}, or have an administrator install driver {needed}",
            where="host",
        ),
    )


@probe(rules.DC313)
def nvml_fits_the_driver(
    launch: Launch, gpus: Gpus | Unavailable, driver: Driver | Unavailable, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """The NVIDIA library and the kernel module that is loaded are of one version."""
    if not isinstance(gpus, Unavailable):
        return
    if not any(words in gpus.why for words in MISMATCH_WORDS):
        raise Unavailable(gpus.why)
    known = Driver() if isinstance(driver, Unavailable) else driver
    versions = ""
    if known.module_version and known.library_version and known.module_version != known.library_version:
        versions = f": module {known.module_version}, library {known.library_version}"
    container = None if isinstance(platform, Unavailable) else platform.container
    yield rules.DC313.found(
        f"the NVIDIA kernel module that is loaded and the driver's library have different versions{versions}",
        severity=_severity(launch, launch.backend in (None, "nccl")),
        evidence={"nvml": gpus.why, "module": known.module_version, "library": known.library_version},
        fix=Fix(
            "the driver was updated while it was in use. Have an administrator reboot the host, or reload the nvidia "
            "modules when nothing uses the GPUs"
            + ("; a container that brings its own driver library must use the host's" if container else ""),
            by="admin",
            where="host",
        ),
    )


@probe(rules.DC314)
def container_still_has_its_gpus(
    launch: Launch, gpus: Gpus | Unavailable, driver: Driver, platform: Platform
) -> Iterator[Finding]:
    """The GPUs that a container was given can still be opened."""
    if platform.container is None:
        return
    if isinstance(gpus, Unavailable):
        if not driver.nodes or not any(words in gpus.why for words in LOST_WORDS):
            raise Unavailable(gpus.why)
        reported = gpus.why
    else:
        lost = [gpu for gpu in gpus.gpus if gpu.lost]
        if not lost or len(lost) < len(gpus.gpus) or set(driver.blocked) != set(driver.nodes) or not driver.nodes:
            return
        reported = "; ".join(lost[0].errors)
    blocked = f", and {', '.join(driver.blocked)} can't be opened" if driver.blocked else ""
    yield rules.DC314.found(
        f"this container has {', '.join(driver.nodes)}, but NVML reports {reported!r}{blocked}: it has lost its access",
        severity=_severity(launch, launch.backend in (None, "nccl")),
        evidence={"nvml": reported, "nodes": list(driver.nodes), "blocked": list(driver.blocked)},
        fix=shared_fixes.RESTART_THE_CONTAINER,
    )


@probe(rules.DC315)
def gpus_can_be_read(
    launch: Launch,
    gpus: Gpus | Unavailable,
    driver: Driver,
    platform: Platform | Unavailable,
    software: Software | Unavailable,
) -> Iterator[Finding]:
    """NVML answers on a host that has a driver, and a torch for ROCm can open AMD's GPUs."""
    if not isinstance(gpus, Unavailable):
        return
    if AMD_UNREAD in gpus.why and isinstance(software, Software) and software.hip is not None:
        why = gpus.why.partition(AMD_UNREAD)[2]
        yield rules.DC315.found(
            f"this process cannot use the AMD GPUs of this host: {why}",
            severity=_severity(launch, launch.backend is None or "nccl" in launch.backend),
            evidence={"reason": why, "listed": driver.amd_gpus},
            fix=Fix(
                "in a container: start it with --device=/dev/kfd --device=/dev/dri. On the host: have an administrator "
                "add this user to the groups of these devices (render, video), or run rocm-smi and fix what it reports",
                where="host",
            ),
        )
        return
    container = None if isinstance(platform, Unavailable) else platform.container
    # a container without GPUs sees the module of its host
    if not driver.nodes and (container is not None or driver.module_version is None):
        return
    # a driver that does not answer in time may only be slow: DC902
    if NO_NVML in gpus.why or "did not answer" in gpus.why:
        raise Unavailable(gpus.why)
    if any(words in gpus.why for words in MISMATCH_WORDS):
        return  # DC313
    if container is not None and driver.nodes and any(words in gpus.why for words in LOST_WORDS):
        return  # DC314
    on_gpus = launch.backend is None and (isinstance(software, Unavailable) or software.cuda is not None)
    yield rules.DC315.found(
        f"this host has an NVIDIA driver that does not answer ({gpus.why}): its GPUs cannot be checked",
        severity=_severity(launch, on_gpus or "nccl" in (launch.backend or "")),
        evidence={"nvml": gpus.why, "module": driver.module_version, "nodes": list(driver.nodes)},
        fix=Fix(
            "run nvidia-smi on this host, and have an administrator fix what it reports: the log of the kernel shows "
            "the driver's errors (NVRM: Xid). Until then use another host",
            by="admin",
            where="host",
        ),
    )


@probe(rules.DC335)
def torch_knows_the_gpus(launch: Launch, software: Software, gpus: Gpus, devices: Devices) -> Iterator[Finding]:
    """torch holds code that each GPU can run."""
    if software.torch is None or (software.hip if gpus.vendor == "amd" else software.cuda) is None:
        return
    if not software.architectures:
        raise Unavailable("the files of this torch do not show for which GPUs it was built")
    cards = [gpu for gpu in visible_gpus(devices, gpus) if gpu.architecture]
    unknown = [gpu for gpu in cards if not _has_code(gpu.architecture, software.architectures)]
    ranks = launch.ranks_here or 1
    used = cards[:ranks] if devices.order_known else cards
    # an old display card next to the others affects no process that does not use it
    hurts = any(gpu in used for gpu in unknown) and (devices.order_known or len(cards) - len(unknown) < ranks)
    by_kind = grouped_pairs(((gpu.name, gpu.architecture), gpu.index) for gpu in unknown)
    for (name, architecture), indices in by_kind.items():
        where = rank_ranges(indices)
        yield rules.DC335.found(
            f"torch {software.torch} has no code for GPU {where} ({name}, {_shown(architecture)}): it was built for "
            f"{', '.join(software.architectures)}",
            severity=_severity(launch, hurts and runs_on_gpus(launch, gpus, software)),
            where=Where(gpu=where),
            evidence={"architecture": architecture, "built_for": list(software.architectures), "gpus": indices},
            fix=Fix(
                f"install a build of torch for {_shown(architecture)} (newer cards need a newer CUDA, older ones an "
                "older), or mask these GPUs",
                where="host",
            ),
        )


# health


@probe(rules.DC305)
def gpus_are_free(launch: Launch, devices: Devices, gpus: Gpus, software: Software | Unavailable) -> Iterator[Finding]:
    """No process of an earlier run holds memory of a GPU that the launch will use."""
    orphans: dict[int, list[_Holding]] = {}
    others: dict[int, list[_Holding]] = {}
    for gpu in visible_gpus(devices, gpus):
        for process in gpu.processes:
            if process.orphan:
                orphans.setdefault(process.pid, []).append(_Holding(gpu, process))
            elif launch.stage == "rank" and process.own:
                continue  # most likely the job's own ranks
            elif (process.memory_bytes or 0) >= NOTEWORTHY_BYTES and "nvidia-cuda-mps" not in (process.command or ""):
                others.setdefault(process.pid, []).append(_Holding(gpu, process))
    if orphans:
        pids = " ".join(map(str, orphans))
        hurts = launch.launched and runs_on_gpus(launch, gpus, software)
        yield rules.DC305.found(
            f"your processes without a launcher still hold GPU memory: {_listed(orphans)}",
            severity=Severity.WARNING if hurts else Severity.INFO,
            where=Where(gpu=_gpu_numbers(orphans)),
            evidence=_evidence(orphans),
            fix=Fix(
                f"see that they are what you think (ps -fp {','.join(map(str, orphans))}), then end them",
                command=f"kill {pids}",
                where="host",
                risk="what they have not saved is lost",
            ),
        )
    if others:
        yield rules.DC305.found(
            f"GPU memory is in use by other processes: {_listed(others)}",
            severity=Severity.INFO,
            where=Where(gpu=_gpu_numbers(others)),
            evidence=_evidence(others),
            fix=Fix(
                "wait for them, use other GPUs, or contact their owners; a notebook's kernel holds memory until "
                "its end",
                where="host",
            ),
        )


@probe(rules.DC309)
def gpus_are_sound(
    launch: Launch, devices: Devices, gpus: Gpus, driver: Driver | Unavailable, software: Software | Unavailable
) -> Iterator[Finding]:
    """No GPU reports errors of its memory or its connection."""
    hurts = runs_on_gpus(launch, gpus, software)
    taken_away = not isinstance(driver, Unavailable) and bool(driver.blocked)
    visible = visible_gpus(devices, gpus)
    for gpu in gpus.gpus:
        if gpu.lost and taken_away:
            continue  # the container's doing: DC314
        if not gpu.lost and gpu not in visible:
            continue
        grave = list(_grave_errors(gpu))
        history = list(_past_errors(gpu))
        if not grave and not history:
            continue
        name = f"GPU {gpu.index}" + (f" ({gpu.name}, {gpu.pci})" if gpu.name else "")
        yield rules.DC309.found(
            f"{name} reports {' and '.join(grave)}" if grave else f"{name} has a history: {' and '.join(history)}",
            severity=_severity(launch, hurts) if grave else Severity.INFO,
            where=Where(gpu=str(gpu.index)),
            evidence={
                "lost": gpu.lost,
                "uncorrected_since_boot": gpu.ecc_uncorrected_volatile,
                "uncorrected_ever": gpu.ecc_uncorrected_lifetime,
                "remapped_rows": gpu.remapped_rows,
                "remap_pending": gpu.remap_pending,
                "remap_failed": gpu.remap_failed,
                "retired_pages_pending": gpu.retired_pages_pending,
                "errors": list(gpu.errors),
            },
            fix=_repair(gpu)
            if grave
            else Fix("nothing now; check again if the numbers grow", by="admin", where="host"),
        )


@probe(rules.DC310)
def gpus_run_at_speed(
    launch: Launch, devices: Devices, gpus: Gpus, software: Software | Unavailable
) -> Iterator[Finding]:
    """No GPU is slowed down by heat or by its power supply."""
    alike: dict[tuple[str, ...], list[Gpu]] = {}
    for gpu in visible_gpus(devices, gpus):
        reasons = [word for word in gpu.throttle if word in THROTTLES]
        # the general state of the hardware adds nothing to a specific one
        named = [word for word in reasons if word != "hw-slowdown"] or reasons
        if named:
            alike.setdefault(tuple(named), []).append(gpu)
    for reason, group in alike.items():
        where = rank_ranges(gpu.index for gpu in group)
        degrees = {str(gpu.index): gpu.temperature_c for gpu in group if gpu.temperature_c is not None}
        hottest = f" at {'up to ' if len(degrees) > 1 else ''}{max(degrees.values())} °C" if degrees else ""
        yield rules.DC310.found(
            f"GPU {where} {'is' if len(group) == 1 else 'are'} slowed down{hottest} by "
            f"{' and '.join(THROTTLES[word] for word in reason)}",
            severity=_severity(launch, runs_on_gpus(launch, gpus, software)),
            where=Where(gpu=where),
            evidence={"reasons": list(reason), "temperature_c": degrees},
            fix=Fix(
                "have an administrator check cooling and power supply (fans, air flow, cables). Until then use "
                "another host: in a collective all ranks wait for the slowest",
                by="admin",
                where="host",
            ),
        )


@probe(rules.DC311)
def driver_stays_loaded(devices: Devices, gpus: Gpus, platform: Platform) -> Iterator[Finding]:
    """Report a driver that does not keep unused GPUs initialized."""
    if platform.container is not None or platform.wsl or platform.system != "linux":
        return
    cards = visible_gpus(devices, gpus)
    off = [gpu.index for gpu in cards if gpu.persistence_mode is False]
    # one GPU is a desktop, whose display keeps the driver loaded
    if len(cards) < 2 or not off:
        return
    yield rules.DC311.found(
        f"persistence mode is off for GPU {rank_ranges(off)}: each job initializes it again, which takes seconds",
        where=Where(gpu=rank_ranges(off)),
        evidence={"gpus": off},
        fix=Fix(
            "have an administrator enable the daemon: systemctl enable --now nvidia-persistenced",
            by="admin",
            where="host",
        ),
    )


@probe(rules.DC312)
def fabric_is_ready(
    launch: Launch, gpus: Gpus, devices: Devices, driver: Driver | Unavailable, software: Software | Unavailable
) -> Iterator[Finding]:
    """On NVSwitch machines the fabric manager has registered each GPU."""
    if gpus.vendor != "nvidia":
        return
    cards = [gpu for gpu in visible_gpus(devices, gpus) if not gpu.lost]
    switches = 0 if isinstance(driver, Unavailable) else driver.nvswitches
    if cards and all(gpu.fabric_state is None for gpu in cards):
        raise Unavailable("this driver's NVML does not report the state of the NVLink fabric")
    if cards and switches and all(gpu.fabric_state in (None, "not-supported") for gpu in cards):
        raise Unavailable("NVML reports the state of the NVLink fabric only from the Hopper generation on")
    waiting = [gpu for gpu in cards if gpu.fabric_state in ("not-started", "in-progress")]
    failed = [gpu for gpu in cards if gpu.fabric_state == "completed" and gpu.fabric_status]
    for group, what in ((waiting, "not yet registered"), (failed, "refused")):
        if not group:
            continue
        where = rank_ranges(gpu.index for gpu in group)
        states = sorted({gpu.fabric_state or "" for gpu in group})
        yield rules.DC312.found(
            f"NVSwitch's fabric manager has {what} GPU {where} (state {', '.join(states)})",
            # a single GPU of such a machine, given to a VM or a pod, works without the fabric
            severity=_severity(launch, len(cards) > 1 and runs_on_gpus(launch, gpus, software)),
            where=Where(gpu=where),
            evidence={
                "states": {str(gpu.index): gpu.fabric_state for gpu in group},
                "status": {str(gpu.index): gpu.fabric_status for gpu in group},
                "driver": gpus.driver_version,
                "nvswitches": switches,
            },
            fix=shared_fixes.start_fabric_manager(gpus.driver_version or "see nvidia-smi"),
        )


# between the GPUs


@probe(rules.DC336)
def gpus_reach_each_other(
    launch: Launch, settings: Settings, devices: Devices, gpus: Gpus, paths: PeerPaths, platform: Platform
) -> Iterator[Finding]:
    """Nothing stands between the GPUs of this host that lack NVLink."""
    cards = [gpu for gpu in visible_gpus(devices, gpus) if not gpu.nvlinks_active and not gpu.lost]
    if len(cards) < 2 or platform.virtual_machine or platform.wsl or (launch.launched and (launch.ranks_here or 2) < 2):
        return
    kinds = dict(paths.groups)
    translated = [gpu for gpu in cards if kinds.get(gpu.pci, "").startswith("DMA")]
    if len(translated) > 1:
        where = rank_ranges(gpu.index for gpu in translated)
        yield rules.DC336.found(
            f"GPU {where} have no NVLink, and the IOMMU translates their traffic over PCIe: on some machines "
            "collectives are then slow, hang or give wrong data",
            where=Where(gpu=where),
            evidence={"iommu": {gpu.pci: kinds[gpu.pci] for gpu in translated}},
            fix=shared_fixes.NO_IOMMU,
        )
    bare = [gpu for gpu in cards if re.search(r"GeForce RTX [45]0\d\d", gpu.name)]
    if len(bare) > 1 and launch.launched and settings.get("NCCL_P2P_DISABLE") is None:
        where = rank_ranges(gpu.index for gpu in bare)
        yield rules.DC336.found(
            f"GPU {where} ({bare[0].name}) have no peer-to-peer access: NCCL takes the way through shared memory",
            where=Where(gpu=where),
            evidence={"gpus": [gpu.name for gpu in bare]},
            fix=Fix(
                "nothing, unless a framework refuses to start (its message names the variables for these cards). "
                "If the first collective hangs, a newer driver helps",
                where="job-script",
            ),
        )


@probe(rules.DC337)
def wsl_can_run_it(
    launch: Launch, gpus: Gpus, platform: Platform, software: Software | Unavailable
) -> Iterator[Finding]:
    """Windows' Linux subsystem lacks what NCCL uses between GPUs and hosts."""
    ranks = launch.ranks_here or (2 if launch.several_nodes else 1)
    if (
        platform.wsl is None
        or not gpus.gpus
        or not launch.launched
        or ranks < 2
        or not runs_on_gpus(launch, gpus, software)
    ):
        return
    yield rules.DC337.found(
        "under WSL the GPUs have no peer-to-peer access and no RDMA, NVML reports less, and NCCL fails on some drivers",
        evidence={"wsl": platform.wsl, "driver": gpus.driver_version, "gpus": len(gpus.gpus)},
        fix=shared_fixes.NEWER_WSL,
    )


# what the probes have in common


class _Holding(NamedTuple):
    """A process on a GPU."""

    gpu: Gpu
    process: GpuProcess


def _severity(launch: Launch, hurts: bool) -> Severity | None:
    """The rule's own severity where a launch is hurt."""
    return None if launch.launched and hurts else Severity.INFO


def _listed(holders: dict[int, list[_Holding]]) -> str:
    """``process 4711 of alice (71.2 GiB on GPU 0, since 2026-11-20 14:03 UTC)``, the largest first, at most four."""
    ordered = sorted(holders.items(), key=lambda item: -sum(part.process.memory_bytes or 0 for part in item[1]))
    texts = []
    for pid, parts in ordered[:4]:
        process = parts[0].process
        size = sum(part.process.memory_bytes or 0 for part in parts)
        user = f" of {process.user}" if process.user else ""
        since = ""
        if process.started_at is not None:
            since = f", since {time.strftime('%Y-%m-%d %H:%M', time.gmtime(process.started_at))} UTC"
        amount = f"{size / GIB:.1f} GiB on " if size else ""
        texts.append(f"process {pid}{user} ({amount}GPU {rank_ranges(part.gpu.index for part in parts)}{since})")
    more = f" and {len(ordered) - 4} more" if len(ordered) > 4 else ""
    return ", ".join(texts) + more


def _gpu_numbers(holders: dict[int, list[_Holding]]) -> str:
    return rank_ranges(part.gpu.index for parts in holders.values() for part in parts)


def _evidence(holders: dict[int, list[_Holding]]) -> dict[str, object]:
    return {
        "processes": [
            {
                "pid": pid,
                "user": parts[0].process.user,
                "command": parts[0].process.command,
                "started_at_s": parts[0].process.started_at,
                "memory_bytes": sum(part.process.memory_bytes or 0 for part in parts) or None,
                "gpus": [part.gpu.index for part in parts],
            }
            for pid, parts in holders.items()
        ]
    }


def _grave_errors(gpu: Gpu) -> Iterator[str]:
    """What makes a job on this GPU fail, or did since the driver was loaded."""
    if gpu.lost:
        yield "that it is lost" + (f" ({'; '.join(gpu.errors)})" if gpu.errors else "")
    if gpu.remap_failed:
        yield "a row of its memory that could not be replaced"
    if gpu.remap_pending:
        yield "a row of its memory that waits for a reset to be replaced"
    if gpu.retired_pages_pending:
        yield "pages of its memory that wait for a reset to be retired"
    if gpu.ecc_uncorrected_volatile:
        yield f"{gpu.ecc_uncorrected_volatile} uncorrected memory errors since the driver was loaded"


def _past_errors(gpu: Gpu) -> Iterator[str]:
    if gpu.ecc_uncorrected_lifetime:
        yield f"{gpu.ecc_uncorrected_lifetime} uncorrected memory errors in its life"
    if gpu.remapped_rows:
        yield f"{gpu.remapped_rows} rows of its memory replaced"


def _repair(gpu: Gpu) -> Fix:
    if gpu.lost:
        text = "reboot the host. If it happens again, reseat or replace the card (search the kernel's log for 'Xid 79')"
    elif gpu.remap_failed:
        text = "take the host out of service and have the card replaced"
    else:
        tool = "amd-smi reset -G -g" if gpu.architecture.startswith("gfx") else "nvidia-smi -r -i"
        text = f"drain the host and reset the card when nothing uses it ({tool} {gpu.index}), or reboot"
    return Fix(f"use another host; have an administrator {text}", by="admin", where="host")


def _has_code(architecture: str, built: Iterable[str]) -> bool:
    """Whether one of torch's architectures runs on a GPU.

    Machine code of ``sm_80`` runs on 8.x from 8.0 on, ``compute_80`` on all from 8.0 on; ``sm_90a`` on 9.0 only, and
    ``sm_100f`` on its family, 10.x from 10.0 on (CUDA C++ programming guide 13, compute capabilities).
    """
    if architecture.startswith("gfx"):
        kinds = {name.partition(":")[0] for name in built}
        # a generic target (gfx11-generic) covers its generation, or a part of it that its name does not show
        return architecture in kinds or any(
            name.endswith("-generic") and architecture.startswith(name.removesuffix("-generic").split("-")[0])
            for name in kinds
        )
    here = version_numbers(architecture)
    for name in built:
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
        if found is None:
            continue
        made = (int(found[2]), int(found[3]))
        if made == here:
            return True
        if found[4] == "a":
            continue
        if found[1] == "compute" and not found[4] and made <= here:
            return True
        if made[0] == here[0] and made <= here:
            return True
    return False


def _shown(architecture: str) -> str:
    return architecture if architecture.startswith("gfx") else f"compute capability {architecture}"
