"""GPUs of many hosts and ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distcheck.checks.cluster.comparison import judge
from distcheck.checks.cluster.hardware import hosts_have_equal_gpus, hosts_run_at_speed, ranks_have_gpus_of_their_own
from distcheck.checks.cluster.records import Cluster, Device, HostRecord, RankRecord
from distcheck.core.model import Severity, Unavailable
from distcheck.rules import Selection

from .synthetic import cluster, gpu, report, with_ranks, with_settings


def all_on(host: int, index: int = 0) -> Callable[[HostRecord], HostRecord]:
    """All ranks of a host take one of its GPUs."""
    return with_ranks(lambda rank: rank._replace(device=gpu(host, index)))


# DC303


def test_bad_dc303_all_ranks_take_the_first_gpu() -> None:
    (finding,) = ranks_have_gpus_of_their_own(cluster(2, spoil={1: all_on(1)}))
    assert (finding.code, finding.severity) == ("DC303", Severity.ERROR)
    assert (finding.where.host, finding.where.ranks, finding.where.gpu) == ("gpu02", "8-15", "GPU-00000001-0000")
    assert finding.message == (
        "several ranks would use one GPU: ranks 8-15 on gpu02 (NVIDIA H100 80GB HBM3 GPU-00000001-0000)"
    )


def test_bad_dc303_two_ranks_on_the_only_gpu() -> None:
    def one_gpu(record: HostRecord) -> HostRecord:
        return all_on(0)(record)._replace(gpus=record.gpus[:1])

    (finding,) = ranks_have_gpus_of_their_own(cluster(1, 2, spoil={0: one_gpu}))
    assert (finding.severity, finding.where.ranks) == (Severity.ERROR, "0-1")
    assert "--nproc-per-node=1" in finding.fix.text


def test_bad_dc303_gloo_and_an_unknown_backend_are_milder() -> None:
    for backend in ("gloo", None):
        (finding,) = ranks_have_gpus_of_their_own(cluster(2, spoil={1: all_on(1)}, backend=backend))
        assert finding.severity is Severity.INFO


def test_bad_dc303_two_containers_were_given_one_gpu() -> None:
    def second(record: HostRecord) -> HostRecord:
        return with_ranks(lambda rank: rank._replace(device=gpu(0, rank.local_rank or 0)))(record)._replace(
            boot_id="b00t00000000"
        )

    (finding,) = ranks_have_gpus_of_their_own(cluster(2, 1, spoil={1: second}))
    # NCCL takes them for two hosts and does not refuse
    assert (finding.severity, finding.where.host) == (Severity.INFO, "gpu[01-02]")
    assert "each container" in finding.fix.text


def test_bad_dc303_many_hosts_stay_short() -> None:
    given = cluster(64, spoil={number: all_on(number) for number in range(64)})
    (finding,) = ranks_have_gpus_of_their_own(given)
    assert finding.message.endswith("and 60 more GPUs")
    assert len(finding.message) < 600
    assert finding.where.host == "gpu[01-64]"


def mig(nccl: str, gpus: int = 1) -> Callable[[HostRecord], HostRecord]:
    """Each rank has a MIG instance of its own, of so many GPUs."""

    def cut(record: HostRecord) -> HostRecord:
        def slice_of(rank: RankRecord) -> RankRecord:
            return rank._replace(device=gpu(0, rank.rank % gpus)._replace(uuid=f"MIG-{rank.rank}"))

        return with_ranks(slice_of)(record)._replace(versions={**record.versions, "nccl": nccl})

    return cut


def test_bad_dc303_mig_instances_of_one_gpu_are_one_to_nccl() -> None:
    (finding,) = ranks_have_gpus_of_their_own(cluster(1, 4, spoil={0: mig("2.27.5", gpus=2)}))
    assert (finding.severity, finding.where.ranks) == (Severity.ERROR, "0-3")
    assert "whose MIG instances are one GPU to NCCL" in finding.message
    assert "turn MIG off" in finding.fix.text
    (finding,) = ranks_have_gpus_of_their_own(cluster(1, 4, spoil={0: mig("2.27.5")}, backend="gloo"))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(cluster(), id="one GPU each"),
        pytest.param(cluster(1, spoil={0: mig("2.30.1")}), id="MIG instances of one GPU, as NCCL knows from 2.30 on"),
        pytest.param(cluster(1, spoil={0: mig("")}), id="MIG instances of one GPU, and an unknown NCCL"),
        pytest.param(cluster(1, 4, spoil={0: mig("2.27.5", gpus=4)}), id="a MIG instance of each GPU"),
        pytest.param(
            cluster(2, spoil={1: with_ranks(lambda rank: rank._replace(device=gpu(0, rank.local_rank or 0)))}),
            id="UUIDs that cloned machines have in common",
        ),
        pytest.param(
            cluster(2, spoil=dict.fromkeys((0, 1), with_ranks(lambda rank: rank._replace(device=Device("", f"0000:0{rank.local_rank}:00.0"))))),
            id="no UUIDs, and PCI addresses that are the same on all hosts",
        ),
        pytest.param(cluster(1, spoil={0: with_ranks(lambda rank: rank._replace(device=None))}), id="no GPU"),
    ],
)  # fmt: skip
def test_good_dc303_gpus_of_their_own(given: Cluster) -> None:
    assert list(ranks_have_gpus_of_their_own(given)) == []


@pytest.mark.parametrize(
    "allow",
    [
        pytest.param(with_settings(NCCL_MULTI_RANK_GPU_ENABLE="1"), id="NCCL lets them share"),
        pytest.param(with_ranks(lambda rank: rank._replace(settings={"NCCL_HOSTID": str(rank.rank)})), id="host ids"),
    ],
)
def test_good_dc303_sharing_on_purpose_is_info(allow: Callable[[HostRecord], HostRecord]) -> None:
    given = cluster(1, spoil={0: lambda record: allow(all_on(0)(record))})
    assert [finding.severity for finding in ranks_have_gpus_of_their_own(given)] == [Severity.INFO]


# DC308


def with_gpus(name: str) -> Callable[[HostRecord], HostRecord]:
    """A host with other GPUs."""

    def change(record: HostRecord) -> HostRecord:
        gpus = tuple(device._replace(name=name) for device in record.gpus)
        ranks = (rank._replace(device=gpus[rank.local_rank or 0]) for rank in record.ranks)
        return record._replace(gpus=gpus, ranks=tuple(ranks))

    return change


def test_bad_dc308_one_host_has_other_gpus() -> None:
    given = cluster(spoil={2: with_gpus("NVIDIA A100-SXM4-80GB")})
    (finding,) = hosts_have_equal_gpus(given)
    assert (finding.code, finding.severity, finding.where.host) == ("DC308", Severity.WARNING, "gpu03")
    assert finding.message == (
        "the hosts have GPUs of different kinds: NVIDIA H100 80GB HBM3 on gpu[01-02,04], NVIDIA A100-SXM4-80GB on gpu03"
    )
    for quiet in (given._replace(backend="gloo"), given._replace(launched=False)):
        assert [finding.severity for finding in hosts_have_equal_gpus(quiet)] == [Severity.INFO]


def test_bad_dc308_no_launch_compares_all_gpus() -> None:
    given = cluster(spoil={2: with_gpus("NVIDIA A100-SXM4-80GB")}, launched=False)
    given = given._replace(hosts=tuple(record._replace(ranks=()) for record in given.hosts))
    (finding,) = hosts_have_equal_gpus(given)
    assert (finding.severity, finding.where.host) == (Severity.INFO, "gpu03")


def display_card(record: HostRecord) -> HostRecord:
    """A GPU that no rank uses."""
    return record._replace(gpus=(*record.gpus, Device("GPU-t400", "0000:ff:00.0", "NVIDIA T400")))


def mixed(record: HostRecord) -> HostRecord:
    """Two kinds in one host: it says so itself."""
    return with_ranks(
        lambda rank: (
            rank if rank.rank % 2 or rank.device is None else rank._replace(device=rank.device._replace(name="T4"))
        )
    )(record)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(cluster(), id="equal"),
        pytest.param(cluster(spoil={1: display_card}), id="a display card that nobody uses"),
        pytest.param(cluster(spoil=dict.fromkeys(range(4), mixed)), id="the same mixture everywhere"),
        pytest.param(cluster(1, spoil={0: mixed}), id="one host"),
        pytest.param(
            cluster(spoil={1: lambda record: with_ranks(lambda rank: rank._replace(device=None))(record)._replace(gpus=())}),
            id="GPUs not seen on one host",
        ),
    ],
)  # fmt: skip
def test_good_dc308_equal_gpus(given: Cluster) -> None:
    assert list(hosts_have_equal_gpus(given)) == []


# DC310


def hot(*indices: int, reason: str = "hw-thermal") -> Callable[[HostRecord], HostRecord]:
    """A host of which these GPUs are slowed down."""

    def change(record: HostRecord) -> HostRecord:
        return record._replace(
            gpus=tuple(
                device._replace(throttle=(reason,)) if index in indices else device
                for index, device in enumerate(record.gpus)
            )
        )

    return change


def test_bad_dc310_hosts_are_slowed_down() -> None:
    given = cluster(spoil={1: hot(0), 3: hot(2, 3, reason="hw-power-brake")})
    (finding,) = hosts_run_at_speed(given)
    assert (finding.code, finding.severity) == ("DC310", Severity.WARNING)
    assert (finding.where.host, finding.where.ranks) == ("gpu[02,04]", "8,26-27")
    assert finding.message.startswith("3 GPUs on gpu[02,04] are slowed down by the power supply's brake signal and ")
    assert finding.evidence == {
        "gpus": 3,
        "hosts": 2,
        "gpus_by_reason": {"the power supply's brake signal": 2, "its temperature (the hardware's own limit)": 1},
    }
    (finding,) = hosts_run_at_speed(given._replace(launched=False))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(cluster(), id="cool"),
        pytest.param(cluster(spoil={1: hot(0, reason="sw-power-cap")}), id="a power cap that somebody wants"),
        pytest.param(cluster(1, spoil={0: hot(0)}), id="one host says so itself"),
        pytest.param(
            cluster(spoil={1: lambda record: hot(7)(record)._replace(ranks=record.ranks[:4])}),
            id="nobody uses that one",
        ),
    ],
)
def test_good_dc310_at_speed(given: Cluster) -> None:
    assert list(hosts_run_at_speed(given)) == []


# the run as a whole


def test_what_was_not_given_is_not_checked_and_what_there_is_not_is_silent() -> None:
    found = report(cluster())
    assert found.not_checked == ()
    assert "DC501" not in found.checked
    found = judge(Unavailable("the roll was not complete"), plug_ins=False)
    (item,) = (item for item in found.not_checked if "DC503" in item.what)
    assert item.why == "the roll was not complete"


def test_a_selection_holds() -> None:
    given = cluster(2, spoil={1: all_on(1)})
    assert judge(given, selection=Selection.of(["DC308"]), plug_ins=False, command="env").findings == ()
    assert judge(given, plug_ins=False, command="env").command == "env"


def test_rank_records_are_not_judged_by_their_order() -> None:
    given = cluster(2, spoil={1: all_on(1)})
    turned = given._replace(
        hosts=tuple(host._replace(ranks=tuple(sorted(host.ranks, key=_backwards))) for host in reversed(given.hosts))
    )
    assert [item.message for item in report(turned).findings] == [item.message for item in report(given).findings]


def _backwards(rank: RankRecord) -> int:
    return -rank.rank
