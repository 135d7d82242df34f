"""Clouds' own networks, which NCCL reaches through plug-ins: EFA of AWS, FasTrak and TCPX of Google, topology files.

The facts are those of ``fabric.py``, where NCCL's own transport is judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.registry import probe
from distcheck.launch.model import Launch
from distcheck.launch.settings import Setting, Settings
from distcheck.rules import shared_fixes

from ._network_fixes import change, leave_out, let_rdma_in, listed, written
from .fabric import Fabric, between_nodes
from .gpus import Gpus
from .interfaces import Interfaces
from .nccl_interfaces import uses_nccl
from .platform import Platform

#: What Google's plug-ins need together; their own scripts and examples always set both.
GOOGLE_PLUGINS = {
    "FasTrak": ("NCCL_FASTRAK_CTRL_DEV", "NCCL_FASTRAK_IFNAME"),
    "GPUDirect-TCPX": ("NCCL_GPUDIRECTTCPX_CTRL_DEV", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"),
}
#: Other variables that show that a plug-in of Google's is meant.
GOOGLE_SIGNS = {
    "FasTrak": (
        "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY",
        "NCCL_FASTRAK_USE_LLCM",
        "NCCL_FASTRAK_USE_SNAP",
        "NCCL_FASTRAK_NUM_FLOWS",
        "NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL",
    ),
    "GPUDirect-TCPX": (
        "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX",
        "NCCL_GPUDIRECTTCPX_TX_BINDINGS",
        "NCCL_GPUDIRECTTCPX_RX_BINDINGS",
    ),
}
#: Networks of NCCL's own, which no plug-in brings.
BUILT_IN_NETWORKS = ("ib", "socket")


@probe(rules.DC417)
def efa_can_be_used(
    launch: Launch, settings: Settings, fabric: Fabric, gpus: Gpus | Unavailable, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """On an AWS instance with EFA, NCCL finds its plug-in, libfabric and the device."""
    ports = [port for port in fabric.ports if port.efa and port.state == "ACTIVE"]
    if not ports or not between_nodes(launch, gpus):
        return
    evidence = {
        "efa_ports": [port.name for port in ports],
        "net_plugins": list(fabric.net_plugins),
        "other_plugins": list(fabric.other_plugins),
        "libfabric": fabric.libfabric,
        "verbs_usable": fabric.verbs_usable,
    }
    here = f"EFA ({listed(port.device for port in ports)})"
    setting = _efa_switched_off(settings)
    if setting is not None:
        yield rules.DC417.found(
            f"{written(setting)} keeps NCCL from {here}",
            severity=Severity.WARNING if setting.by_user else Severity.INFO,
            where=Where(variable=setting.name),
            evidence={**evidence, "value": setting.value},
            fix=leave_out(setting, "NCCL_DEBUG=INFO shows 'Selected Provider is efa' where EFA is used"),
        )
        return
    if fabric.verbs_usable is False:
        yield rules.DC417.found(
            f"this process can't open /dev/infiniband/uverbs*, so NCCL can't use {here}",
            where=Where(object="/dev/infiniband"),
            evidence=evidence,
            fix=let_rdma_in(platform),
        )
    if not fabric.net_plugins and settings.get("NCCL_NET_PLUGIN"):
        return  # a name that leads nowhere is DC334
    if not fabric.net_plugins:
        yield rules.DC417.found(
            f"the loader finds no network plug-in of NCCL, so NCCL can't use {here}",
            where=Where(object="libnccl-net.so"),
            evidence=evidence,
            fix=_find_plug_in(settings, fabric),
        )
    elif fabric.libfabric is None:
        yield rules.DC417.found(
            f"the loader finds no libfabric.so.1, which the plug-in for {here} needs",
            where=Where(object="libfabric.so.1"),
            evidence=evidence,
            fix=Fix(
                "install the EFA bundle into the image, and put /opt/amazon/efa/lib on LD_LIBRARY_PATH",
                where="job-script",
            ),
        )


@probe(rules.DC418)
def google_plug_in_is_complete(
    launch: Launch,
    settings: Settings,
    fabric: Fabric,
    gpus: Gpus | Unavailable,
    platform: Platform | Unavailable,
    interfaces: Interfaces | Unavailable,
) -> Iterator[Finding]:
    """On Google's machines, a plug-in that is requested has all its variables, its interfaces and its library."""
    if not between_nodes(launch, gpus) or isinstance(platform, Unavailable) or "Google" not in platform.product:
        return
    for plug_in, required in GOOGLE_PLUGINS.items():
        requested = (settings.get("NCCL_NET") or "").lower() == plug_in.lower()
        if not requested and not any(settings.get(name) for name in (*required, *GOOGLE_SIGNS[plug_in])):
            continue
        missing = [name for name in required if not settings.get(name)]
        absent = _absent_interfaces(settings, required, interfaces)
        problems = [f"{name} is not set" for name in missing]
        problems += [f"{name} names {listed(names)}, which this host does not have" for name, names in absent.items()]
        if not fabric.net_plugins:
            problems.append("the loader finds no network plug-in of NCCL")
        if not problems:
            continue
        yield rules.DC418.found(
            f"{plug_in} is half configured: {'; '.join(problems)}",
            where=Where(object=plug_in),
            evidence={
                "missing": missing,
                "absent_interfaces": absent,
                "net_plugins": list(fabric.net_plugins),
                "other_plugins": list(fabric.other_plugins),
            },
            fix=shared_fixes.SOURCE_THE_PLUG_IN,
        )


@probe(rules.DC418)
def topology_file_is_there(
    launch: Launch, settings: Settings, fabric: Fabric, gpus: Gpus | Unavailable
) -> Iterator[Finding]:
    """Report a file of NCCL_TOPO_FILE that does not exist: NCCL continues without it, and only its log shows that."""
    named = settings.of("NCCL_TOPO_FILE")
    if named is None or fabric.topology_file_found is not False or not launch.launched or not uses_nccl(launch, gpus):
        return
    yield rules.DC418.found(
        f"{written(named)} does not exist; NCCL uses the topology that it detects, which in a virtual machine "
        "rarely shows which NIC is close to which GPU",
        where=Where(variable="NCCL_TOPO_FILE"),
        evidence={"value": named.value, "found": False},
        fix=shared_fixes.MOUNT_THE_TOPOLOGY,
    )


def _efa_switched_off(settings: Settings) -> Setting | None:
    """The setting that keeps NCCL from EFA; None without one."""
    if (settings.get("NCCL_NET") or "").lower() in BUILT_IN_NETWORKS:
        return settings.of("NCCL_NET")
    if settings.get("NCCL_NET_PLUGIN") == "none":
        return settings.of("NCCL_NET_PLUGIN")
    providers = settings.get("FI_PROVIDER") or ""
    excluded = providers.startswith("^")
    if providers and ("efa" in providers.lstrip("^").split(",")) is excluded:
        return settings.of("FI_PROVIDER")
    return None


def _absent_interfaces(
    settings: Settings, names: tuple[str, ...], interfaces: Interfaces | Unavailable
) -> dict[str, list[str]]:
    """Interfaces that a plug-in's variables name and this host does not have."""
    if isinstance(interfaces, Unavailable):
        return {}
    found = {}
    for name in names:
        absent = [part for part in (settings.get(name) or "").split(",") if part and interfaces.named(part) is None]
        if absent:
            found[name] = absent
    return found


def _find_plug_in(settings: Settings, fabric: Fabric) -> Fix:
    """Put a plug-in that is installed elsewhere on the loader's path, or install it."""
    folder = next((path.rpartition("/")[0] for path in fabric.other_plugins), None)
    if folder is None:
        return Fix("install aws-ofi-nccl into the image (the EFA installer brings it)", where="job-script")
    return change(
        settings.of("LD_LIBRARY_PATH"),
        f"the plug-in is in {folder}: put this folder on LD_LIBRARY_PATH",
        f'export LD_LIBRARY_PATH={folder}:"$LD_LIBRARY_PATH"',
    )
