"""What kind of machine this is: operating system, container, virtual machine, cloud product.

Other packages read it before they judge, because a healthy container differs from a healthy host. It judges nothing:
there is no rule about a platform as such, and schedulers are the matter of ``launch``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from distcheck.core.registry import fact
from distcheck.core.world import World

#: The flags of the first CPU stand in the first 2 KiB of /proc/cpuinfo (x86, Linux 6.18); a big host's whole file
#: takes milliseconds to read, since the kernel queries every CPU for its frequency.
CPU_INFO_BYTES = 4096
#: Mount points that a host does not have, or whose line shows what made them: the root itself, and the files that
#: engines mount over an image's own.
OWN_MOUNT_POINTS = frozenset({"/", "/.lock", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/proc/cpuinfo"})
#: Marks of an engine in those lines of /proc/self/mountinfo. Podman and CRI-O keep layers below ``containers/storage``,
#: Docker, BuildKit and nerdctl below their own names; Enroot mounts its lock at ``/.lock`` (3.0, ``runtime.sh``).
MOUNT_MARKS = (
    ("/kubelet/pods/", "kubernetes"),
    (" /.lock ", "enroot"),
    ("/containers/storage/overlay", "podman"),
    ("/docker/", "docker"),
    ("io.containerd.snapshotter", "docker"),
    ("/buildkit/", "docker"),
    (" lxcfs ", "lxc"),
)
#: The same in the paths of /proc/self/cgroup: systemd's and cgroupfs' forms of each engine.
CGROUP_MARKS = (
    ("kubepods", "kubernetes"),
    ("/docker/", "docker"),
    ("/docker-", "docker"),
    ("/libpod", "podman"),
    ("/lxc/", "lxc"),
    ("/lxc.payload", "lxc"),
)
#: What an engine passes to the first process of a container in ``container=`` (systemd's container interface).
NAMED_ENGINES = {"docker": "docker", "podman": "podman", "oci": "podman", "lxc": "lxc", "lxc-libvirt": "lxc"}
#: DMI vendors of virtual machines, for CPUs whose flags do not show it (Arm), as in systemd-detect-virt 252.
VIRTUAL_VENDORS = ("QEMU", "KVM", "VMware", "Xen", "innotek GmbH", "Amazon EC2", "Google", "OpenStack", "Bochs")


class Platform(NamedTuple):
    """The machine that this process is on."""

    #: ``linux``, ``darwin`` or ``win32``
    system: str
    kernel: str = ""
    #: ``docker``, ``podman``, ``kubernetes``, ``singularity``, ``enroot``, ``lxc``; None outside a container
    container: str | None = None
    #: 1 or 2 under Windows' Linux subsystem
    wsl: int | None = None
    #: product name from DMI, as clouds write it (``p5.48xlarge``, ``Google Compute Engine``); empty where unknown
    product: str = ""
    #: a hypervisor is underneath
    virtual_machine: bool = False
    user_id: int = -1
    cpus: int = 1
    #: vendor of the machine from DMI (``Amazon EC2``, ``Supermicro``); empty where unknown
    vendor: str = ""


@fact()
def read_platform(world: World) -> Platform:
    """From /proc, /sys/class/dmi and the marks that container engines leave."""
    if world.platform != "linux":
        return Platform(world.platform, user_id=world.user_id, cpus=world.cpu_count())
    version = world.text_or_empty("/proc/version")
    vendor = world.text_or_empty("/sys/class/dmi/id/sys_vendor").strip()
    return Platform(
        "linux",
        kernel=_kernel_release(version),
        container=_container(world),
        wsl=_wsl(world, version),
        product=world.text_or_empty("/sys/class/dmi/id/product_name").strip(),
        virtual_machine=_virtual_machine(world, vendor),
        user_id=world.user_id,
        cpus=world.cpu_count(),
        vendor=vendor,
    )


def _kernel_release(version: str) -> str:
    """``6.8.0-45-generic`` from the line of /proc/version."""
    match = re.match(r"Linux version (\S+)", version)
    return match[1] if match else ""


def _container(world: World) -> str | None:
    """The engine of the innermost container: one that runs inside another's pod or job comes first."""
    if world.exists("/.singularity.d"):
        return "singularity"
    # a host that runs containers shows their mounts as well, but none at these paths
    lines = world.text_or_empty("/proc/self/mountinfo").splitlines()
    mounts = "\n".join(line for line in lines if _mount_point(line) in OWN_MOUNT_POINTS)
    if world.exists("/.enroot") or " /.lock " in mounts:
        return "enroot"
    groups = world.text_or_empty("/proc/self/cgroup")
    # the kubelet gives this variable to every container of every pod
    if world.environ.get("KUBERNETES_SERVICE_HOST") or "kubepods" in groups:
        return "kubernetes"
    if world.exists("/var/run/secrets/kubernetes.io") or "/kubelet/pods/" in mounts:
        return "kubernetes"
    if world.exists("/run/.containerenv"):
        return "podman"
    if world.exists("/.dockerenv"):
        return "docker"
    named = world.environ.get("container") or world.text_or_empty("/run/systemd/container").strip()
    if named in NAMED_ENGINES:
        return NAMED_ENGINES[named]
    for marks, text in ((CGROUP_MARKS, groups), (MOUNT_MARKS, mounts)):
        for mark, engine in marks:
            if mark in text:
                return engine
    return None


def _mount_point(line: str) -> str:
    """The fifth field of a line of mountinfo (proc(5)); empty where the line is too short."""
    fields = line.split(" ", 5)
    return fields[4] if len(fields) == 6 else ""


def _wsl(world: World, version: str) -> int | None:
    """Return 1 or 2 under Windows' Linux subsystem: the first has no kernel and reports 4.4.0, the second has one."""
    release = _kernel_release(version).lower()
    interop = world.exists("/proc/sys/fs/binfmt_misc/WSLInterop") or world.environ.get("WSL_INTEROP")
    if "microsoft" not in release and not interop:
        return None
    return 1 if release.startswith("4.4.0-") else 2


def _virtual_machine(world: World, vendor: str) -> bool:
    if world.exists("/sys/hypervisor/type"):
        return True
    for line in world.text_or_empty("/proc/cpuinfo", CPU_INFO_BYTES).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return "hypervisor" in value.split()
    return vendor.startswith(VIRTUAL_VENDORS)
