from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.logs.model import Event, LineAuthor, LogSource, Timeline
from distcheck.checks.logs.nccl_info import Transport, node_count, parse_log, parse_texts, processes, read_log
from distcheck.core.model import Unavailable
from distcheck.rules.signatures import Kind


def log(*texts: str, head: str = "gpu01:4101:4222 [0] ") -> list[str]:
    return [f"{head}NCCL INFO {text}" for text in texts]


# two nodes on InfiniBand, in the words of 2.18 to 2.22
INFINIBAND = [
    "NCCL version 2.21.5+cuda12.4",
    *log(
        "cudaDriverVersion 12040",
        "Bootstrap : Using eth0:10.0.0.1<0>",
        "NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",
        "NCCL_IB_HCA set by environment to mlx5",
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "Using non-device net plugin version 0",
        "Using network IB",
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        "NVLS multicast support is available on dev 0",
        "comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        "Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "Channel 01/0 : 0[0] -> 9[1] [send] via NET/IB/3(2)/GDRDMA(PCI)/Shared",
        "Channel 00/0 : 0[0] -> 7[7] via P2P/CUMEM/read",
        "Channel 01/0 : 0[0] -> 7[7] via P2P/CUMEM/read",
        "Connected all rings",
        "1048576 Bytes -> Algo 1 proto 0 time 60.2",
        "1073741824 Bytes -> Algo 5 proto 2 time 3900.5",
    ),
]

# one node, 2.27 and later: names of algorithms, a time before each line
ONE_NODE = log(
    "NCCL version 2.27.7+cuda13.0",
    "Bootstrap: Using eth0:10.0.0.1<0>",
    "NET/IB : No device found.",
    "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]ib0:192.168.9.1<0>",
    "Initialized NET plugin Socket",
    "Assigned NET plugin Socket to comm",
    "Using network Socket",
    "NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)",
    "comm 0x55d0 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0",
    "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
    "AllReduce: 1073741824 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}",
    "AllGather: 1073741824 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}",
    head="[2026-11-21 10:00:00] gpu01:4101:4222 [0] ",
)

# an EFA node: a plug-in with a name of its own
EFA = log(
    "NCCL version 2.27.7+cuda13.0",
    "NET/Plugin: Loaded net plugin AWS Libfabric (v10)",
    "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)",
    "Using network AWS Libfabric",
    "Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA",
)

SOCKET = log(
    "NCCL version 2.22.3+cuda12.5",
    "Bootstrap : Using eno1:172.22.1.9<0>",
    "NET/IB : No device found.",
    "NET/Socket : Using [0]eno1:172.22.1.9<0>",
    "Using network Socket",
    "comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
    "Channel 00/0 : 9[1] -> 0[0] [receive] via NET/Socket/0",
    "Channel 00/0 : 0[0] -> 7[7] via P2P/CUMEM",
)


def test_infiniband_in_the_words_of_2_21() -> None:
    found = parse_log(INFINIBAND)
    assert (found.version, found.network, found.plugin) == ("2.21.5", "IB", "")
    assert found.interfaces == ("mlx5_0", "mlx5_3")
    assert found.bootstrap == "eth0"
    assert found.channels == {"NET/IB/GDRDMA": 2, "P2P/CUMEM": 2}
    assert found.gdr is True
    assert (found.ranks, found.nodes) == (16, 2)
    assert found.algorithms == {"AllReduce": "NVLS_TREE"}
    assert found.nvls is True
    assert found.settings == {"NCCL_IB_HCA": "mlx5"}


def test_one_node_in_the_words_of_2_27() -> None:
    found = parse_log(ONE_NODE)
    assert (found.version, found.network, found.bootstrap) == ("2.27.7", "Socket", "eth0")
    assert found.interfaces == ("eth0", "ib0")
    assert found.channels == {"P2P/IPC": 1}
    assert found.algorithms == {"AllReduce": "NVLS", "AllGather": "RING"}
    assert found.nvls is True
    assert found.gdr is None
    assert found.troubles == ("no-device",)


def test_a_plug_in_has_a_name_of_its_own() -> None:
    found = parse_log(EFA)
    assert (found.network, found.plugin) == ("AWS Libfabric", "AWS Libfabric")
    assert found.channels == {"NET/AWS Libfabric/GDRDMA": 1}
    hpcx = parse_log(
        log("P2P plugin v9 IBext_v9", "NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:1.2.3.4<0>", "Using network IBext_v9")
    )
    assert (hpcx.plugin, hpcx.network, hpcx.interfaces) == ("IBext_v9", "IBext_v9", ("mlx5_0",))


def test_what_the_channels_do_counts_more_than_what_a_nic_could() -> None:
    able = log("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'")
    assert parse_log(able).gdr is True
    assert parse_log([*able, *log("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0")]).gdr is False


def test_without_tuning_lines_the_multicast_decides() -> None:
    assert parse_log(log("NVLS multicast support is not available on dev 3 (NVLS_NCHANNELS 0)")).nvls is False
    assert parse_log(log("NCCL version 2.27.7")).nvls is None
    ring = log(
        "NVLS multicast support is available on dev 0",
        "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
    )
    assert parse_log(ring).nvls is False


def test_warnings_are_kept_and_bounded() -> None:
    lines = [f"\ngpu01:1:2 [0] net.cc:{number} NCCL WARN trouble {number}" for number in range(100)]
    found = parse_log("".join(lines).splitlines())
    assert found.warnings[0] == "trouble 0"
    assert len(found.warnings) == 16


def test_lines_of_others_say_nothing() -> None:
    assert parse_log(["Epoch 1, Using network Socket", "via SHM/direct", ""]) == Transport()


@given(st.lists(st.text()))
def test_any_text_is_survived(lines: list[str]) -> None:
    parse_log(lines)
    parse_log(log(*lines))


@given(st.sampled_from([*INFINIBAND, *ONE_NODE, *EFA, *SOCKET]), st.integers(0, 200))
def test_a_line_may_end_anywhere(line: str, end: int) -> None:
    parse_log([line[:end]])


def test_a_log_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log"
    path.write_bytes("\n".join(SOCKET).encode() + b"\n\xff\xfe")
    assert read_log(str(path)).network == "Socket"
    path.write_text("")
    with pytest.raises(Unavailable, match="nothing"):
        read_log(str(path))
    with pytest.raises(Unavailable, match="can't be read"):
        read_log(str(tmp_path / "none"))


def test_the_words_of_2_4() -> None:
    found = parse_log(
        log(
            "Bootstrap : Using [0]eth0:10.0.0.1<0>",
            "Using internal Network Socket",
            "Ring 00 : 0 -> 1 [send] via NET/Socket/0",
            "Channel 00 : 0[1a000] -> 1[1b000] via direct shared memory",
        )
    )
    assert (found.network, found.bootstrap, found.address) == ("Socket", "eth0", "10.0.0.1")
    assert found.channels == {"NET/Socket": 1, "SHM/direct": 1}


def test_a_line_that_names_no_nodes_keeps_those_that_are_known() -> None:
    start = "comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x4 - Init START"
    nodes = "comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"
    complete = start.replace("START", "COMPLETE")
    assert (parse_log(log(start)).ranks, parse_log(log(start)).nodes) == (16, None)
    assert parse_log(log(start, nodes, complete)).nodes == 2
    # a smaller group inside of it says nothing of the whole
    assert parse_log(log(nodes, "comm 0x2 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0")).nodes == 2


def test_a_line_may_lack_its_head() -> None:
    assert parse_texts(["Using network IB", "gpu01:1:2 [0] NCCL INFO NCCL version 2.27.7+cuda13.0"]) == Transport(
        version="2.27.7", network="IB"
    )


def line(number: int, text: str, who: LineAuthor, attempt: int = 0) -> Event:
    return Event("nccl-info", Kind.RECORD, who, 0, number, None, text, attempt=attempt)


def test_processes_are_told_apart_by_host_and_number() -> None:
    one, two = LineAuthor(host="gpu01", pid=7), LineAuthor(host="gpu02", pid=7)
    found = processes(
        Timeline(
            (LogSource("train.log"),),
            (
                line(1, "Using network IB", one),
                line(2, "Using network Socket", two),
                line(3, "comm 0x1 rank 3 nranks 16", one._replace(rank=3)),
            ),
        )
    )
    assert [(process.host, process.transport.network) for process in found] == [("gpu01", "IB"), ("gpu02", "Socket")]
    assert found[0].who.rank == 3
    assert node_count(found) == 2


def test_the_last_restart_counts() -> None:
    who = LineAuthor(host="gpu01", pid=7)
    lines = (line(1, "Using network Socket", who), line(9, "Using network IB", who, attempt=1))
    (found,) = processes(Timeline((LogSource("train.log"),), lines, attempts=2))
    assert found.transport.network == "IB"
    assert processes(Timeline((), ())) == ()
    assert node_count(()) == 1


def test_what_nccl_says_of_nodes_counts_more_than_hosts() -> None:
    lines = (line(1, "comm 0x1 rank 0 nRanks 16 nNodes 4 localRanks 4 localRank 0", LineAuthor(host="gpu01", pid=7)),)
    assert node_count(processes(Timeline((LogSource("a"),), lines))) == 4


#: minor versions of NCCL 2, from and to, and what rank 0 of 16 on InfiniBand logs there; "" is the line without a head.
#: The texts, and the versions that have them, are those of libnccl.so in NVIDIA's wheels of 2.18.3 to 2.32.3.
WHOLE = (
    (18, 21, "", "NCCL version 2.{minor}.3+cuda12.4"),
    (22, 32, "INFO", "NCCL version 2.{minor}.3+cuda12.9"),
    (24, 32, "INFO", "NCCL version 2.{minor}.3 compiled with CUDA 12.9"),
    (18, 32, "INFO", "cudaDriverVersion 12080"),
    (18, 23, "INFO", "Bootstrap : Using eth0:10.0.0.1<0>"),
    (24, 32, "INFO", "Bootstrap: Using eth0:10.0.0.1<0>"),
    (18, 18, "INFO", "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file"),
    (18, 18, "INFO", "NET/Plugin : No plugin found, using internal implementation"),
    (19, 20, "INFO", "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file No plugin found (libnccl-net.so), using internal implementation"),
    (21, 21, "INFO", "NET/Plugin: No plugin found (libnccl-net.so)"),
    (21, 21, "INFO", "NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file : when loading libnccl-net.so"),
    (21, 25, "INFO", "NET/Plugin: Using internal network plugin."),
    (22, 25, "INFO", "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."),
    (26, 27, "INFO", "NET/Plugin: Could not find: libnccl-net.so. "),
    (26, 26, "INFO", "Using internal net plugin."),
    (28, 32, "INFO", "NET/Plugin: Could not find: libnccl-net.so"),
    (18, 32, "INFO", "NCCL_IB_HCA set to mlx5"),
    (18, 32, "INFO", "NCCL_SOCKET_IFNAME set by environment to eth0"),
    (18, 19, "INFO", "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_2:1/RoCE [2]mlx5_3:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"),
    (20, 23, "INFO", "NET/IB : Using [0]mlx5_0:1/IB [1]={[1] mlx5_2:1/RoCE, [2] mlx5_3:1/RoCE} [RO]; OOB eth0:10.0.0.1<0>"),
    (24, 29, "INFO", "NET/IB : Made virtual device [3] name=mlx5_2+mlx5_3 speed=400000 ndevs=2"),
    (30, 32, "INFO", "NET/IB : Made virtual device [3] name=mlx5_2+mlx5_3 speed=400000 ndevs=2 rail=0 plane=0"),
    (24, 32, "INFO", "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_2:1/RoCE [2]mlx5_3:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"),
    (19, 21, "INFO", "Using non-device net plugin version 0"),
    (27, 32, "INFO", "Initialized NET plugin IB"),
    (27, 32, "INFO", "Assigned NET plugin IB to comm"),
    (18, 32, "INFO", "Using network IB"),
    (18, 20, "INFO", "comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 19000 commId 0x4 - Init START"),
    (21, 28, "INFO", "ncclCommInitRank comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 19000 commId 0x4 - Init START"),
    (29, 32, "INFO", "[Rank 0] ncclCommInitRank comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 19000 commId 0x4 - Init START"),
    (18, 32, "INFO", "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"),
    (18, 26, "INFO", "NVLS multicast support is available on dev 0"),
    (27, 29, "INFO", "NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)"),
    (30, 31, "INFO", "NVLS multicast support is available on dev 0"),
    (32, 32, "INFO", "NVLS multicast support is available on dev 0, transport NVLink, symmetric multimem 1"),
    (20, 32, "INFO", "comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"),
    (18, 32, "INFO", "Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA"),
    (18, 32, "INFO", "Channel 01/0 : 0[0] -> 9[1] [send] via NET/IB/3(2)/GDRDMA"),
    (18, 32, "INFO", "Channel 00/0 : 0[0] -> 7[7] via P2P/IPC"),
    (18, 32, "INFO", "Channel 01/0 : 0[0] -> 7[7] via P2P/CUMEM/read"),
    (18, 29, "INFO", "Channel 02 : 0[0] -> 5[5] via SHM/direct/direct"),
    (30, 32, "INFO", "Channel 02 : 0[0] -> 5[5] via SHM/direct"),
    (18, 23, "INFO", "Connected all rings"),
    (24, 32, "INFO", "Connected all rings, use ring PXN 0 GDR 1"),
    (20, 22, "INFO", "1073741824 Bytes -> Algo 1 proto 2 time 3900.5"),
    (23, 23, "INFO", "AllReduce: 1073741824 Bytes -> Algo 1 proto 2 time 3900.5"),
    (24, 30, "INFO", "AllReduce: 1073741824 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}"),
    (31, 32, "INFO", "AllReduce: 1073741824 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15} cgaClusterSize 4"),
)  # fmt: skip


@pytest.mark.parametrize("minor", range(18, 33))
def test_a_whole_log_of_each_version(minor: int) -> None:
    lines = [
        ("gpu01:41:42 [0] NCCL INFO " if level else "") + text.replace("{minor}", str(minor))
        for first, last, level, text in WHOLE
        if first <= minor <= last
    ]
    assert parse_log(lines) == Transport(
        version=f"2.{minor}.3",
        network="IB",
        interfaces=("mlx5_0", "mlx5_2", "mlx5_3"),
        bootstrap="eth0",
        address="10.0.0.1",
        gdr=True,
        channels={"NET/IB/GDRDMA": 2, "P2P/IPC": 1, "P2P/CUMEM": 1, "SHM/direct": 1},
        # 2.18 and 2.19 log neither nodes nor algorithms
        algorithms={"AllReduce": "RING"} if minor >= 20 else {},
        multicast=True,
        ranks=16,
        nodes=2 if minor >= 20 else None,
        settings={"NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "eth0"},
    )


def test_ranks_that_meet_over_a_device_have_no_address() -> None:
    """With NCCL_OOB_NET_ENABLE (2.24): the device and its port."""
    found = parse_log(log("Bootstrap: Using mlx5_0:1"))
    assert (found.bootstrap, found.address) == ("mlx5_0", "")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("RCCL version 2.20.5+hip6.2 HEAD:d380693", "2.20.5"),
        ("RCCL version : 2.22.3-HEAD:9feb0cd", "2.22.3"),
        ("NCCL version 2.18.6+hip6.0", "2.18.6"),
    ],
)
def test_a_whole_log_of_rccl(version: str, expected: str) -> None:
    lines = [
        version,
        "HIP version  : 6.4.43482-0f2d60242",
        *log(
            "Bootstrap : Using eth0:10.0.0.1<0>",
            "NET/Plugin: Using internal network plugin.",
            "NET/IB : Using [0]bnxt_re0:1/RoCE [1]bnxt_re1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "Using non-device net plugin version 0",
            "Using network IB",
            "comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA comm 0x55d0 nRanks 16",
        ),
    ]
    found = parse_log(lines)
    assert (found.version, found.network, found.interfaces) == (expected, "IB", ("bnxt_re0", "bnxt_re1"))
    assert (found.channels, found.ranks, found.nodes) == ({"NET/IB/GDRDMA": 1}, 16, 2)
    assert parse_log(log(version)).version == expected


def test_the_last_network_counts() -> None:
    """A plug-in whose devices fail gives way to TCP."""
    assert parse_log(log("Using network AWS Libfabric", "Using network Socket")).network == "Socket"


def test_trays_of_one_nvlink_domain_need_no_network() -> None:
    trays = log("Using network Socket", "comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 1")
    inside = log("Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL")
    assert not parse_log([*trays, *inside]).on_tcp
    assert parse_log([*trays, *inside, *log("Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0")]).on_tcp
    assert parse_log(SOCKET).on_tcp
