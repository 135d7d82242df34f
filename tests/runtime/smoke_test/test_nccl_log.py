"""NCCL's own log: what it used, in the lines of several versions, and the fall backs that this shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.checks.cluster.records import Cluster, Device, HostRdmaPort, HostRecord, RankRecord
from distcheck.checks.logs.nccl_info import parse_log
from distcheck.core.model import Finding, NotApplicable, Severity, Unavailable
from distcheck.runtime.smoke_test.nccl_log import (
    has_nvlink,
    local_ranks_use_nvlink,
    network_is_the_fastest_there,
    variables,
)
from tests.checks.logs.test_nccl_info import EFA, INFINIBAND, ONE_NODE, SOCKET, log

H100 = "NVIDIA H100 80GB HBM3"


def test_the_log_goes_to_a_folder_unless_the_user_directs_it(tmp_path: Path) -> None:
    found = variables({}, str(tmp_path))
    assert found["NCCL_DEBUG"] == "INFO"
    assert found["NCCL_DEBUG_FILE"].startswith(str(tmp_path))
    assert variables({"NCCL_DEBUG": "WARN"}, str(tmp_path)) == {}
    assert variables({"NCCL_DEBUG_FILE": "/somewhere"}, str(tmp_path)) == {}


# DC516

PORT = HostRdmaPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 400.0)


def host(
    name: str,
    ports: tuple[HostRdmaPort, ...] = (PORT,),
    *,
    settings: dict[str, str] | None = None,
    origins: dict[str, str] | None = None,
    container: str | None = None,
    gpu: str = H100,
) -> HostRecord:
    devices = [Device(f"GPU-{name}-{number}", name=gpu) for number in range(8)]
    return HostRecord(
        name,
        tuple(RankRecord(number, number, device=device) for number, device in enumerate(devices)),
        container=container,
        settings=settings or {},
        origins=origins or {},
        gpus=tuple(devices),
        rdma_ports=ports,
    )


def two(
    *ports: HostRdmaPort,
    settings: dict[str, str] | None = None,
    origins: dict[str, str] | None = None,
    container: str | None = None,
) -> Cluster:
    return Cluster(
        tuple(host(name, ports, settings=settings, origins=origins, container=container) for name in ("gpu01", "gpu02"))
    )


def network(lines: list[str], cluster: Cluster) -> list[Finding]:
    return list(network_is_the_fastest_there(parse_log(lines), cluster))


@pytest.mark.parametrize(
    ("lines", "cluster", "cause", "words"),
    [
        pytest.param(
            [*SOCKET, *log("NCCL_IB_DISABLE set by environment to 1.")], two(PORT), "NCCL_IB_DISABLE",
            "unset NCCL_IB_DISABLE", id="switched off, as the log says",
        ),
        pytest.param(
            SOCKET, two(PORT, settings={"NCCL_IB_DISABLE": "1"}, origins={"NCCL_IB_DISABLE": "/etc/nccl.conf:2"}),
            "NCCL_IB_DISABLE", "/etc/nccl.conf:2", id="switched off by the site",
        ),
        pytest.param(SOCKET, two(PORT, settings={"NCCL_NET": "Socket"}), "NCCL_NET", "unset NCCL_NET", id="asked for"),
        pytest.param(SOCKET, two(PORT, container="docker"), "container", "--device=/dev/infiniband", id="container"),
        pytest.param(SOCKET, two(PORT), "no-device", "/dev/infiniband", id="no device"),
        pytest.param(
            [*SOCKET, "gpu01:1:2 [0] misc/ibvwrap.cc:94 NCCL WARN Failed to open libibverbs.so[.1]"], two(PORT),
            "libibverbs", "ibverbs-providers", id="no library",
        ),
        pytest.param(
            SOCKET, two(HostRdmaPort("rdmap16s27", 1, "ACTIVE", "Unspecified", 100.0, efa=True)), "plug-in",
            "aws-ofi-nccl", id="EFA without its plug-in",
        ),
        pytest.param(
            SOCKET, two(*(HostRdmaPort(f"mlx5_{number}", 1, "ACTIVE", "Ethernet", 400.0) for number in range(8))),
            "no-device", "/dev/infiniband", id="RoCE",
        ),
    ],
)  # fmt: skip
def test_bad_dc516_tcp_beside_rdma(lines: list[str], cluster: Cluster, cause: str, words: str) -> None:
    (finding,) = network(lines, cluster)
    assert (finding.code, finding.severity) == ("DC516", Severity.WARNING)
    assert finding.evidence["cause"] == cause
    assert words in f"{finding.fix.text} {finding.fix.command}"
    assert "gpu[01-02]" in finding.message
    assert "eno1" in finding.message


def test_bad_dc516_one_host_has_no_ports() -> None:
    cluster = Cluster((host("gpu01"), host("gpu02", ())))
    (finding,) = network(SOCKET, cluster)
    assert "gpu02 has none" in finding.message
    assert finding.where.host == "gpu01"


def test_bad_dc516_although_nccl_names_its_own_plug_in_first() -> None:
    (finding,) = network([*log("NET/Plugin: Using internal network plugin."), *SOCKET], two(PORT))
    assert finding.evidence["network"] == "Socket"


@pytest.mark.parametrize(
    ("lines", "cluster"),
    [
        pytest.param(INFINIBAND, two(PORT), id="InfiniBand is used"),
        pytest.param(
            log(
                "Using network Socket",
                "comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 1",
                "Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL",
            ),
            two(PORT),
            id="NVLink between the hosts",
        ),
        pytest.param(EFA, two(HostRdmaPort("rdmap16s27", 1, "ACTIVE", "Unspecified", efa=True)), id="EFA is used"),
        pytest.param(SOCKET, two(), id="there is nothing but TCP"),
        pytest.param(SOCKET, two(PORT._replace(state="DOWN")), id="the port is down: another rule"),
        pytest.param(SOCKET, two(PORT._replace(selected=False)), id="the port is left out on purpose"),
        pytest.param(
            SOCKET,
            two(HostRdmaPort("mlx5_0", 1, "ACTIVE", "Ethernet", 100.0)),
            id="one RoCE port of eight GPUs: storage",
        ),
    ],
)
def test_good_dc516_network(lines: list[str], cluster: Cluster) -> None:
    assert network(lines, cluster) == []


def test_good_dc516_one_host_needs_no_network() -> None:
    with pytest.raises(NotApplicable):
        network(ONE_NODE, Cluster((host("gpu01"),)))
    # trays of one NVLink domain are one node for NCCL
    rack = log("Using network Socket", "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 1")
    with pytest.raises(NotApplicable):
        network(rack, two(PORT))


def test_dc516_without_the_network_s_name_is_not_checked() -> None:
    with pytest.raises(Unavailable, match="does not name"):
        network(log("NCCL version 2.27.7"), two(PORT))


def test_bad_dc516_is_bounded_for_many_hosts() -> None:
    cluster = Cluster(tuple(host(f"gpu{number:04d}", (PORT,) * 8) for number in range(0, 4096, 2)))
    (finding,) = network(SOCKET, cluster)
    assert len(finding.message) < 500


SHARED = log(
    "NCCL version 2.27.7+cuda13.0",
    "Using network Socket",
    "comm 0x55d0 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0",
    "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
    "Channel 01 : 0[0] -> 1[1] via SHM/direct/direct",
)


def nvlink(lines: list[str], cluster: Cluster) -> list[Finding]:
    return list(local_ranks_use_nvlink(parse_log(lines), cluster))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"NCCL_P2P_DISABLE": "1"}, "unset NCCL_P2P_DISABLE"),
        ({"NCCL_P2P_LEVEL": "LOC"}, "unset NCCL_P2P_LEVEL"),
        ({}, "nvidia-smi topo"),
    ],
)
def test_bad_dc516_nvlink_lies_idle(settings: dict[str, str], words: str) -> None:
    (finding,) = nvlink(SHARED, Cluster((host("gpu01", settings=settings),)))
    assert (finding.code, finding.severity, finding.where.host) == ("DC516", Severity.WARNING, "gpu01")
    assert words in f"{finding.fix.text} {finding.fix.command}"


@pytest.mark.parametrize(
    ("lines", "gpu"),
    [
        pytest.param(ONE_NODE, H100, id="P2P is used"),
        pytest.param([*SHARED, *log("Channel 02/0 : 0[0] -> 2[2] via P2P/CUMEM")], H100, id="some of it is P2P"),
        pytest.param(SHARED, "NVIDIA L40S", id="no NVLink"),
        pytest.param(SHARED, "NVIDIA H100 PCIe", id="no NVLink without a bridge"),
        pytest.param(SHARED, "NVIDIA H200 NVL", id="NVL: bridges may be missing"),
        pytest.param(SHARED, "NVIDIA A100-SXM4-80GB MIG 3g.40gb", id="MIG has no P2P"),
        pytest.param(log("NCCL version 2.27.7", "Using network Socket"), H100, id="no channel yet"),
    ],
)
def test_good_dc516_nvlink(lines: list[str], gpu: str) -> None:
    assert nvlink(lines, Cluster((host("gpu01", gpu=gpu),))) == []


def test_good_dc516_one_rank_a_host() -> None:
    single = host("gpu01")._replace(ranks=(RankRecord(0, 0, device=Device("GPU-0", name=H100)),))
    assert nvlink(SHARED, Cluster((single,))) == []


def test_boards_with_nvlink() -> None:
    assert all(map(has_nvlink, ("NVIDIA A100-SXM4-80GB", H100, "NVIDIA H200", "Tesla V100-SXM2-32GB", "NVIDIA GB200")))
    assert not any(
        map(
            has_nvlink,
            ("NVIDIA A100 80GB PCIe", "NVIDIA H100 NVL", "NVIDIA GH200 480GB", "NVIDIA GeForce RTX 4090", ""),
        )
    )
