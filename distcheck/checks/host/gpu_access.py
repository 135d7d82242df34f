"""Whether torch in this process can use a GPU: a GPU is usable, none is there, or it is not known.

Which GPU a rank takes is another question: it needs LOCAL_RANK and the order of the devices, this one does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from distcheck.core.model import Unavailable
from distcheck.core.world import NO_NVML

from .devices import Devices, hides_all
from .gpus import AMD_UNREAD, Driver, Gpu, Gpus
from .software import Software

#: GPUs for training of AMD (Instinct MI100 to MI355X). Graphics inside a processor are AMD GPUs as well.
INSTINCT = frozenset({"gfx908", "gfx90a", "gfx942", "gfx950"})


class GpuState(str, Enum):
    """Whether torch in this process can use a GPU."""

    UNREAD = ""
    #: at least one GPU can be used
    USABLE = "usable"
    #: it is known that there is no GPU: no driver library, no device node
    ABSENT = "absent"
    #: a mask such as ``CUDA_VISIBLE_DEVICES=""`` hides all GPUs
    HIDDEN = "hidden"
    #: there are GPUs, and this build of torch has no code for them
    OTHER_BUILD = "other-build"
    #: there is a driver, a device node or a GPU, and no GPU can be read or used
    UNUSABLE = "unusable"


class GpuAccess(NamedTuple):
    """What torch in this process has of the host's GPUs."""

    state: GpuState = GpuState.UNREAD
    #: what shows it, one clause: ``8 × NVIDIA H100 80GB HBM3``, or NVML's error
    seen: str = ""
    #: one of these GPUs is made for training: every GPU of NVIDIA, Instinct of AMD
    training: bool = False


def gpu_access(
    gpus: Gpus | Unavailable,
    devices: Devices | Unavailable,
    driver: Driver | Unavailable,
    software: Software | Unavailable,
) -> GpuAccess:
    """Return what torch in this process has of the host's GPUs; reads nothing."""
    built_for = _vendors(software)
    listed = gpus.gpus if isinstance(gpus, Gpus) else ()
    fits = isinstance(gpus, Gpus) and gpus.vendor in built_for
    if fits and isinstance(devices, Devices) and devices.visible:
        return GpuAccess(GpuState.USABLE, describe_gpus(listed), _for_training(listed))
    signs = tuple(_signs(gpus, driver, built_for))
    if signs or (fits and listed):
        masks = devices.masks if isinstance(devices, Devices) else ()
        shown = ", ".join(f"{name}={value!r}" for name, value in masks)
        if any(hides_all(value) for _, value in masks):
            return GpuAccess(GpuState.HIDDEN, shown, _for_training(listed))
        lost = sum(gpu.lost for gpu in listed)
        seen = "; ".join(filter(None, (*signs, shown, f"{lost} GPUs lost" if lost else "")))
        return GpuAccess(GpuState.UNUSABLE, seen or describe_gpus(listed), _for_training(listed))
    if listed:
        return GpuAccess(GpuState.OTHER_BUILD, describe_gpus(listed), _for_training(listed))
    if not built_for and isinstance(driver, Driver) and driver.nodes:
        return GpuAccess(GpuState.OTHER_BUILD, ", ".join(driver.nodes), True)
    return GpuAccess(GpuState.ABSENT)


def describe_gpus(gpus: tuple[Gpu, ...]) -> str:
    """Return the kinds of some GPUs with their numbers: ``4 × NVIDIA A100-PCIE-40GB, 1 × NVIDIA T400``."""
    return count_names(gpu.name for gpu in gpus)


def count_names(names: Iterable[str]) -> str:
    """Return names with how often each comes: ``8 × NVIDIA H100``; "" counts as a GPU of an unknown kind."""
    return ", ".join(f"{number} × {name or 'unknown GPU'}" for name, number in Counter(names).most_common())


def _vendors(software: Software | Unavailable) -> frozenset[str]:
    """Return the vendors for whose GPUs torch may be built; both where its files do not show one."""
    if isinstance(software, Unavailable) or software.torch_path is None:
        return frozenset({"nvidia", "amd"})
    return frozenset({vendor for vendor, version in (("nvidia", software.cuda), ("amd", software.hip)) if version})


def _for_training(gpus: tuple[Gpu, ...]) -> bool:
    return any(not gpu.architecture.startswith("gfx") or gpu.architecture in INSTINCT for gpu in gpus)


def _signs(gpus: Gpus | Unavailable, driver: Driver | Unavailable, vendors: frozenset[str]) -> Iterator[str]:
    """What shows a GPU or its driver where no usable GPU was listed.

    A loaded kernel module and /dev/dxg are none: containers without GPUs and WSL without a driver have them as well.
    """
    known = Driver() if isinstance(driver, Unavailable) else driver
    vendor = gpus.vendor if isinstance(gpus, Gpus) else ""
    nodes: list[str] = []
    if "nvidia" in vendors:
        if isinstance(gpus, Unavailable) and NO_NVML not in gpus.why:
            yield gpus.why
        elif isinstance(gpus, Gpus) and vendor == "nvidia" and not gpus.gpus:
            yield "NVML lists no GPU for this process"
        elif vendor != "nvidia" and known.library_version is not None:
            yield "the library libnvidia-ml exists, and NVML did not answer"
        nodes += [node for node in (*known.nodes, *known.shared_nodes) if "nvidia" in node]
    if "amd" in vendors and isinstance(gpus, Unavailable) and AMD_UNREAD in gpus.why:
        yield gpus.why.partition(AMD_UNREAD)[2]
    elif "amd" in vendors and vendor != "amd":
        nodes += [node for node in known.shared_nodes if "nvidia" not in node]
    if nodes:
        yield f"{', '.join(nodes)} exist{'s' * (len(nodes) == 1)}"
