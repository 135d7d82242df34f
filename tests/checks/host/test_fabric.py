"""RDMA ports, GPUDirect and the NVLink fabric between hosts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.fabric import (
    Fabric,
    Gid,
    RdmaPort,
    active_ports_are_used,
    gpu_memory_is_reached_directly,
    nvlink_fabric_is_ready,
    read_fabric,
    roce_gid_can_be_used,
    wanted_ports_are_up,
)
from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import Library, Software
from distcheck.core.model import Severity, Unavailable
from distcheck.launch.model import Launch
from distcheck.launch.settings import COMMAND, Setting, Settings
from tests.recorded import recorded_world

GPUS = Gpus(
    "nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", architecture="9.0") for index in range(8))
)
NO_GPU = Unavailable("no driver")
SHELL = Launch()
ONE_NODE = Launch("planned", nnodes=1, nproc=8)
TWO_NODES = Launch("planned", nnodes=2, nproc=8)
HOST = Platform("linux")
NO_SOFTWARE = Unavailable("not looked at")
VERBS = "/usr/lib/libibverbs.so.1"


def settings(**variables: str) -> Settings:
    return Settings(tuple(Setting(name, value) for name, value in sorted(variables.items())))


def infiniband(number: int, state: str = "ACTIVE", **more: Any) -> RdmaPort:
    link = "LinkUp" if state == "ACTIVE" else "Polling"
    made = RdmaPort(
        f"mlx5_{number}", 1, state, link, "InfiniBand", 400.0, pci=f"0000:{number:02x}:00.0", card_type="MT4129"
    )
    return made._replace(**more)


LINK_LOCAL_V1 = Gid(0, "fe80:0000:0000:0000:0c42:a103:0065:de04", "IB/RoCE v1", "eth2")
LINK_LOCAL_V2 = LINK_LOCAL_V1._replace(index=1, type="RoCE v2")
IPV4_V1 = Gid(2, "0000:0000:0000:0000:0000:ffff:0a00:0005", "IB/RoCE v1", "eth2")
IPV4_V2 = IPV4_V1._replace(index=3, type="RoCE v2")
TABLE = (LINK_LOCAL_V1, LINK_LOCAL_V2, IPV4_V1, IPV4_V2)


def roce(number: int, gids: tuple[Gid, ...] = TABLE, **more: Any) -> RdmaPort:
    return infiniband(number)._replace(link_layer="Ethernet", gids=gids, interfaces=(f"eth{number}",), **more)


def fabric(ports: Iterable[RdmaPort], **more: Any) -> Fabric:
    return Fabric(
        tuple(ports),
        **{
            "verbs_usable": True,
            "libibverbs": VERBS,
            "peer_memory_module": "nvidia_peermem",
            "imex_channels": 0,
            **more,
        },
    )


EIGHT = tuple(infiniband(number) for number in range(8))
EIGHT_ROCE = tuple(roce(number) for number in range(8))
DUAL = (infiniband(8), infiniband(9, "DOWN", pci="0000:08:00.1"))
STORAGE = (roce(10, card_type="MT4127"), roce(11, card_type="MT4127", pci="0000:0a:00.1"))
EFA = infiniband(0, device="rdmap16s27", link_layer="Unknown", efa=True)


# DC413


@pytest.mark.parametrize(
    ("ports", "variables", "more", "words"),
    [
        pytest.param(EIGHT, {"NCCL_IB_HCA": "mlx4"}, {}, "matches no ACTIVE port", id="filter matches nothing"),
        pytest.param(EIGHT, {"NCCL_IB_HCA": "=mlx5"}, {}, "matches no ACTIVE port", id="exact filter with a prefix"),
        pytest.param(EIGHT, {"NCCL_IB_HCA": "mlx5_0:2"}, {}, "matches no ACTIVE port", id="filter with another port"),
        pytest.param(EIGHT, {}, {"libibverbs": None}, "libibverbs", id="no library"),
        pytest.param(EIGHT, {}, {"verbs_usable": False}, "/dev/infiniband", id="device not in the container"),
        pytest.param((*EIGHT_ROCE, *STORAGE), {"NCCL_IB_HCA": "mlx4"}, {}, "matches no ACTIVE port", id="RoCE"),
    ],
)
def test_bad_active_ports_unused(
    ports: tuple[RdmaPort, ...], variables: dict[str, str], more: dict[str, Any], words: str
) -> None:
    (finding,) = active_ports_are_used(TWO_NODES, settings(**variables), fabric(ports, **more), GPUS, HOST)
    assert (finding.code, finding.severity) == ("DC413", Severity.WARNING)
    assert words in finding.message
    for launch in (SHELL, ONE_NODE, TWO_NODES._replace(backend="gloo")):
        assert list(active_ports_are_used(launch, settings(**variables), fabric(ports, **more), GPUS, HOST)) == []


@pytest.mark.parametrize(
    ("ports", "variables", "more"),
    [
        pytest.param(EIGHT, {}, {}, id="all in use"),
        pytest.param(EIGHT, {"NCCL_IB_DISABLE": "0"}, {}, id="not switched off"),
        pytest.param(EIGHT, {"NCCL_IB_DISABLE": "1"}, {"libibverbs": None}, id="switched off, which DC114 says"),
        pytest.param(EIGHT, {"NCCL_NET": "socket"}, {}, id="sockets asked for, which DC114 says"),
        pytest.param(EIGHT, {"NCCL_IB_DISABLE": "true"}, {}, id="NCCL reads a word as 0"),
        pytest.param(EIGHT, {"NCCL_IB_HCA": "mlx5"}, {}, id="prefix"),
        pytest.param(EIGHT, {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}, {}, id="some of them"),
        pytest.param((), {}, {"verbs_usable": None, "libibverbs": None}, id="no device"),
        pytest.param((infiniband(0, "DOWN"),), {}, {"libibverbs": None}, id="port down"),
        pytest.param(
            (roce(0, (LINK_LOCAL_V2,)),), {}, {"libibverbs": None}, id="accelerated card of a virtual machine"
        ),
        pytest.param((roce(0, rate_gbit_per_s=25.0),), {}, {"libibverbs": None}, id="slow Ethernet card"),
        pytest.param((EFA,), {}, {"libibverbs": None}, id="EFA"),
        pytest.param((infiniband(0, device="hfi1_0"),), {}, {"libibverbs": None}, id="Omni-Path"),
    ],
)
def test_good_active_ports(ports: tuple[RdmaPort, ...], variables: dict[str, str], more: dict[str, Any]) -> None:
    assert list(active_ports_are_used(TWO_NODES, settings(**variables), fabric(ports, **more), GPUS, HOST)) == []


def test_good_storage_ports_are_only_mentioned() -> None:
    (finding,) = active_ports_are_used(TWO_NODES, settings(), fabric(STORAGE, libibverbs=None), GPUS, HOST)
    assert (finding.code, finding.severity) == ("DC413", Severity.INFO)


def test_good_filter_that_leaves_ports_out_on_purpose() -> None:
    (finding,) = active_ports_are_used(TWO_NODES, settings(NCCL_IB_HCA="^mlx5"), fabric(EIGHT), GPUS, HOST)
    assert (finding.code, finding.severity) == ("DC413", Severity.INFO)


@pytest.mark.parametrize(
    ("origin", "severity"),
    [
        ("environment", Severity.WARNING),
        (COMMAND, Severity.WARNING),
        ("/etc/nccl.conf:2", Severity.INFO),
        ("~/.nccl.conf:2", Severity.INFO),
    ],
)
def test_what_a_file_sets_is_meant_until_a_measurement_contradicts_it(origin: str, severity: Severity) -> None:
    found = Settings((Setting("NCCL_IB_HCA", "mlx4", origin),))
    (finding,) = active_ports_are_used(TWO_NODES, found, fabric(EIGHT), GPUS, HOST)
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("platform", "verbs", "library"),
    [
        (Platform("linux", container="docker"), "--device=/dev/infiniband", "image"),
        (Platform("linux", container="kubernetes"), "RDMA resource", "image"),
        (HOST, "administrator", "administrator"),
        (Unavailable("no /proc"), "administrator", "administrator"),
    ],
)
def test_the_fix_is_for_this_machine(platform: Platform | Unavailable, verbs: str, library: str) -> None:
    lacking = fabric(EIGHT, verbs_usable=False, libibverbs=None)
    device, loader = active_ports_are_used(TWO_NODES, settings(), lacking, GPUS, platform)
    assert verbs in device.fix.text
    assert library in loader.fix.text


# DC414


@pytest.mark.parametrize(
    ("ports", "variables", "words"),
    [
        pytest.param((*EIGHT[:7], infiniband(7, "DOWN")), {}, "7 of 8", id="one of eight"),
        pytest.param((*EIGHT[:7], infiniband(7, "INIT")), {}, "INIT", id="no subnet manager"),
        pytest.param((infiniband(0, "DOWN"), *STORAGE), {"NCCL_IB_HCA": "mlx5_0:1"}, "NCCL_IB_HCA", id="named"),
        pytest.param(
            (infiniband(0, "DOWN"), infiniband(1)), {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}, "NCCL_IB_HCA", id="listed"
        ),
        pytest.param(
            (*EIGHT[:7], infiniband(7, "DOWN"), *DUAL, infiniband(12, "DOWN", card_type="MT41692")),
            {},
            "7 of 8",
            id="DGX",
        ),
    ],
)
def test_bad_port_down(ports: tuple[RdmaPort, ...], variables: dict[str, str], words: str) -> None:
    (finding,) = wanted_ports_are_up(TWO_NODES, settings(**variables), fabric(ports), GPUS)
    assert (finding.code, finding.severity, finding.fix.by) == ("DC414", Severity.WARNING, "admin")
    assert words in finding.message
    (finding,) = wanted_ports_are_up(SHELL, settings(**variables), fabric(ports), GPUS)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("ports", "variables"),
    [
        pytest.param(EIGHT, {}, id="all up"),
        pytest.param((*EIGHT, *DUAL), {}, id="a card with two ports and one cable"),
        pytest.param((*EIGHT, *DUAL), {"NCCL_IB_HCA": "mlx5_9"}, id="the other port of the card is up"),
        pytest.param((*EIGHT, infiniband(8, "DOWN", link_layer="Ethernet")), {}, id="Ethernet port without a cable"),
        pytest.param((*EIGHT, infiniband(8, "DOWN", card_type="MT41692")), {}, id="another kind of card"),
        pytest.param((infiniband(0), infiniband(1, "DOWN")), {}, id="one of two"),
        pytest.param((infiniband(0, "DOWN"),), {"NCCL_IB_HCA": "mlx5"}, id="a mere prefix"),
        pytest.param((infiniband(0, "DOWN"),), {"NCCL_IB_HCA": "^mlx5_0"}, id="left out"),
        pytest.param((infiniband(0, "DOWN"),), {}, id="nothing asks for it"),
        pytest.param(
            (infiniband(8, "DOWN"), infiniband(9, "DOWN", pci="0000:08:00.1"), *EIGHT), {}, id="an unused card"
        ),
        pytest.param(
            (infiniband(0), infiniband(0, "DOWN", port=2)), {"NCCL_IB_HCA": "mlx5_0"}, id="two ports of a device"
        ),
        pytest.param((EFA._replace(state="DOWN"),), {}, id="EFA"),
        pytest.param((), {"NCCL_IB_HCA": "mlx5_0"}, id="no device"),
    ],
)
def test_good_ports(ports: tuple[RdmaPort, ...], variables: dict[str, str]) -> None:
    assert list(wanted_ports_are_up(TWO_NODES, settings(**variables), fabric(ports), GPUS)) == []


def test_good_port_that_was_switched_off() -> None:
    ports = (*EIGHT[:7], infiniband(7, "DOWN", physical_state="Disabled"))
    (finding,) = wanted_ports_are_up(TWO_NODES, settings(), fabric(ports), GPUS)
    assert finding.severity is Severity.INFO


# DC415


@pytest.mark.parametrize(
    ("gids", "index", "words"),
    [
        (TABLE, "0", "GID 0 of mlx5_0:1 is link-local (IB/RoCE v1)"),
        (TABLE, "1", "GID 1 of mlx5_0:1 is link-local (RoCE v2)"),
        (TABLE, "2", "is IB/RoCE v1, which is not routed"),
        (TABLE, "4", "GID 4 of mlx5_0:1 is empty"),
        (TABLE[:2], "3", "GID 3 of mlx5_0:1 is empty"),
    ],
)
def test_bad_gid_index(gids: tuple[Gid, ...], index: str, words: str) -> None:
    ports = tuple(roce(number, gids) for number in range(2))
    (finding,) = roce_gid_can_be_used(TWO_NODES, settings(NCCL_IB_GID_INDEX=index), fabric(ports), GPUS, NO_SOFTWARE)
    assert (finding.code, finding.severity) == ("DC415", Severity.WARNING)
    assert words in finding.message
    assert finding.fix.command == "unset NCCL_IB_GID_INDEX"


@pytest.mark.parametrize(
    ("ports", "index", "nccl"),
    [
        pytest.param(EIGHT_ROCE, "3", None, id="RoCE v2 with an address"),
        pytest.param(EIGHT_ROCE, None, "2.26.2", id="NCCL finds it"),
        pytest.param(EIGHT_ROCE, "-1", "2.26.2", id="-1 is automatic"),
        pytest.param(EIGHT_ROCE, None, None, id="version unknown"),
        pytest.param(EIGHT, "3", "2.26.2", id="InfiniBand"),
        pytest.param((*EIGHT, *STORAGE), "0", "2.26.2", id="InfiniBand beside storage"),
        pytest.param((), "3", "2.26.2", id="no device"),
        pytest.param((roce(0, state="DOWN"),), "0", None, id="port down"),
    ],
)
def test_good_gid_index(ports: tuple[RdmaPort, ...], index: str | None, nccl: str | None) -> None:
    found = settings() if index is None else settings(NCCL_IB_GID_INDEX=index)
    software = Software("3.11.7", nccl_libraries=(Library("/x/libnccl.so.2", "wheel", nccl),))
    assert list(roce_gid_can_be_used(TWO_NODES, found, fabric(ports), GPUS, software)) == []


@pytest.mark.parametrize(
    ("launch", "variables"),
    [
        pytest.param(SHELL, {}, id="no launch"),
        pytest.param(ONE_NODE, {}, id="one node"),
        pytest.param(TWO_NODES, {"NCCL_IB_DISABLE": "1"}, id="RDMA switched off"),
        pytest.param(TWO_NODES, {"NCCL_IB_HCA": "mlx5_9"}, id="port left out"),
    ],
)
def test_good_gid_index_of_no_matter(launch: Launch, variables: dict[str, str]) -> None:
    found = settings(NCCL_IB_GID_INDEX="0", **variables)
    assert list(roce_gid_can_be_used(launch, found, fabric(EIGHT_ROCE), GPUS, NO_SOFTWARE)) == []


def test_old_nccl_takes_the_first_gid() -> None:
    software = Software("3.11.7", nccl_packages=(("nvidia-nccl-cu12", "2.20.5"),))
    (finding,) = roce_gid_can_be_used(TWO_NODES, settings(), fabric(EIGHT_ROCE), GPUS, software)
    assert finding.severity is Severity.INFO
    assert finding.message.startswith("NCCL 2.20.5 takes GID 0")
    assert finding.fix.command == "export NCCL_IB_GID_INDEX=3"
    fixed = settings(NCCL_IB_GID_INDEX="3")
    assert list(roce_gid_can_be_used(TWO_NODES, fixed, fabric(EIGHT_ROCE), GPUS, software)) == []
    bare = fabric(roce(number, TABLE[:2]) for number in range(2))
    (finding,) = roce_gid_can_be_used(TWO_NODES, settings(NCCL_IB_GID_INDEX="0"), bare, GPUS, software)
    assert (finding.fix.by, finding.fix.command) == ("admin", None)


# DC416


def one_gpu(name: str) -> Gpus:
    return Gpus("nvidia", (Gpu(0, "GPU-0", name),))


@pytest.mark.parametrize(
    ("ports", "variables", "dma_buf"),
    [
        pytest.param(EIGHT, {}, False, id="neither module nor dma-buf"),
        pytest.param(EIGHT_ROCE, {}, False, id="RoCE"),
        pytest.param(EIGHT, {"NCCL_DMABUF_ENABLE": "0"}, True, id="dma-buf refused"),
    ],
)
def test_bad_gpudirect(ports: tuple[RdmaPort, ...], variables: dict[str, str], dma_buf: bool) -> None:
    here = fabric(ports, peer_memory_module=None, dma_buf=dma_buf)
    (finding,) = gpu_memory_is_reached_directly(TWO_NODES, settings(**variables), here, GPUS)
    assert (finding.code, finding.severity, finding.fix.by) == ("DC416", Severity.WARNING, "admin")


@pytest.mark.parametrize(
    ("launch", "ports", "module", "dma_buf", "gpus"),
    [
        pytest.param(TWO_NODES, EIGHT, "nvidia_peermem", False, GPUS, id="module"),
        pytest.param(TWO_NODES, EIGHT, None, True, GPUS, id="dma-buf"),
        pytest.param(TWO_NODES, STORAGE, None, False, GPUS, id="storage ports"),
        pytest.param(TWO_NODES, (), None, False, GPUS, id="no device"),
        pytest.param(ONE_NODE, EIGHT, None, False, GPUS, id="one node"),
        pytest.param(SHELL, EIGHT, None, False, GPUS, id="no launch"),
        pytest.param(TWO_NODES, EIGHT, None, False, NO_GPU, id="no GPU"),
        pytest.param(TWO_NODES, EIGHT, None, False, Gpus("amd", GPUS.gpus), id="AMD has its own way"),
        pytest.param(TWO_NODES, EIGHT, None, False, one_gpu("NVIDIA GeForce RTX 4090"), id="GeForce"),
        pytest.param(TWO_NODES, EIGHT, None, False, one_gpu("NVIDIA GB10"), id="shared memory"),
    ],
)
def test_good_gpudirect(
    launch: Launch, ports: tuple[RdmaPort, ...], module: str | None, dma_buf: bool, gpus: Gpus | Unavailable
) -> None:
    here = fabric(ports, peer_memory_module=module, dma_buf=dma_buf)
    assert list(gpu_memory_is_reached_directly(launch, settings(), here, gpus)) == []


def test_unknown_dma_buf_is_not_checked() -> None:
    here = fabric(EIGHT, peer_memory_module=None, dma_buf=None)
    with pytest.raises(Unavailable, match="dma-buf"):
        list(gpu_memory_is_reached_directly(TWO_NODES, settings(), here, GPUS))


# DC420

GB200 = Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA GB200", architecture="10.0") for index in range(4)))
A100 = Gpus(
    "nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA A100-SXM4-80GB", architecture="8.0") for index in range(8))
)


def test_bad_imex() -> None:
    (finding,) = nvlink_fabric_is_ready(TWO_NODES, settings(), fabric(()), GB200)
    assert (finding.code, finding.severity, finding.fix.by) == ("DC420", Severity.WARNING, "admin")


def test_bad_forced_nvls() -> None:
    (finding,) = nvlink_fabric_is_ready(ONE_NODE, settings(NCCL_NVLS_ENABLE="1"), fabric(()), A100)
    assert (finding.code, finding.severity, finding.where.variable) == ("DC420", Severity.WARNING, "NCCL_NVLS_ENABLE")


@pytest.mark.parametrize(
    ("launch", "variables", "channels", "gpus"),
    [
        pytest.param(TWO_NODES, {}, 1, GB200, id="channel"),
        pytest.param(TWO_NODES, {"NCCL_MNNVL_ENABLE": "0"}, 0, GB200, id="not wanted"),
        pytest.param(TWO_NODES, {}, None, GB200, id="not known"),
        pytest.param(ONE_NODE, {}, 0, GB200, id="one node"),
        pytest.param(SHELL, {}, 0, GB200, id="no launch"),
        pytest.param(TWO_NODES, {}, 0, GPUS, id="NVLink of one host"),
        pytest.param(TWO_NODES, {}, 0, NO_GPU, id="no GPU"),
        pytest.param(ONE_NODE, {"NCCL_NVLS_ENABLE": "1"}, 0, GPUS, id="Hopper has NVLink SHARP"),
        pytest.param(ONE_NODE, {"NCCL_NVLS_ENABLE": "2"}, 0, A100, id="automatic"),
        pytest.param(ONE_NODE, {"NCCL_NVLS_ENABLE": "1"}, 0, Gpus("nvidia", A100.gpus[:1]), id="one GPU"),
    ],
)
def test_good_nvlink_fabric(
    launch: Launch, variables: dict[str, str], channels: int | None, gpus: Gpus | Unavailable
) -> None:
    assert list(nvlink_fabric_is_ready(launch, settings(**variables), fabric((), imex_channels=channels), gpus)) == []


# reading

V1, V2 = "IB/RoCE v1\n", "RoCE v2\n"


def port_files(
    device: str,
    pci: str,
    *,
    layer: str = "InfiniBand",
    state: str = "4: ACTIVE",
    rate: str = "400 Gb/sec (4X NDR)",
    **more: Any,
) -> dict[str, Any]:
    """What sysfs shows of a device with one port."""
    place = f"/sys/class/infiniband/{device}/ports/1"
    link = "5: LinkUp" if state == "4: ACTIVE" else "2: Polling"
    return {
        f"/sys/class/infiniband/{device}/device": {"link": f"../../../{pci}"},
        f"/sys/class/infiniband/{device}/hca_type": "MT4129\n",
        f"{place}/state": f"{state}\n",
        f"{place}/phys_state": f"{link}\n",
        f"{place}/link_layer": f"{layer}\n",
        f"{place}/rate": f"{rate}\n",
        f"{place}/gids/0": "fe80:0000:0000:0000:0c42:a103:0065:de04\n",
        f"{place}/counters/link_downed": "7\n",
        **{f"{place}/{name}": text for name, text in more.items()},
    }


def test_ports_are_read(tmp_path: Path) -> None:
    zero = "0000:0000:0000:0000:0000:0000:0000:0000\n"
    table = {
        "gids/1": zero,
        "gids/3": "0000:0000:0000:0000:0000:ffff:0a00:0005\n",
        "gids/60": "0000:0000:0000:0000:0000:ffff:0a00:0006\n",
        "gid_attrs/types/0": V1,
        "gid_attrs/types/3": V2,
        "gid_attrs/types/60": V2,
        "gid_attrs/ndevs/3": "eth2\n",
    }
    files = {
        **port_files("mlx5_0", "0000:1a:00.0"),
        **port_files("mlx5_1", "0000:1b:00.0", state="1: DOWN", rate="10 Gb/sec (4X SDR)"),
        **port_files("mlx5_2", "0000:1c:00.0", layer="Ethernet", **table),
        "/dev/infiniband/uverbs0": "",
        "/dev/infiniband/rdma_cm": "",
        "/usr/lib/libibverbs.so.1": "",
        "/sys/module/nvidia_peermem/version": "550.54\n",
    }
    here = read_fabric(recorded_world(tmp_path, files=files), settings())
    first, second, third = here.ports
    assert (first.name, first.state, first.physical_state, first.link_layer) == (
        "mlx5_0:1",
        "ACTIVE",
        "LinkUp",
        "InfiniBand",
    )
    assert (first.rate_gbit_per_s, first.pci, first.card, first.card_type) == (
        400.0,
        "0000:1a:00.0",
        "0000:1a:00",
        "MT4129",
    )
    assert (first.gids, first.counters) == ((), ())
    assert (second.state, second.rate_gbit_per_s, second.counters) == ("DOWN", 10.0, (("link_downed", 7),))
    assert [(gid.index, gid.type, gid.interface) for gid in third.gids] == [
        (0, "IB/RoCE v1", ""),
        (3, "RoCE v2", "eth2"),
    ]
    assert (here.verbs_usable, here.libibverbs, here.peer_memory_module) == (True, VERBS, "nvidia_peermem")
    assert (here.imex_channels, here.topology_file_found, here.net_plugins) == (0, None, ())
    far = read_fabric(recorded_world(tmp_path), settings(NCCL_IB_GID_INDEX="60"))
    assert [gid.index for gid in far.ports[2].gids] == [0, 3, 60]


def test_efa_and_interfaces_are_read(tmp_path: Path) -> None:
    device = "/sys/class/infiniband/rdmap16s27"
    files = {
        f"{device}/device/vendor": "0x1d0f\n",
        f"{device}/device/net/ens32/mtu": "",
        f"{device}/ports/1/state": "4: ACTIVE\n",
        f"{device}/ports/1/link_layer": "Unknown\n",
    }
    (port,) = read_fabric(recorded_world(tmp_path, files=files), settings()).ports
    assert (port.efa, port.interfaces, port.rate_gbit_per_s, port.card) == (True, ("ens32",), None, "rdmap16s27")


def test_no_devices(tmp_path: Path) -> None:
    here = read_fabric(
        recorded_world(tmp_path, files={"/sys/class/net/lo/mtu": "1"}), settings(NCCL_TOPO_FILE="/gone.xml")
    )
    assert here == Fabric(imex_channels=0, topology_file_found=False)


def test_no_sys_is_not_checked(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="/sys"):
        read_fabric(recorded_world(tmp_path), settings())
    with pytest.raises(Unavailable, match="darwin"):
        read_fabric(recorded_world(tmp_path, platform="darwin"), settings())


def test_a_container_without_the_devices(tmp_path: Path) -> None:
    files = {**port_files("mlx5_0", "0000:1a:00.0"), "/dev/infiniband/rdma_cm": ""}
    assert read_fabric(recorded_world(tmp_path, files=files), settings()).verbs_usable is False


@pytest.mark.parametrize(
    ("kernel", "driver", "expected"),
    [
        ("6.8.0-45-generic", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.127.05", True),
        ("6.8.0-45-generic", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.127.05", False),
        ("5.4.0-190-generic", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.127.05", False),
        ("4.18.0-553.el8_10.x86_64", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.127.05", None),
        ("6.8.0-45-generic", None, None),
        ("", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.127.05", None),
    ],
)
def test_dma_buf(tmp_path: Path, kernel: str, driver: str | None, expected: bool | None) -> None:
    files = {"/sys/class/net/lo/mtu": "1", "/proc/sys/kernel/osrelease": kernel}
    if driver is not None:
        files["/proc/driver/nvidia/version"] = driver
    assert read_fabric(recorded_world(tmp_path, files=files), settings()).dma_buf is expected


@pytest.mark.parametrize(
    ("plug_in", "expected"),
    [
        (None, ("/opt/hpcx/lib/libnccl-net.so",)),
        ("ofi", ("/opt/hpcx/lib/libnccl-net-ofi.so",)),
        ("libnccl-net-ofi.so", ("/opt/hpcx/lib/libnccl-net-ofi.so",)),
        ("/opt/mine/libnccl-net.so", ("/opt/mine/libnccl-net.so",)),
        ("none", ()),
        ("absent", ()),
    ],
)
def test_plug_ins_are_found(tmp_path: Path, plug_in: str | None, expected: tuple[str, ...]) -> None:
    files = {
        "/sys/class/net/lo/mtu": "1",
        "/opt/hpcx/lib/libnccl-net.so": "",
        "/opt/hpcx/lib/libnccl-net-ofi.so": "",
        "/opt/mine/libnccl-net.so": "",
        "/opt/conda/lib/libibverbs.so.1": "",
    }
    world = recorded_world(
        tmp_path,
        files=files,
        environ={"LD_LIBRARY_PATH": "/none:/opt/hpcx/lib"},
        python_path=["/opt/conda/lib/python3.11", "/opt/conda/lib/python3.11/site-packages"],
    )
    here = read_fabric(world, settings() if plug_in is None else settings(NCCL_NET_PLUGIN=plug_in))
    assert (here.net_plugins, here.libibverbs) == (expected, "/opt/conda/lib/libibverbs.so.1")


def test_a_plug_in_outside_of_the_path(tmp_path: Path) -> None:
    files = {
        "/sys/class/net/lo/mtu": "1",
        "/opt/amazon/ofi-nccl/lib/libnccl-net.so": "",
        "/opt/amazon/efa/lib/libfabric.so.1": "",
        "/dev/nvidia-caps-imex-channels/channel0": "",
    }
    here = read_fabric(recorded_world(tmp_path, files=files), settings())
    assert (here.net_plugins, here.other_plugins) == ((), ("/opt/amazon/ofi-nccl/lib/libnccl-net.so",))
    assert (here.libfabric, here.imex_channels) == ("/opt/amazon/efa/lib/libfabric.so.1", 1)
