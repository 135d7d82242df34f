"""The roll, numbers, host identities and clocks of many hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.cluster.identity import (
    callers_count_alike,
    clocks_agree,
    every_rank_came,
    hosts_are_distinct,
    no_rank_came_twice,
    ranks_fit_together,
    ranks_follow_the_nodes,
)
from distcheck.checks.cluster.membership_protocol import HostCheckIn, MembershipAnswer
from distcheck.checks.cluster.records import Caller, ClockOffset, Cluster, HostRecord, Roll
from distcheck.core.model import Severity, Unavailable

from .synthetic import cluster, host, loud, report, whole_roll, with_ranks, with_settings

NO_ANSWER = Unavailable("it was not given")


def missing(*ranks: int, size: int = 16, expected: Mapping[int, str] = {}, **changes: Any) -> Roll:
    """A roll to which these ranks did not come."""
    return Roll(size, size - len(ranks), ranks, expected=expected, waited_s=60.0, timeout_s=60.0)._replace(**changes)


# DC501


@pytest.mark.parametrize(
    ("roll", "text"),
    [
        (missing(3, size=8), "rank 3 of 8 did not come within 60 s"),
        (missing(*range(8, 16)), "ranks 8-15 of 16 did not come within 60 s"),
        (
            missing(*range(8, 16), expected=dict.fromkeys(range(8, 16), "node 2 of 2")),
            "ranks 8-15 of 16 did not come within 60 s, expected on node 2 of 2",
        ),
        (
            missing(*range(8, 24), size=32, expected={rank: f"gpu0{rank // 8 + 1}" for rank in range(8, 24)}),
            "ranks 8-23 of 32 did not come within 60 s, expected on gpu[02-03]",
        ),
        (
            missing(1, 9, size=32, expected={1: "node 1 of 4", 9: "node 2 of 4"}),
            "ranks 1,9 of 32 did not come within 60 s; expected: 1 on node 1 of 4, 9 on node 2 of 4",
        ),
        (
            missing(1, size=2, of="hosts", expected={1: "gpu02"}),
            "node 1 of 2 did not come within 60 s, expected on gpu02",
        ),
    ],
)
def test_bad_dc501_a_rank_is_missing(roll: Roll, text: str) -> None:
    (finding,) = every_rank_came(roll)
    assert (finding.code, finding.severity, finding.message) == ("DC501", Severity.ERROR, text)
    assert finding.evidence["missing"] == len(roll.missing)


def test_bad_dc501_rank_0_itself() -> None:
    (finding,) = every_rank_came(missing(0, size=4))
    assert "rank 0 of 4" in finding.message
    assert "start its node first" in finding.fix.text


def test_bad_dc501_thousands_are_missing_and_the_text_stays_short() -> None:
    ranks = [rank for rank in range(16384) if rank // 8 % 2]
    roll = missing(*ranks, size=16384, expected={rank: f"gpu{rank // 8:04}" for rank in ranks})
    (finding,) = every_rank_came(roll)
    assert finding.message.startswith("8,192 of 16,384 ranks (8-15,24-31,")
    assert len(finding.message) < 250
    assert len(str(finding.evidence)) < 400
    assert len(finding.where.ranks or "") < 100


def test_good_dc501_all_came() -> None:
    assert list(every_rank_came(whole_roll())) == []


# DC502


def test_bad_dc502_two_nodes_with_one_node_rank() -> None:
    surplus = tuple(Caller(rank, "gpu02", 4711 + rank, 16) for rank in range(8))
    roll = missing(*range(8, 16), surplus=surplus)
    (finding,) = no_rank_came_twice(roll)
    assert (finding.code, finding.severity) == ("DC502", Severity.ERROR)
    assert finding.message == (
        "ranks 0-7 were taken twice, the second time by processes on gpu02, and no process is ranks 8-15 of 16"
    )
    assert (finding.where.ranks, finding.where.host) == ("0-7", "gpu02")
    # one trouble, one finding: the gap is the other side of it
    assert list(every_rank_came(roll)) == []


def test_bad_dc502_one_rank_twice() -> None:
    (finding,) = no_rank_came_twice(whole_roll(8, surplus=(Caller(3, "gpu07", 4711, 8),)))
    assert finding.message == "rank 3 was taken twice, the second time by pid 4711 on gpu07"


def test_bad_dc502_and_others_are_missing_besides() -> None:
    roll = missing(*range(8, 16), surplus=(Caller(3, "gpu07", 4711, 16),))
    assert [finding.code for finding in (*every_rank_came(roll), *no_rank_came_twice(roll))] == ["DC501", "DC502"]


def test_good_dc502_nobody_twice() -> None:
    assert list(no_rank_came_twice(whole_roll())) == []
    # who counts otherwise has another trouble: DC103
    assert list(no_rank_came_twice(whole_roll(8, surplus=(Caller(3, "gpu07", 4711, 16),)))) == []


# DC103


@pytest.mark.parametrize(
    ("surplus", "words"),
    [
        ((Caller(0, "gpu02", 1, 8), Caller(1, "gpu02", 2, 8)), "ranks 0-1 of 8 on gpu02"),
        ((Caller(20, "gpu02", 1, 16),), "rank 20 on gpu02"),
        ((Caller(20, "gpu02", 1, 24), Caller(0, "gpu03", 1, 8)), "rank 20 of 24 on gpu02; rank 0 of 8 on gpu03"),
    ],
)
def test_bad_dc103_callers_that_count_otherwise(surplus: tuple[Caller, ...], words: str) -> None:
    (finding,) = callers_count_alike(whole_roll(16, surplus=surplus), NO_ANSWER)
    assert (finding.code, finding.severity) == ("DC103", Severity.ERROR)
    assert finding.message == f"the launch has 16 ranks, but some answered that count otherwise: {words}"


def test_good_dc103_callers_that_count_alike() -> None:
    assert list(callers_count_alike(whole_roll(16), NO_ANSWER)) == []
    assert list(callers_count_alike(whole_roll(16, surplus=(Caller(3, "gpu07", 1, 16),)), NO_ANSWER)) == []


def test_good_dc103_the_roll_of_hosts_has_said_it() -> None:
    roll = whole_roll(2, surplus=(Caller(0, "gpu02", 0, 3),), of="hosts")
    answer = MembershipAnswer(roll, disagreeing=(HostCheckIn(host="gpu02", node_rank=0, host_count=3),))
    assert list(callers_count_alike(roll, answer)) == []
    assert list(callers_count_alike(roll, NO_ANSWER)) != []


def test_bad_dc103_world_sizes_differ() -> None:
    (finding,) = ranks_fit_together(cluster(4, spoil={2: with_ranks(lambda rank: rank._replace(world_size=8))}))
    assert (finding.code, finding.severity, finding.where.host) == ("DC103", Severity.ERROR, "gpu03")
    assert finding.message == (
        "WORLD_SIZE differs between ranks: 32 on gpu[01-02,04] (ranks 0-15,24-31), 8 on gpu03 (ranks 16-23)"
    )


def test_bad_dc103_local_rank_exported_for_all() -> None:
    same = with_ranks(lambda rank: rank._replace(local_rank=0, device=None))
    (finding,) = ranks_fit_together(cluster(4, spoil={1: same, 3: same}))
    assert (finding.code, finding.where.host) == ("DC103", "gpu[02,04]")
    assert finding.message == "ranks 8-15 of gpu02 all have LOCAL_RANK 0; likewise on gpu04"


def test_bad_dc103_local_world_sizes_contradict() -> None:
    odd = with_ranks(lambda rank: rank._replace(local_world_size=4 if rank.rank == 9 else 8))
    (finding,) = ranks_fit_together(cluster(2, spoil={1: odd}))
    assert "LOCAL_WORLD_SIZE 4 and 8" in finding.message
    (finding,) = ranks_fit_together(cluster(2, spoil={1: with_ranks(lambda rank: rank._replace(local_world_size=4))}))
    assert finding.message == "8 ranks of gpu02 have LOCAL_WORLD_SIZE 4"


def virtual(record: HostRecord) -> HostRecord:
    """As torchrun --virtual-local-rank starts them: LOCAL_RANK 0 everywhere, one GPU in each mask."""
    return with_ranks(
        lambda rank: rank._replace(local_rank=0, settings={"CUDA_VISIBLE_DEVICES": str(rank.local_rank)})
    )(record)


def two_nodes_on_one_machine(record: HostRecord) -> HostRecord:
    """Two torchruns of four ranks each, as people try out several nodes."""
    return with_ranks(
        lambda rank: rank._replace(
            local_rank=(rank.local_rank or 0) % 4, local_world_size=4, node_rank=(rank.local_rank or 0) // 4
        )
    )(record)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(cluster(), id="healthy"),
        pytest.param(cluster(1, spoil={0: virtual}), id="virtual local ranks"),
        pytest.param(cluster(1, spoil={0: two_nodes_on_one_machine}), id="two nodes on one machine"),
        pytest.param(
            cluster(1, spoil={0: with_ranks(lambda rank: rank._replace(local_rank=0))}), id="each its own GPU anyway"
        ),
        pytest.param(
            cluster(2, spoil={1: lambda record: record._replace(ranks=record.ranks[:3])}), id="fewer than were started"
        ),
        pytest.param(
            cluster(2, spoil={0: with_ranks(lambda rank: rank._replace(local_rank=None, local_world_size=None))}),
            id="a launcher that does not number locally",
        ),
    ],
)
def test_good_dc103_ranks_fit_together(given: Cluster) -> None:
    assert list(ranks_fit_together(given)) == []


# DC508


def dealt_out(record: HostRecord) -> HostRecord:
    number = record.ranks[0].node_rank or 0
    return with_ranks(lambda rank: rank._replace(rank=(rank.local_rank or 0) * 4 + number))(record)


def test_bad_dc508_ranks_in_turn() -> None:
    (finding,) = ranks_follow_the_nodes(cluster(4, spoil=dict.fromkeys(range(4), dealt_out)))
    assert (finding.code, finding.severity) == ("DC508", Severity.INFO)
    assert finding.message == (
        "ranks are dealt out to the hosts in turn: gpu01 has 0,4,8,12,16,20,24,28; likewise on gpu[02-04]"
    )


def test_bad_dc508_c10d_took_the_nodes_as_they_came() -> None:
    given = {0: with_settings(SLURM_NODEID="1"), 1: with_settings(SLURM_NODEID="0")}
    (finding,) = ranks_follow_the_nodes(cluster(2, spoil=given))
    assert (finding.code, finding.severity, finding.where.host) == ("DC508", Severity.INFO, "gpu[01-02]")
    assert "gpu01 was given node number 1 and gpu02 0" in finding.message


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(cluster(), id="node by node"),
        pytest.param(
            cluster(2, spoil={0: with_settings(SLURM_NODEID="2"), 1: with_settings(SLURM_NODEID="5")}),
            id="some nodes of a larger allocation, in order",
        ),
        pytest.param(
            cluster(2, spoil={0: with_settings(NODE_RANK="0"), 1: with_settings(NODE_RANK="0")}),
            id="a number that was exported for all",
        ),
        pytest.param(cluster(1, spoil={0: dealt_out}), id="one host"),
        pytest.param(
            cluster(2, spoil={0: lambda record: record._replace(ranks=record.ranks[::2])}), id="not all ranks are known"
        ),
    ],
)
def test_good_dc508_ranks_follow_the_nodes(given: Cluster) -> None:
    assert list(ranks_follow_the_nodes(given)) == []


# DC506


def same_machine(**namespaces: str) -> Cluster:
    """Two containers of one machine that are called the same."""
    first, second = host(0, world=16), host(1, world=16)
    return Cluster(
        (first, second._replace(host="gpu01", boot_id=first.boot_id, namespaces={**first.namespaces, **namespaces})),
        "nccl",
        16,
    )


@pytest.mark.parametrize(
    ("namespaces", "words"), [({"shm": "0:77"}, "/dev/shm"), ({"ipc": "4026532000"}, "IPC namespace")]
)
def test_bad_dc506_one_host_to_nccl(namespaces: dict[str, str], words: str) -> None:
    (finding,) = hosts_are_distinct(same_machine(**namespaces))
    assert (finding.code, finding.severity, finding.where.ranks) == ("DC506", Severity.WARNING, "0-15")
    assert finding.message.endswith(f"but they share no {words}")


def test_bad_dc506_one_host_id_for_all() -> None:
    given = cluster(4, spoil={number: with_settings(NCCL_HOSTID="node") for number in range(4)})
    (finding,) = hosts_are_distinct(given)
    assert (finding.severity, finding.where.variable, finding.where.host) == (
        Severity.WARNING,
        "NCCL_HOSTID",
        "gpu[01-04]",
    )


@pytest.mark.parametrize(("rendezvous", "severity"), [("c10d", Severity.WARNING), (None, Severity.INFO)])
def test_bad_dc506_two_machines_of_one_name(rendezvous: str | None, severity: Severity) -> None:
    given = cluster(2, spoil={1: lambda record: record._replace(host="gpu01")}, rendezvous=rendezvous)
    (finding,) = hosts_are_distinct(given)
    assert (finding.severity, finding.where.host) == (severity, "gpu01")


def test_bad_dc506_one_machine_looks_like_two() -> None:
    given = cluster(2, spoil={1: lambda record: record._replace(boot_id="b00t00000000")})
    (finding,) = hosts_are_distinct(given)
    assert finding.severity is Severity.INFO
    assert "containers of one machine" in finding.message


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(cluster(), id="healthy"),
        pytest.param(same_machine(uts="4026533000"), id="containers that share memory"),
        pytest.param(
            cluster(2, spoil={number: lambda record: record._replace(boot_id="") for number in (0, 1)}), id="no boot_id"
        ),
        pytest.param(
            cluster(2, spoil={1: lambda record: record._replace(boot_id="b00t00000000")}, backend="gloo"),
            id="containers of one machine under gloo",
        ),
        pytest.param(
            Cluster(
                tuple(
                    record._replace(settings={"NCCL_HOSTID": str(number)})
                    for number, record in enumerate(same_machine(shm="0:77").hosts)
                ),
                "nccl",
                16,
            ),
            id="told apart by NCCL_HOSTID",
        ),
        pytest.param(same_machine(shm="0:77")._replace(launched=False), id="no launch"),
    ],
)
def test_good_dc506_hosts_are_distinct(given: Cluster) -> None:
    assert [finding for finding in hosts_are_distinct(given) if finding.severity > Severity.INFO] == []


# DC505


def clocks(*offsets: float, error: float = 0.01, rendezvous: str | None = "c10d", **changes: Any) -> Cluster:
    given = cluster(len(offsets), rendezvous=rendezvous, **changes)
    return given._replace(
        hosts=tuple(
            record._replace(clock=ClockOffset(offset, error))
            for record, offset in zip(given.hosts, offsets, strict=True)
        )
    )


@pytest.mark.parametrize(
    ("given", "severity", "named"),
    [
        (clocks(0, 0, 3.5, 0), Severity.WARNING, "gpu03"),
        (clocks(0, 0, -40, 0), Severity.ERROR, "gpu03"),
        (clocks(0, 0, -40, 0, rendezvous="static"), Severity.INFO, "gpu03"),
        (clocks(0, 0, -40, 0, rendezvous=None), Severity.INFO, "gpu03"),
        (clocks(0, 0, 40, 0, launched=False), Severity.INFO, "gpu03"),
        # the first host, by which all were measured, is the one that is wrong
        (clocks(0, 5, 5.01, 4.99), Severity.WARNING, "gpu01"),
        (clocks(0, 5), Severity.WARNING, "gpu[01-02]"),
    ],
)
def test_bad_dc505_clocks_differ(given: Cluster, severity: Severity, named: str) -> None:
    (finding,) = clocks_agree(given)
    assert (finding.code, finding.severity, finding.where.host) == ("DC505", severity, named)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(cluster(rendezvous="c10d"), id="healthy"),
        pytest.param(clocks(0, 1.2, error=0.3), id="not known exactly enough"),
        pytest.param(clocks(0, 0.9), id="less than a second"),
        pytest.param(clocks(60), id="one host"),
        pytest.param(
            cluster(spoil={number: lambda record: record._replace(clock=None) for number in range(4)}),
            id="not measured",
        ),
    ],
)
def test_good_dc505_clocks_agree(given: Cluster) -> None:
    assert list(clocks_agree(given)) == []


@given(st.lists(st.floats(-0.4, 0.4), min_size=2, max_size=40), st.floats(0, 0.2))
def test_good_dc505_small_differences_never_speak(offsets: list[float], error: float) -> None:
    assert list(clocks_agree(clocks(*offsets, error=error))) == []


def test_good_healthy_hosts_give_nothing() -> None:
    found = report(cluster(rendezvous="c10d"), whole_roll())
    assert found.findings == ()
    assert loud(found) == []
    assert {"DC103", "DC501", "DC502", "DC505", "DC506", "DC508"} <= found.checked
