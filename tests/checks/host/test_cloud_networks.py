"""Clouds' own networks: EFA, Google's plug-ins, topology files."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck.checks.host.cloud_networks import efa_can_be_used, google_plug_in_is_complete, topology_file_is_there
from distcheck.checks.host.fabric import Fabric, RdmaPort
from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.platform import Platform
from distcheck.core.model import Severity, Unavailable
from distcheck.launch.model import Launch
from distcheck.launch.settings import Setting, Settings

GPUS = Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3") for index in range(8)))
SHELL = Launch()
ONE_NODE = Launch("planned", nnodes=1, nproc=8)
TWO_NODES = Launch("planned", nnodes=2, nproc=8)
POD = Platform("linux", container="kubernetes", product="p5.48xlarge")
GOOGLE = Platform("linux", product="Google Compute Engine")
EFA = RdmaPort("rdmap16s27", 1, "ACTIVE", "LinkUp", "Unknown", 100.0, efa=True)
AWS = Fabric(
    (EFA,),
    True,
    "/lib/libibverbs.so.1",
    libfabric="/opt/amazon/efa/lib/libfabric.so.1",
    net_plugins=("/x/libnccl-net.so",),
)
NICS = Interfaces(tuple(Interface(name) for name in ("lo", "enp0s12", "enp6s0", "enp7s0")))
FASTRAK = {"NCCL_FASTRAK_CTRL_DEV": "enp0s12", "NCCL_FASTRAK_IFNAME": "enp6s0,enp7s0"}
TCPX = {"NCCL_GPUDIRECTTCPX_CTRL_DEV": "enp0s12", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "enp6s0,enp7s0"}
PLUG_IN = Fabric(net_plugins=("/var/lib/tcpxo/lib64/libnccl-net.so",))


def settings(**variables: str) -> Settings:
    return Settings(tuple(Setting(name, value) for name, value in sorted(variables.items())))


# DC417


@pytest.mark.parametrize(
    ("variables", "more", "words"),
    [
        pytest.param({}, {"net_plugins": ()}, "no network plug-in", id="plug-in missing"),
        pytest.param({}, {"libfabric": None}, "libfabric", id="libfabric missing"),
        pytest.param({}, {"verbs_usable": False}, "/dev/infiniband", id="device not in the pod"),
        pytest.param({"FI_PROVIDER": "tcp"}, {}, "FI_PROVIDER=tcp", id="another provider"),
        pytest.param({"FI_PROVIDER": "^efa"}, {}, "FI_PROVIDER=^efa", id="provider left out"),
        pytest.param({"NCCL_NET": "Socket"}, {}, "NCCL_NET=Socket", id="sockets asked for"),
        pytest.param({"NCCL_NET_PLUGIN": "none"}, {}, "NCCL_NET_PLUGIN=none", id="no plug-in wanted"),
    ],
)
def test_bad_efa(variables: dict[str, str], more: dict[str, Any], words: str) -> None:
    here = AWS._replace(**more)
    (finding,) = efa_can_be_used(TWO_NODES, settings(**variables), here, GPUS, POD)
    assert (finding.code, finding.severity) == ("DC417", Severity.WARNING)
    assert words in finding.message
    for launch in (SHELL, ONE_NODE, TWO_NODES._replace(backend="gloo")):
        assert list(efa_can_be_used(launch, settings(**variables), here, GPUS, POD)) == []


@pytest.mark.parametrize(
    ("variables", "more"),
    [
        pytest.param({}, {}, id="all there"),
        pytest.param({"FI_PROVIDER": "efa"}, {}, id="provider named"),
        pytest.param({"FI_PROVIDER": "^tcp,udp"}, {}, id="other providers left out"),
        pytest.param({"NCCL_NET": "AWS Libfabric"}, {}, id="network named"),
        pytest.param({"NCCL_IB_DISABLE": "1"}, {}, id="InfiniBand is no EFA"),
        pytest.param({}, {"ports": (EFA._replace(state="DOWN"),), "net_plugins": ()}, id="device down"),
        pytest.param({}, {"ports": (), "net_plugins": ()}, id="no EFA"),
        pytest.param({}, {"ports": (EFA._replace(efa=False),), "net_plugins": ()}, id="InfiniBand"),
    ],
)
def test_good_efa(variables: dict[str, str], more: dict[str, Any]) -> None:
    assert list(efa_can_be_used(TWO_NODES, settings(**variables), AWS._replace(**more), GPUS, POD)) == []


def test_a_plug_in_that_is_installed_is_put_on_the_path() -> None:
    elsewhere = AWS._replace(net_plugins=(), other_plugins=("/opt/amazon/ofi-nccl/lib/libnccl-net.so",))
    (finding,) = efa_can_be_used(TWO_NODES, settings(), elsewhere, GPUS, POD)
    assert finding.fix.command == 'export LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:"$LD_LIBRARY_PATH"'
    (finding,) = efa_can_be_used(TWO_NODES, settings(), AWS._replace(net_plugins=()), GPUS, POD)
    assert finding.fix.command is None


# DC418


@pytest.mark.parametrize(
    ("variables", "plug_ins", "words"),
    [
        pytest.param({"NCCL_FASTRAK_CTRL_DEV": "enp0s12"}, True, "NCCL_FASTRAK_IFNAME is not set", id="half"),
        pytest.param({"NCCL_NET": "FasTrak"}, True, "NCCL_FASTRAK_CTRL_DEV is not set", id="network only"),
        pytest.param(
            {"NCCL_FASTRAK_USE_LLCM": "1"}, True, "NCCL_FASTRAK_IFNAME is not set", id="another variable only"
        ),
        pytest.param(FASTRAK, False, "no network plug-in", id="library missing"),
        pytest.param({**FASTRAK, "NCCL_FASTRAK_IFNAME": "eth1,eth2"}, True, "eth1, eth2", id="names of GKE"),
        pytest.param({**TCPX, "NCCL_GPUDIRECTTCPX_CTRL_DEV": ""}, True, "NCCL_GPUDIRECTTCPX_CTRL_DEV", id="TCPX"),
    ],
)
def test_bad_google_plug_in(variables: dict[str, str], plug_ins: bool, words: str) -> None:
    here = PLUG_IN if plug_ins else Fabric()
    (finding,) = google_plug_in_is_complete(TWO_NODES, settings(**variables), here, GPUS, GOOGLE, NICS)
    assert (finding.code, finding.severity) == ("DC418", Severity.WARNING)
    assert words in finding.message
    for launch, platform in ((SHELL, GOOGLE), (ONE_NODE, GOOGLE), (TWO_NODES, Platform("linux"))):
        assert list(google_plug_in_is_complete(launch, settings(**variables), here, GPUS, platform, NICS)) == []


@pytest.mark.parametrize(
    ("variables", "interfaces"),
    [
        pytest.param(FASTRAK, NICS, id="FasTrak"),
        pytest.param(TCPX, NICS, id="TCPX"),
        pytest.param({}, NICS, id="no plug-in wanted"),
        pytest.param({"NCCL_NET": "gIB"}, NICS, id="RDMA of Google"),
        pytest.param({**FASTRAK, "NCCL_FASTRAK_IFNAME": "eth1"}, Unavailable("not read"), id="interfaces unknown"),
    ],
)
def test_good_google_plug_in(variables: dict[str, str], interfaces: Interfaces | Unavailable) -> None:
    assert list(google_plug_in_is_complete(TWO_NODES, settings(**variables), PLUG_IN, GPUS, GOOGLE, interfaces)) == []


def test_bad_topology_file() -> None:
    found = settings(NCCL_TOPO_FILE="/opt/microsoft/ndv5-topo.xml")
    (finding,) = topology_file_is_there(ONE_NODE, found, Fabric(topology_file_found=False), GPUS)
    assert (finding.code, finding.severity, finding.where.variable) == ("DC418", Severity.WARNING, "NCCL_TOPO_FILE")


@pytest.mark.parametrize(
    ("launch", "variables", "there"),
    [
        pytest.param(ONE_NODE, {"NCCL_TOPO_FILE": "/opt/topo.xml"}, True, id="there"),
        pytest.param(ONE_NODE, {}, None, id="none named"),
        pytest.param(ONE_NODE, {"NCCL_TOPO_FILE": ""}, None, id="empty counts as unset"),
        pytest.param(SHELL, {"NCCL_TOPO_FILE": "/opt/topo.xml"}, False, id="no launch"),
        pytest.param(ONE_NODE._replace(backend="gloo"), {"NCCL_TOPO_FILE": "/opt/topo.xml"}, False, id="gloo"),
    ],
)
def test_good_topology_file(launch: Launch, variables: dict[str, str], there: bool | None) -> None:
    here = Fabric(topology_file_found=there)
    assert list(topology_file_is_there(launch, settings(**variables), here, GPUS)) == []
