from __future__ import annotations

import re

import pytest

from distcheck.checks.logs import fabric
from distcheck.checks.logs.model import Event, LineAuthor, LogSource, Timeline, Traceback, WorkerFailure
from distcheck.core.model import Severity
from distcheck.rules.signatures import Kind
from distcheck.rules.signatures.fabric import ROWS

ECHO = Event("error", Kind.FAILURE, LineAuthor(), 0, 99, None, "something failed")
LOST = (
    "NCCL WARN NET/IB : Got completion from peer 10.9.0.5<54862> with status=12 opcode=0 len=0 vendor err 129 "
    "(Recv) localGid "
    "::ffff:10.9.0.4 remoteGids::ffff:10.9.0.5"
)


def events(*lines: str, who: LineAuthor = LineAuthor()) -> tuple[Event, ...]:
    """The events of lines, as the reading makes them."""
    return tuple(
        Event(
            row.name,
            row.kind,
            who,
            0,
            number,
            None,
            line,
            {name: value for name, value in match.groupdict().items() if value is not None},
            row.codes,
        )
        for number, line in enumerate(lines, 1)
        for row in ROWS
        if (match := re.search(row.pattern, line))
    )


def info(host: str, *texts: str, pid: int = 100) -> tuple[Event, ...]:
    return events(*(f"{host}:{pid}:187 [0] NCCL INFO {text}" for text in texts), who=LineAuthor(host=host, pid=pid))


def timeline(*found: Event, went_on: bool = False, workers: tuple[WorkerFailure, ...] = ()) -> Timeline:
    return Timeline((LogSource("train.log", lines=100),), found, workers=workers, went_on=went_on)


def raised(name: str, text: str = "") -> Event:
    return Event("exception", Kind.FAILURE, LineAuthor(rank=9), 0, 5, None, text, traceback=Traceback((), name, text))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.pattern[:20]}")
def test_a_row_fits_its_examples_in_both_engines(row: object) -> None:
    re2 = pytest.importorskip("re2")
    pattern = row.pattern.encode("latin-1")  # type: ignore[attr-defined]
    for example in row.examples:  # type: ignore[attr-defined]
        plain, fast = re.search(pattern, example.encode()), re2.search(pattern, example.encode())
        assert plain is not None
        assert fast is not None
        assert plain.groups() == fast.groups()


def test_of_the_channels_only_the_first_over_a_slow_way_is_kept() -> None:
    """A log of 512 ranks has hundreds of thousands of them."""
    assert not info("gpu01", "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")
    assert not info("gpu01", "Channel 07/0 : 0[0] -> 9[1] [send] via NET/IB/0/GDRDMA")
    assert info("gpu01", "Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/0/GDRDMA")


# who is to blame when packets get no answer


@pytest.mark.parametrize(
    ("others", "workers"),
    [
        pytest.param((Event("disk-full", Kind.CAUSE, LineAuthor(), 0, 3, None, "full"),), (), id="a named cause"),
        pytest.param((raised("KeyError"),), (), id="an exception of its own"),
        pytest.param((), (WorkerFailure(11, 3, "node02", -9, None),), id="a death by SIGKILL"),
    ],
)
def test_a_peer_that_died_is_no_trouble_of_the_network(
    others: tuple[Event, ...], workers: tuple[WorkerFailure, ...]
) -> None:
    assert not list(fabric.roce_packets_arrive(timeline(*others, *events(LOST), workers=workers)))
    assert not list(fabric.infiniband_ports_are_up(timeline(*others, *events(LOST), workers=workers)))


@pytest.mark.parametrize(
    "others",
    [
        pytest.param((), id="nothing else"),
        pytest.param(
            (raised("torch.distributed.DistBackendError", "NCCL error in: x, remote process exited"),), id="NCCL's own"
        ),
        pytest.param((raised("torch.distributed.elastic.multiprocessing.errors.ChildFailedError"),), id="torchrun's"),
        pytest.param(
            (Event("refused", Kind.CAUSE, LineAuthor(), 0, 3, None, "refused", codes=("DC412",)),),
            id="unreachable as well",
        ),
    ],
)
def test_packets_without_an_answer_are_the_cause_where_nobody_died(others: tuple[Event, ...]) -> None:
    (finding,) = fabric.roce_packets_arrive(timeline(*others, *events(LOST)))
    assert (finding.code, finding.severity, finding.evidence["role"]) == ("DC415", Severity.ERROR, "cause")
    assert finding.evidence["local_gid"] == "::ffff:10.9.0.4"
    assert finding.evidence["remote_gid"] == "::ffff:10.9.0.5"
    assert "10.9.0.5" in finding.message


def test_the_layer_decides_between_a_gid_and_a_port() -> None:
    without_gid = events(LOST.partition(" localGid")[0])
    infiniband = info("node01", "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.4<0>")
    assert not list(fabric.roce_packets_arrive(timeline(*infiniband, *without_gid)))
    assert [f.code for f in fabric.infiniband_ports_are_up(timeline(*infiniband, *without_gid))] == ["DC414"]
    roce = info("node01", "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.4<0>")
    assert [f.code for f in fabric.roce_packets_arrive(timeline(*roce, *without_gid))] == ["DC415"]
    assert not list(fabric.infiniband_ports_are_up(timeline(*roce, *without_gid)))


@pytest.mark.parametrize("status", [5, 9, 10, 11])
def test_other_completions_are_consequences(status: int) -> None:
    assert not list(fabric.roce_packets_arrive(timeline(*events(LOST.replace("=12", f"={status}")))))


def test_a_queue_pair_that_is_tried_again_is_not_told() -> None:
    again = "NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, retrying 1/34 after 20 msec of sleep"
    assert not list(fabric.roce_packets_arrive(timeline(*events(again))))
    assert list(fabric.roce_packets_arrive(timeline(*events(again.partition(", retrying")[0]))))


def test_a_port_that_came_back_is_worth_a_line() -> None:
    down = events("NCCL WARN NET/IB : mlx5_1:1 Got async event : port error")
    assert [f.severity for f in fabric.infiniband_ports_are_up(timeline(*down, went_on=True))] == [Severity.INFO]
    assert [f.severity for f in fabric.infiniband_ports_are_up(timeline(*down, ECHO))] == [Severity.ERROR]
    (finding,) = fabric.infiniband_ports_are_up(timeline(*down, *events(LOST)))
    assert "mlx5_1" in finding.message
    assert not list(fabric.roce_packets_arrive(timeline(*down, *events(LOST))))


@pytest.mark.parametrize("event", ["GID table change", "LID change", "client reregistration", "port active"])
def test_other_events_of_a_port_are_not_told(event: str) -> None:
    found = events(f"NCCL WARN NET/IB : mlx5_1:1 Got async event : {event}")
    assert found
    assert not list(fabric.infiniband_ports_are_up(timeline(*found, ECHO)))


# interfaces


def bootstrap(host: str, interface: str, address: str) -> tuple[Event, ...]:
    return info(host, f"Bootstrap : Using {interface}:{address}<0>")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("docker0", "172.17.0.1"), ("docker0", "172.17.0.1")),
        (("lo", "127.0.0.1"), ("eth0", "10.0.0.5")),
        (("br-12ab", "172.18.0.1"), ("eth0", "10.0.0.5")),
        (("usb0", "192.168.7.1"), ("usb0", "192.168.7.1")),
        (("eth0", "fe80::1"), ("eth0", "fe80::2")),
    ],
)
def test_an_interface_that_leads_nowhere_counts_where_it_hurts(first: tuple[str, str], second: tuple[str, str]) -> None:
    lines = (*bootstrap("node01", *first), *bootstrap("node02", *second))
    (finding,) = fabric.interfaces_reach_the_others(timeline(*lines, ECHO))
    assert (finding.code, finding.severity, finding.evidence["role"]) == ("DC406", Severity.ERROR, "cause")
    assert not list(fabric.interfaces_reach_the_others(timeline(*lines)))
    assert not list(fabric.interfaces_reach_the_others(timeline(*lines, ECHO, went_on=True)))
    assert not list(fabric.interfaces_reach_the_others(timeline(*lines, raised("KeyError"))))
    assert not list(fabric.interfaces_reach_the_others(timeline(*bootstrap("node01", *first), ECHO)))


def test_interfaces_of_a_network_are_well() -> None:
    lines = (*bootstrap("node01", "eth0", "10.0.0.4"), *bootstrap("node02", "eth0", "10.0.0.5"))
    assert not list(fabric.interfaces_reach_the_others(timeline(*lines, ECHO)))


# transports

TCP = ("Bootstrap : Using eth0:10.0.0.{}<0>", "NET/IB : No device found.", "Using network Socket")


def tcp(*hosts: str, more: tuple[str, ...] = ()) -> tuple[Event, ...]:
    return tuple(
        event
        for number, host in enumerate(hosts, 4)
        for event in info(host, *(text.format(number) for text in TCP), *more)
    )


def test_tcp_counts_where_rdma_is_seen() -> None:
    assert not list(fabric.infiniband_is_used(timeline(*tcp("node01", "node02"))))
    assert not list(
        fabric.infiniband_is_used(timeline(*tcp("node01", more=("NCCL_IB_HCA set by environment to mlx5",))))
    )
    two = tcp("node01", "node02", more=("NCCL_IB_HCA set by environment to mlx5",))
    (finding,) = fabric.infiniband_is_used(timeline(*two))
    assert (finding.severity, finding.evidence["role"]) == (Severity.WARNING, "context")
    assert [f.severity for f in fabric.infiniband_is_used(timeline(*two, ECHO))] == [Severity.INFO]
    off = tcp(
        "node01", "node02", more=("NCCL_IB_HCA set by environment to mlx5", "NCCL_IB_DISABLE set by environment to 1.")
    )
    assert not list(fabric.infiniband_is_used(timeline(*off)))
    assert [f.severity for f in fabric.transports_are_on(timeline(*off))] == [Severity.WARNING]


def test_hosts_that_take_different_networks_are_the_cause_of_a_hang() -> None:
    mixed = (*info("node01", "Using network IB", "NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:1.2.3.4<0>"), *tcp("node02"))
    (finding,) = fabric.infiniband_is_used(timeline(*mixed, ECHO))
    assert finding.evidence["role"] == "cause"
    assert "node02" in finding.message


@pytest.mark.parametrize(
    ("network", "code"),
    [
        ("IB", "DC413"),
        ("AWS Libfabric", "DC417"),
        ("FasTrak", "DC418"),
        ("GPUDirectTCPX_v7", "DC418"),
        ("Mesh", "DC334"),
    ],
)
def test_a_network_that_is_not_there_is_of_one_rule(network: str, code: str) -> None:
    found = timeline(*events(f"NCCL WARN Error: network {network} not found."))
    probes = (fabric.infiniband_is_used, fabric.efa_is_used, fabric.vendor_plug_ins_are_complete, fabric.plug_in_fits)
    findings = [finding for probe in probes for finding in probe(found)]
    assert [finding.code for finding in findings] == [code]
    assert findings[0].evidence["role"] == "cause"


def test_versions_that_differ_are_the_cause_only_of_a_failure() -> None:
    lines = (
        *info("node01", "NCCL version 2.26.2+cuda12.4", "Using network IB"),
        *info("node02", "NCCL version 2.21.5+cuda12.4", "Using network IB"),
    )
    assert [f.severity for f in fabric.versions_are_equal(timeline(*lines))] == [Severity.INFO]
    (finding,) = fabric.versions_are_equal(timeline(*lines, ECHO))
    assert finding.severity is Severity.ERROR
    assert "2.21.5 on node02" in finding.message
    assert [f.severity for f in fabric.versions_are_equal(timeline(*lines, raised("KeyError")))] == [Severity.INFO]


def test_the_numbers_of_nccl_s_versions() -> None:
    line = "Mismatched NCCL version detected : rank 8 version 22703 rank 0 version 22602"
    (finding,) = fabric.versions_are_equal(timeline(*events(line)))
    assert "rank 8 has NCCL 2.27.3 and rank 0 2.26.2" in finding.message


def test_a_full_shared_memory_is_another_rule() -> None:
    attach = events("NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-Hq3sXw (size 9637888)")
    full = Event("shm-full", Kind.CAUSE, LineAuthor(), 0, 1, None, "no space", codes=("DC320",))
    assert list(fabric.nccl_distinguishes_hosts(timeline(*attach)))
    assert not list(fabric.nccl_distinguishes_hosts(timeline(full, *attach)))


def test_many_hosts_are_counted() -> None:
    lines = tuple(
        event
        for number in range(64)
        for event in info(
            f"node{number:03d}", "NCCL_IB_HCA set by environment to mlx5", "Using network Socket", pid=number
        )
    )
    (finding,) = fabric.infiniband_is_used(timeline(*lines))
    assert "64 hosts (node000 …)" in finding.message
