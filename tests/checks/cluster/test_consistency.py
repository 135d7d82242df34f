"""Versions, settings, code and backends of many hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from distcheck.checks.cluster.consistency import backends_agree, code_agrees, settings_agree, versions_agree
from distcheck.checks.cluster.records import Cluster, Code, HostRecord, RankRecord
from distcheck.core.model import Finding, Severity

from .synthetic import COMMIT, cluster, loud, report, with_ranks, with_settings, with_versions


def only(findings: object) -> Finding:
    (finding,) = findings  # type: ignore[misc]
    assert isinstance(finding, Finding)
    return finding


# DC503


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            with_versions(torch="2.5.1+cu124"),
            "versions differ between hosts: torch 2.13.0 on gpu[01-02,04], torch 2.5.1 on gpu03",
        ),
        (
            with_versions(nccl="2.27.5"),
            "versions differ between hosts: NCCL 2.28.9 on gpu[01-02,04], NCCL 2.27.5 on gpu03",
        ),
        (
            # another image: one trouble, one finding
            with_versions(torch="2.5.1+cu124", cuda="12.4", nccl="2.21.5"),
            "versions differ between hosts: torch 2.13.0, CUDA 13.0, NCCL 2.28.9 on gpu[01-02,04], "
            "torch 2.5.1, CUDA 12.4, NCCL 2.21.5 on gpu03",
        ),
    ],
)
def test_bad_dc503_the_minority_is_named(change: object, text: str) -> None:
    finding = only(versions_agree(cluster(spoil={2: change})))  # type: ignore[dict-item]
    assert (finding.code, finding.severity, finding.where.host) == ("DC503", Severity.ERROR, "gpu03")
    assert finding.message == text


def test_bad_dc503_no_majority_blames_nobody() -> None:
    finding = only(versions_agree(cluster(2, spoil={1: with_versions(torch="2.5.1")})))
    assert (finding.severity, finding.where.host) == (Severity.ERROR, None)
    assert finding.message.endswith("torch 2.13.0 on gpu01, torch 2.5.1 on gpu02")


def test_bad_dc503_builds_between_releases_are_different_ones() -> None:
    nightly = {number: with_versions(torch="2.7.0a0+7c8ec84dab.nv25.03") for number in range(4)}
    given = cluster(spoil={**nightly, 3: with_versions(torch="2.7.0a0+79aa17489c.nv25.04")})
    finding = only(versions_agree(given))
    assert (finding.severity, finding.where.host) == (Severity.ERROR, "gpu04")


def test_bad_dc503_a_host_that_does_not_tell_is_not_blamed() -> None:
    given = cluster(
        spoil={
            1: with_versions(nccl=None),
            2: with_versions(torch="2.5.1", nccl="2.21.5"),
            3: with_versions(torch=None, nccl=None, cuda=None),
        }
    )
    finding = only(versions_agree(given))
    assert finding.message == (
        "versions differ between hosts: torch 2.13.0, NCCL 2.28.9 on gpu[01-02], torch 2.5.1, NCCL 2.21.5 on gpu03"
    )
    assert finding.where.host == "gpu03"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_versions(driver="580.82.07"), "driver 580.65.06 on gpu[01-02,04], 580.82.07 on gpu03"),
        (with_versions(python="3.12.7"), "python 3.12.4 on gpu[01-02,04], 3.12.7 on gpu03"),
        # the same release in another wrapping
        (with_versions(torch="2.13.0"), "torch 2.13.0+cu130 on gpu[01-02,04], 2.13.0 on gpu03"),
        (with_versions(python="3.12.7", driver="580.82.07"), "3.12.7 on gpu03; driver 580.65.06"),
    ],
)
def test_bad_dc503_what_need_not_be_equal_is_info(change: object, words: str) -> None:
    finding = only(versions_agree(cluster(spoil={2: change})))  # type: ignore[dict-item]
    assert (finding.severity, finding.where.host) == (Severity.INFO, "gpu03")
    assert words in finding.message


def test_bad_dc503_nccl_counts_only_where_it_is_used() -> None:
    spoil = {2: with_versions(nccl="2.27.5", cuda="12.9")}
    assert only(versions_agree(cluster(spoil=spoil, backend="gloo"))).severity is Severity.INFO
    assert only(versions_agree(cluster(spoil=spoil, launched=False))).severity is Severity.INFO


def test_good_dc503_equal_versions() -> None:
    assert list(versions_agree(cluster())) == []
    assert list(versions_agree(cluster(1, spoil={0: with_versions(torch="2.5.1")}))) == []


# DC504


@pytest.mark.parametrize("name", ["NCCL_ALGO", "NCCL_PROTO", "NCCL_NET", "NCCL_IB_DISABLE", "NCCL_BUFFSIZE"])
def test_bad_dc504_what_nccl_needs_equal(name: str) -> None:
    finding = only(settings_agree(cluster(spoil={3: with_settings(**{name: "1"})})))
    assert (finding.code, finding.severity) == ("DC504", Severity.WARNING)
    assert (finding.where.variable, finding.where.host) == (name, "gpu04")
    assert finding.message == (
        f"NCCL needs equal settings on all ranks: {name} not set on gpu[01-03], {name}=1 on gpu04"
    )


def test_bad_dc504_an_environment_that_did_not_come_along_is_one_finding() -> None:
    values = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NET": "IB"}
    given = cluster(spoil={number: with_settings(**values) for number in range(3)})
    finding = only(settings_agree(given))
    assert finding.message == (
        "NCCL needs equal settings on all ranks: NCCL_ALGO=Ring on gpu[01-03], NCCL_ALGO not set on gpu04; "
        "likewise NCCL_NET, NCCL_PROTO"
    )
    assert finding.evidence["variables"] == ["NCCL_ALGO", "NCCL_NET", "NCCL_PROTO"]


def test_bad_dc504_the_file_is_named() -> None:
    def change(record: HostRecord) -> HostRecord:
        return with_settings(NCCL_ALGO="Tree")(record)._replace(origins={"NCCL_ALGO": "/etc/nccl.conf:3"})

    finding = only(settings_agree(cluster(spoil={3: change})))
    assert "(NCCL_ALGO from /etc/nccl.conf:3 on gpu04)" in finding.message
    assert "administrator" in finding.fix.text


def test_bad_dc504_ranks_of_one_host_differ() -> None:
    def change(rank: RankRecord) -> RankRecord:
        return rank._replace(settings={"NCCL_ALGO": "Ring"}) if rank.rank in (2, 3) else rank

    finding = only(settings_agree(cluster(1, spoil={0: with_ranks(change)})))
    assert finding.severity is Severity.WARNING
    assert "NCCL_ALGO=Ring on gpu01 (ranks 2-3)" in finding.message


def test_bad_dc504_detail_on_some_ranks_whatever_the_backend() -> None:
    finding = only(settings_agree(cluster(spoil={3: with_settings(TORCH_DISTRIBUTED_DEBUG="DETAIL")}, backend="gloo")))
    assert (finding.severity, finding.where.variable) == (Severity.WARNING, "TORCH_DISTRIBUTED_DEBUG")
    assert finding.message.startswith("torch needs equal settings")


def test_bad_dc504_the_rest_is_one_info() -> None:
    given = cluster(spoil={3: with_settings(NCCL_DEBUG="INFO", OMP_NUM_THREADS="4", PYTHONPATH="/opt/x")})
    finding = only(settings_agree(given))
    assert (finding.severity, finding.where.host) == (Severity.INFO, "gpu04")
    assert finding.message == (
        "settings that need not be equal differ between hosts: NCCL_DEBUG (gpu04), OMP_NUM_THREADS (gpu04), "
        "PYTHONPATH (gpu04)"
    )


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        pytest.param({"NCCL_SOCKET_IFNAME": "eno1", "NCCL_IB_HCA": "mlx5_1"}, {}, id="names of a node's devices"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "4,5,6,7", "NODE_RANK": "3", "TMPDIR": "/tmp/x"}, {}, id="of a node"),
        pytest.param({"NCCL_IB_DISABLE": "0", "NCCL_P2P_DISABLE": "0"}, {}, id="the default, written out"),
        pytest.param({"NCCL_ALGO": ""}, {}, id="empty is not set"),
        pytest.param({"TORCH_DISTRIBUTED_DEBUG": "OFF"}, {}, id="off is not set"),
        pytest.param({"NCCL_ALGO": "Ring"}, {"backend": "gloo"}, id="NCCL is not used"),
        pytest.param({"NCCL_ALGO": "Ring"}, {"launched": False}, id="no launch"),
    ],
)
def test_good_dc504_no_warning(settings: Mapping[str, str], changes: Mapping[str, Any]) -> None:
    given = cluster(spoil={3: with_settings(**settings)}, **changes)
    assert [finding for finding in settings_agree(given) if finding.severity > Severity.INFO] == []


def test_good_dc504_equal_settings_in_another_case() -> None:
    spoil = {number: with_settings(NCCL_ALGO="ring" if number % 2 else "Ring") for number in range(4)}
    assert list(settings_agree(cluster(spoil=spoil))) == []


def test_good_dc504_what_a_site_closes_on_one_host() -> None:
    def change(record: HostRecord) -> HostRecord:
        return with_settings(NCCL_P2P_DISABLE="1")(record)._replace(origins={"NCCL_P2P_DISABLE": "/etc/nccl.conf:1"})

    assert only(settings_agree(cluster(spoil={3: change}))).severity is Severity.INFO


# DC507


def at(commit: str, folder: str = "/scratch/job") -> object:
    return lambda record: record._replace(code=Code(folder, commit, "main"))


def test_bad_dc507_another_commit() -> None:
    finding = only(code_agrees(cluster(spoil={1: at("f" * 40)})))  # type: ignore[dict-item]
    assert (finding.code, finding.severity, finding.where.host) == ("DC507", Severity.WARNING, "gpu02")
    assert finding.message == (
        "the code differs between hosts: commit 0123456789ab on gpu[01,03-04], commit ffffffffffff on gpu02"
    )
    assert only(code_agrees(cluster(spoil={1: at("f" * 40)}, launched=False))).severity is Severity.INFO  # type: ignore[dict-item]


def test_bad_dc507_one_host_has_no_repository() -> None:
    finding = only(code_agrees(cluster(spoil={1: at("", "/tmp")})))  # type: ignore[dict-item]
    assert (finding.severity, finding.where.host) == (Severity.INFO, "gpu02")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(at(COMMIT, "/home/user/job"), id="another folder, the same commit"),
        pytest.param(lambda record: record._replace(code=None), id="not read on one host"),
    ],
)
def test_good_dc507_one_commit(change: object) -> None:
    assert list(code_agrees(cluster(spoil={1: change}))) == []  # type: ignore[dict-item]
    assert list(code_agrees(cluster(spoil=dict.fromkeys(range(4), at(""))))) == []  # type: ignore[arg-type]


# DC120


def cpu_build(record: HostRecord) -> HostRecord:
    return with_versions(torch="2.13.0+cpu", cuda=None, nccl=None)(record._replace(backends=("gloo",)))


def test_bad_dc120_one_host_has_a_build_for_cpus() -> None:
    finding = only(backends_agree(cluster(spoil={2: cpu_build})))
    assert (finding.code, finding.severity, finding.where.host) == ("DC120", Severity.ERROR, "gpu03")
    assert finding.message == (
        "torch 2.13.0+cpu on gpu03 has no NCCL, which the ranks are to use and that of the other 3 hosts has"
    )
    assert only(backends_agree(cluster(spoil={2: cpu_build}, backend=None))).severity is Severity.INFO


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(cluster(), id="all have it"),
        pytest.param(cluster(spoil=dict.fromkeys(range(4), cpu_build)), id="nobody has it: each says so itself"),
        pytest.param(cluster(spoil={2: cpu_build}, backend="gloo"), id="nobody needs it"),
        pytest.param(cluster(spoil={2: lambda record: record._replace(backends=())}), id="not known on one host"),
    ],
)
def test_good_dc120_backends(given: Cluster) -> None:
    assert list(backends_agree(given)) == []


def test_a_healthy_cluster_is_silent() -> None:
    assert loud(report(cluster(64))) == []


def test_bad_dc503_many_kinds_stay_short() -> None:
    given = cluster(
        256, 1, spoil={number: with_versions(torch=f"2.{number % 50}.0", driver=f"{number}") for number in range(256)}
    )
    for finding in versions_agree(given):
        assert len(finding.message) < 500
        assert len(str(finding.evidence)) < 600
