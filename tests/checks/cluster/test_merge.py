"""Reports of many hosts become one: who shares what, who is missing, whom to leave out, on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck import rules
from distcheck.checks.cluster.merge import (
    HostReport,
    Missing,
    cluster_of,
    group_findings,
    hosts_to_leave_out,
    merge,
    one_per_host,
    silent_hosts,
)
from distcheck.checks.cluster.records import HostRecord, RankRecord
from distcheck.core.model import Finding, Fix, NotChecked, ProbeRun, Report, Severity, Where
from distcheck.launch.schedulers import expand_hostlist
from distcheck.reporters import Style, merged, render

ON_HOST = Fix("have an administrator reset the GPU, or use another host", by="admin", where="host")


def name_of(number: int) -> str:
    return f"gpu{number:04d}"


def host(number: int, *findings: Finding, line: tuple[str, ...] = (), **report: Any) -> HostReport:
    name = name_of(number)
    shown = (name, "8 × NVIDIA H100 80GB HBM3", "driver 570.124.06", "torch 2.8.0+cu128", "NCCL 2.27.3", *line)
    subject = {"host": name, "driver": "570.124.06", "torch": "2.8.0+cu128", "line": list(shown)}
    own = Report("env", "shell", subject, findings, checked=frozenset({"DC301", "DC309"}), elapsed_s=0.2, **report)
    return HostReport(name, own, HostRecord(name, boot_id=f"boot-{number}"))


def broken_gpu(gpu: int, count: int = 2, severity: Severity = Severity.ERROR) -> Finding:
    return rules.DC309.found(
        f"GPU {gpu} has {count} uncorrected memory errors since it was started",
        fix=ON_HOST,
        where=Where(gpu=str(gpu)),
        evidence={"uncorrected": count, "kind": "volatile"},
        severity=severity,
    )


def unresolvable(name: str = "node1") -> Finding:
    return rules.DC404.found(
        f"'{name}' (MASTER_ADDR) does not resolve on this host: Name or service not known",
        fix=Fix("give the address of that host or a name that all nodes know", where="launch-line"),
        where=Where(variable="MASTER_ADDR"),
        evidence={"name": name},
    )


def small_memory(number: int, free: int) -> Finding:
    return rules.DC320.found(
        f"/dev/shm of {name_of(number)} has {free} bytes free",
        fix=Fix(f"give the container more shared memory, of which it has {free}", where="job-script"),
        evidence={"free_bytes": free, "path": "/dev/shm"},
    )


def one(hosts: list[HostReport], **more: Any) -> Report:
    return merge(one_per_host(hosts), **more)


# what is equal


def test_what_is_equal_stands_in_one_line() -> None:
    report = one([host(number) for number in range(1, 41)])
    assert report.subject["line"] == [
        "40 hosts", "8 × NVIDIA H100 80GB HBM3", "driver 570.124.06", "torch 2.8.0+cu128", "NCCL 2.27.3",
    ]  # fmt: skip
    assert report.subject["host"] == "gpu[0001-0040]"
    assert report.subject["torch"] == "2.8.0+cu128"
    assert report.subject["closing"] == []
    assert (report.stage, report.findings, report.not_checked) == ("shell", (), ())
    assert report.checked == {"DC301", "DC309"}


def test_what_differs_is_not_in_the_line() -> None:
    odd = host(2)
    subject = {**odd.report.subject, "driver": "535.1", "line": [name_of(2), "driver 535.1", "torch 2.8.0+cu128"]}
    report = one([host(1), odd._replace(report=odd.report._replace(subject=subject)), host(3)])
    assert report.subject["line"] == ["3 hosts", "torch 2.8.0+cu128"]
    assert report.subject["driver"] is None


def test_a_rule_that_one_host_did_not_check_is_not_checked() -> None:
    lame = host(2)
    lame = lame._replace(report=lame.report._replace(checked=frozenset({"DC301"})))
    assert one([host(1), lame]).checked == {"DC301"}
    judged = Report("env", checked=frozenset({"DC503"}))
    assert one([host(1), lame], judged=judged).checked == {"DC301", "DC503"}
    assert one([host(1)], judged=judged, missing=Missing(silent=("gpu0002",))).checked == frozenset()


# findings


def test_bad_the_same_finding_is_said_once_with_its_hosts() -> None:
    report = one([host(1), host(7, broken_gpu(3)), host(31, broken_gpu(3))])
    (finding,) = report.findings
    assert finding.where == Where(host="gpu[0007,0031]", gpu="3")
    assert finding.message == "GPU 3 has 2 uncorrected memory errors since it was started"
    assert finding.evidence == {"uncorrected": 2, "kind": "volatile", "hosts": 2}


def test_bad_findings_that_differ_in_numbers_are_one() -> None:
    report = one([host(1), host(7, broken_gpu(3)), host(31, broken_gpu(5, count=9)), host(9, broken_gpu(3))])
    (finding,) = report.findings
    assert finding.message == (
        "GPU 3 has 2 uncorrected memory errors since it was started (on gpu0007; 2 more hosts alike)"
    )
    assert finding.where == Where(host="gpu[0007,0009,0031]")
    assert finding.evidence["uncorrected"] == {"lowest": 2, "highest": 9}
    assert finding.evidence["gpu_on_host"] == {"gpu0007": "3", "gpu0009": "3", "gpu0031": "5"}


def test_bad_several_on_one_host_are_one_and_the_host_counts_once() -> None:
    (finding,) = one([host(1), host(7, *(broken_gpu(gpu) for gpu in range(8)))]).findings
    assert finding.where.host == "gpu0007"
    assert finding.message.endswith("since it was started (7 more alike)")
    assert finding.evidence["hosts"] == 1


def test_bad_names_of_hosts_in_messages_do_not_keep_findings_apart() -> None:
    hosts = [host(number, small_memory(number, 1000 + number)) for number in range(1, 513)]
    (finding,) = one(hosts).findings
    assert finding.where.host == "gpu[0001-0512]"
    assert finding.evidence["free_bytes"] == {"lowest": 1001, "highest": 1512}
    assert "511 more hosts alike" in finding.message


def test_good_other_severities_variables_and_troubles_stay_apart() -> None:
    def debug(name: str) -> Finding:
        return rules.DC113.found(f"{name}=INFO is left over", fix=Fix("unset it"), where=Where(variable=name))

    lost = rules.DC309.found("the driver has lost a GPU", fix=Fix("reboot the host", by="admin", where="host"))
    report = one(
        [
            host(1, broken_gpu(0), debug("NCCL_DEBUG"), debug("TORCH_DISTRIBUTED_DEBUG")),
            host(2, broken_gpu(0, severity=Severity.INFO), lost),
        ]
    )
    assert [(item.code, item.severity.word, item.where.host) for item in report.findings] == [
        ("DC309", "error", "gpu0001"),
        ("DC309", "error", "gpu0002"),
        ("DC113", "info", "gpu0001"),
        ("DC113", "info", "gpu0001"),
        ("DC309", "info", "gpu0002"),
    ]


def test_ranks_of_many_hosts_add_up() -> None:
    def of(ranks: str) -> Finding:
        return broken_gpu(0)._replace(where=Where(gpu="0", ranks=ranks))

    (finding,) = group_findings([("a", "a", [of("0-7")]), ("b", "b", [of("8-15")]), ("c", "c", [of("24")])])
    assert finding.where == Where(host="a,b,c", gpu="0", ranks="0-15,24")


def test_failed_probes_are_kept_once() -> None:
    failed = ProbeRun("host.gpus.read_gpus", "failed", 0.1, "Traceback …")
    ran = ProbeRun("host.ports.x", "ran", 0.1)
    report = one([host(number, probes=(failed, ran)) for number in range(3)])
    assert report.probes == (failed,)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 7), st.integers(1, 3)), min_size=1, max_size=60))
def test_no_finding_and_no_host_is_lost(seen: list[tuple[int, int, int]]) -> None:
    by_host: dict[int, list[Finding]] = {}
    for number, gpu, count in seen:
        severity = Severity.ERROR if gpu else Severity.INFO
        by_host.setdefault(number, []).append(broken_gpu(gpu, count, severity))
    found = group_findings((name_of(number), name_of(number), items) for number, items in by_host.items())
    named = {(item.severity, name) for item in found for name in expand_hostlist(item.where.host or "")}
    assert named == {(Severity.ERROR if gpu else Severity.INFO, name_of(number)) for number, gpu, _ in seen}
    assert len(found) == len({bool(gpu) for _, gpu, _ in seen})


# who is missing, and whom to leave out


def test_bad_silent_hosts_are_named_and_not_fine() -> None:
    missing = Missing(silent=("gpu0017", "gpu0019"), waited_s=30.0)
    report = one([host(number) for number in range(1, 17)], missing=missing)
    assert report.subject["line"][0] == "16 of 18 hosts"
    assert report.subject["closing"] == [
        "sent nothing within 30 s: gpu[0017,0019]",
        "to run without them: --exclude=gpu[0017,0019]",
    ]
    assert report.not_checked == (NotChecked("gpu[0017,0019]", "sent nothing within 30 s"),)


def test_bad_hosts_that_nothing_names_are_counted() -> None:
    report = one([host(1), host(2)], missing=Missing(unnamed=3, waited_s=2.0))
    assert report.subject["closing"] == ["sent nothing within 2 s: 3 tasks, on hosts that nothing names"]
    assert report.subject["exclude"] is None


def test_bad_damaged_records_are_said_with_the_reason() -> None:
    missing = Missing(damaged=(("gpu0020", "it is of version 7"), ("gpu0021", "it is of version 7")))
    report = one([host(number) for number in range(1, 6)], missing=missing)
    assert report.not_checked[0] == NotChecked("gpu[0020-0021]", "what it sent can't be used: it is of version 7")
    assert report.subject["exclude"] == "gpu[0020-0021]"


def test_who_is_silent_is_told_by_short_names() -> None:
    heard = [
        host(1),
        host(2)._replace(host="gpu0002.example.org"),
        host(3)._replace(host="ip-10-0-0-3", node="gpu0003"),
    ]
    nodes = ["gpu0001", "gpu0002", "gpu0003", "gpu0004", "gpu0005", "gpu0005"]
    assert silent_hosts(nodes, heard, [("gpu0005.example.org", "damaged")]) == ["gpu0004"]
    assert silent_hosts(["10.0.0.1", "10.0.0.2"], [host(1)._replace(host="10.0.0.1", node="10.0.0.1")], []) == [
        "10.0.0.2"
    ]


def test_bad_the_hosts_with_trouble_of_their_own_are_left_out() -> None:
    hosts = [host(number) for number in range(1, 40)]
    hosts += [host(40, broken_gpu(1)), host(41, unresolvable())]
    assert one(hosts, missing=Missing(silent=("gpu0042",))).subject["exclude"] == "gpu[0040-0042]"


def test_good_nobody_is_left_out_for_what_most_share_or_the_launch_did() -> None:
    malformed = rules.DC102.found("RANK is 'x'", fix=Fix("set it"), where=Where(variable="RANK"))
    taken = rules.DC401.found("port 29500 is in use", fix=Fix("take another port", where="launch-line"))
    names = [name_of(number) for number in range(1, 11)]
    for findings in (
        group_findings((name, name, [unresolvable()]) for name in names),
        group_findings((name, name, [unresolvable()]) for name in names[:5]),
        group_findings([(names[0], names[0], [malformed, taken, broken_gpu(0, severity=Severity.INFO)])]),
    ):
        assert hosts_to_leave_out(findings, names) == []
    # each a few, but together most
    many = group_findings(
        [(name, name, [broken_gpu(0) if number < 4 else unresolvable()]) for number, name in enumerate(names[:8])]
    )
    assert hosts_to_leave_out(many, names) == []


def test_a_plug_ins_rule_is_told_by_its_fix() -> None:
    def found(where: str) -> Finding:
        return Finding("LAB1", "lab", Severity.ERROR, "wrong", Fix("fix it", where=where), Where(host="b"))

    assert hosts_to_leave_out([found("host")], ["a", "b", "c"]) == ["b"]
    assert hosts_to_leave_out([found("launch-line")], ["a", "b", "c"]) == []


def test_only_slurm_knows_exclude() -> None:
    hosts = [host(1), host(2), host(3, broken_gpu(0))]
    assert one(hosts, scheduler="slurm").subject["closing"] == ["to run without them: --exclude=gpu0003"]
    assert one(hosts, scheduler="kubernetes").subject["closing"] == ["to run without them, exclude: gpu0003"]


# hosts


def test_tasks_of_one_host_become_one() -> None:
    first, second = (
        host(1)._replace(task=task, record=HostRecord("gpu0001", (RankRecord(task),), boot_id="b")) for task in (1, 0)
    )
    hosts = one_per_host([first, second, host(2)])
    assert [(item.name, item.tasks) for item in hosts] == [("gpu0001", 2), ("gpu0002", 1)]
    record = hosts[0].record
    assert record is not None
    assert [rank.rank for rank in record.ranks] == [0, 1]


def test_hosts_that_share_a_name_stay_two() -> None:
    twins = [host(1)._replace(record=HostRecord("gpu0001", boot_id=boot)) for boot in ("a", "b")]
    hosts = one_per_host(twins)
    assert [item.name for item in hosts] == ["gpu0001", "gpu0001#2"]
    assert [item.host for item in cluster_of(hosts).hosts] == ["gpu0001", "gpu0001#2"]
    assert merge(hosts).subject["line"][0] == "2 hosts"


def test_files_that_do_not_tell_the_boot_are_a_host_each() -> None:
    nameless = HostReport("host-1", host(1).report, HostRecord("host-1"))
    assert [item.name for item in one_per_host([nameless, nameless])] == ["host-1", "host-1#2"]
    tasks = [nameless._replace(task=number) for number in range(2)]
    assert [(item.name, item.tasks) for item in one_per_host(tasks)] == [("host-1", 2)]


def test_what_comparing_has_found_is_not_said_again_by_hosts() -> None:
    lacks = rules.DC120.found("this torch has no NCCL", fix=ON_HOST)
    judged = Report("env", findings=(lacks._replace(where=Where(host="gpu0002")),), checked=frozenset({"DC120"}))
    hosts = [host(1), host(2, lacks), host(3)]
    assert len(one(hosts, judged=judged).findings) == 2
    assert len(one(hosts, judged=judged, seen_by_both={"DC120"}).findings) == 1
    assert len(one(hosts, judged=Report("env"), seen_by_both={"DC120"}).findings) == 1


def test_the_cluster_has_the_schedulers_names_and_what_all_agree_on() -> None:
    hosts = [
        host(1)._replace(node="n1", backend="nccl", world_size=16),
        host(2)._replace(backend="gloo", world_size=16),
    ]
    cluster = cluster_of(one_per_host(hosts), Missing(silent=("n3",)))
    assert [item.host for item in cluster.hosts] == ["gpu0002", "n1"]
    assert (cluster.backend, cluster.world_size, cluster.silent, cluster.launched) == (None, 16, ("n3",), False)
    rank = host(3)
    assert cluster_of([rank._replace(report=rank.report._replace(stage="rank"))]).launched


# the text


def broken_set(count: int) -> list[HostReport]:
    """1,024 hosts of which five are broken, each in its own way, and what all share is not worth a line."""
    shared = rules.DC311.found("persistence mode is off", fix=Fix("nvidia-smi -pm 1", by="admin", where="host"))
    long = rules.DC413.found(
        "4 of 8 InfiniBand ports of this host are down (mlx5_4, mlx5_5, mlx5_6, mlx5_7), so that NCCL would use half "
        "of the bandwidth that the other hosts have, and rings that pass this host wait for it",
        fix=Fix(
            "have an administrator look at the cables and at the switch's side of these ports; until then leave the "
            "host out, for one slow host slows all of them down",
            by="admin",
            where="host",
        ),
        severity=Severity.WARNING,
    )
    own: Mapping[int, Finding] = {
        7: broken_gpu(3),
        31: unresolvable(),
        100: long,
        512: small_memory(512, 4096),
        1000: rules.DC312.found("the fabric manager does not run", fix=ON_HOST),
    }
    return [host(number, shared, *([own[number]] if number in own else [])) for number in range(1, count + 1)]


def test_a_thousand_hosts_fit_on_a_screen() -> None:
    missing = Missing(silent=("gpu1025", "gpu1026"), waited_s=30.0)
    report = one(broken_set(1024), missing=missing, scheduler="slurm")
    text = render(report, "full", Style(width=80))
    lines = text.splitlines()
    assert len(lines) <= 20, text
    assert all(len(line) <= 80 for line in lines), text
    for word in ("gpu0007", "gpu0031", "gpu0100", "gpu0512", "gpu1000", "DC309", "DC404", "DC413", "DC320", "DC312"):
        assert word in text
    assert "1,024 of 1,026 hosts" in text
    assert "to run without them: --exclude=gpu[0007,0031,1000,1025-1026]" in lines
    assert "info: DC311 (-v shows them)" in lines
    assert lines[-1].startswith("3 errors, 2 warnings, 1 info, 1 not checked")


@pytest.mark.parametrize("kinds", [0, 1, 2, 6, 12, 40])
def test_more_kinds_of_trouble_than_lines_are_counted(kinds: int) -> None:
    codes = [rule for rule in rules.ALL if rule.severity is not Severity.INFO][:kinds]
    findings = [rule.found(f"trouble of the kind {rule.name}", fix=ON_HOST) for rule in codes]
    hosts = [host(number, *([findings[number]] if number < kinds else [])) for number in range(1024)]
    text = render(one(hosts), "full", Style(width=80))
    assert len(text.splitlines()) <= 20, text
    shown = [rule.code for rule in codes if f" {rule.code} " in text]
    if kinds <= 6:
        assert len(shown) == kinds
        assert text.count("fix: ") == kinds
    elif kinds == 40:
        assert f"and {kinds - sum(line.startswith(('error', 'warning')) for line in text.splitlines())} more: " in text


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("kinds", [3, 6, 12])
def test_no_sentence_is_cut(kinds: int, width: int) -> None:
    codes = [rule for rule in rules.ALL if rule.severity is not Severity.INFO][:kinds]
    long = "and what makes it a long sentence, which needs more than one line of a terminal, stands behind a comma"
    findings = [rule.found(f"trouble of the kind {rule.name}, {long}", fix=ON_HOST) for rule in codes]
    lame = NotChecked("DC301, DC309", f"the driver did not answer, {long}")
    hosts = [host(number, *([findings[number]] if number < kinds else []), not_checked=(lame,)) for number in range(64)]
    report = one(hosts)
    text = render(report, "full", Style(width=width))
    flat = " ".join(text.split())
    assert len(text.splitlines()) <= 20
    for sentence in (
        *(item.message for item in report.findings),
        ON_HOST.text,
        *(item.why for item in report.not_checked),
    ):
        assert sentence in flat or sentence.partition(",")[0] not in flat, text


def test_few_findings_are_shown_whole() -> None:
    text = render(one([host(1), host(2), host(3, small_memory(3, 5))]), "full", Style(width=80))
    assert text.splitlines() == [
        "distcheck env · stage shell · 3 hosts · 8 × NVIDIA H100 80GB HBM3 · driver",
        "  570.124.06 · torch 2.8.0+cu128 · NCCL 2.27.3",
        "",
        "warning DC320 shm-too-small  (gpu0003)",
        "  /dev/shm of gpu0003 has 5 bytes free",
        "  fix: give the container more shared memory, of which it has 5",
        "",
        "0 errors, 1 warning, 0 info, 0 not checked · 0.20 s",
    ]


def test_what_all_hosts_share_is_said_of_all() -> None:
    text = render(one([host(number, small_memory(0, 5)) for number in range(200)]), "full")
    assert "(all hosts)" in text


def test_many_names_without_order_are_cut_and_counted() -> None:
    hosts = [host(number, *([broken_gpu(0)] if number % 3 == 0 else [])) for number in range(300)]
    text = render(one(hosts), "full", Style(width=80))
    assert "(gpu[0000,0003,0006,0009,0012,0015,0018,0021,… 100 hosts, GPU 0)" in text
    exclude = next(line for line in text.splitlines() if "--exclude=" in line)
    assert len(expand_hostlist(exclude.partition("--exclude=")[2])) == 100


def test_verbose_shows_all_and_the_last_lines_too() -> None:
    text = render(one(broken_set(1024)), "full", Style(verbose=True))
    assert "persistence mode is off" in text
    assert "seen: uncorrected 2; kind volatile" in text
    assert "to run without them: --exclude=gpu[0007,0031,1000]" in text


def test_a_line_break_in_a_value_steers_no_terminal() -> None:
    nasty = rules.DC404.found("'a\x1b[2J\nb' does not resolve", fix=ON_HOST, where=Where(variable="MASTER_ADDR"))
    text = merged.render(one([host(1), host(2, nasty), host(3)]))
    assert "\x1b" not in text
    assert "a\\x1b[2J\\nb" in text


def test_not_checked_is_listed_where_there_is_room() -> None:
    why = "the driver did not answer within 3 s"
    lame = host(2, not_checked=(NotChecked("DC301, DC309", why),))
    report = one([host(1), lame, host(3)])
    assert report.not_checked == (NotChecked("DC301, DC309", f"{why} (on gpu0002)"),)
    assert f"  DC301, DC309: {why} (on gpu0002)" in render(report, "full").splitlines()
    everywhere = one([host(number, not_checked=(NotChecked("DC301", why),)) for number in range(3)])
    assert everywhere.not_checked == (NotChecked("DC301", why),)


@pytest.mark.parametrize(
    ("hosts", "missing", "line"),
    [
        (1, Missing(), "1 host"),
        (2, Missing(), "2 hosts"),
        (1000, Missing(), "1,000 hosts"),
        (0, Missing(unnamed=1), "0 hosts, not all"),
        (1, Missing(unnamed=1), "1 host, not all"),
        (2, Missing(unnamed=1), "2 hosts, not all"),
        (2, Missing(silent=("x",)), "2 of 3 hosts"),
        (2, Missing(silent=("x",), damaged=(("y", "cut"),), unnamed=1), "2 of 4 hosts"),
    ],
)
def test_how_many_hosts_sent_something(hosts: int, missing: Missing, line: str) -> None:
    assert one([host(number) for number in range(hosts)], missing=missing).subject["line"][0] == line


@pytest.mark.parametrize(
    ("missing", "closing", "not_checked"),
    [
        (
            Missing(unnamed=1, unit="host"),
            "sent nothing: 1 host, which nothing names",
            ("hosts that nothing names", "1 host sent nothing"),
        ),
        (
            Missing(unnamed=2, waited_s=1.5),
            "sent nothing within 1.5 s: 2 tasks, on hosts that nothing names",
            ("hosts that nothing names", "2 tasks sent nothing within 1.5 s"),
        ),
        (Missing(silent=("x",)), "sent nothing: x", ("x", "sent nothing")),
        (
            Missing(damaged=(("x", "cut"),)),
            "sent what can't be read: x",
            ("x", "what it sent can't be used: cut"),
        ),
    ],
)
def test_who_is_missing_is_in_the_last_lines_and_not_checked(
    missing: Missing, closing: str, not_checked: tuple[str, str]
) -> None:
    report = one([host(number) for number in range(4)], missing=missing)
    assert report.subject["closing"][0] == closing
    assert tuple(report.not_checked[0]) == not_checked
    assert report.checked == frozenset()


@pytest.mark.parametrize(("broken", "of", "excluded"), [(1, 2, 0), (1, 3, 1), (2, 4, 0), (2, 5, 2), (3, 6, 0)])
def test_hosts_are_left_out_only_where_they_are_fewer_than_half(broken: int, of: int, excluded: int) -> None:
    names = [name_of(number) for number in range(of)]
    findings = group_findings((name, name, [broken_gpu(0)]) for name in names[:broken])
    assert hosts_to_leave_out(findings, names) == names[:excluded]
    assert hosts_to_leave_out([], names[broken:], Missing(silent=tuple(names[:broken]))) == names[:excluded]


def test_hosts_are_ordered_as_people_count() -> None:
    names = ["0x", "gpu10", "gpu9", "gpu", "gpu9a", "gpu9-10", "gpu9-9"]
    hosts = one_per_host(HostReport(name, host(1).report, HostRecord(name, boot_id=name)) for name in names)
    assert [item.name for item in hosts] == ["gpu", "gpu9", "gpu9-9", "gpu9-10", "gpu9a", "gpu10", "0x"]


def test_the_finding_that_most_hosts_have_is_shown_of_the_first_of_them() -> None:
    hosts = [host(1, broken_gpu(0, 5)), host(10, broken_gpu(0, 7)), host(9, broken_gpu(0, 7))]
    (finding,) = one(hosts).findings
    assert finding.message.startswith("GPU 0 has 7 uncorrected")
    assert finding.message.endswith("(on gpu0009; 2 more hosts alike)")
    (finding,) = one(hosts[:2]).findings
    assert finding.message.endswith("(on gpu0001; 1 more host alike)")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((1, 1), 1),
        ((3, 1), {"lowest": 1, "highest": 3}),
        ((0.5, 2), {"lowest": 0.5, "highest": 2}),
        ((True, False), True),
        (("a", "b"), "a"),
        ((1, None), 1),
    ],
)
def test_what_differs_in_the_evidence(values: tuple[Any, Any], shown: Any) -> None:
    found = [broken_gpu(0)._replace(evidence={"value": value}) for value in values]
    (finding,) = group_findings([("a", "a", [found[0]]), ("b", "b", [found[1]])])
    assert finding.evidence == {"value": shown, "hosts": 2}


def test_the_gpus_of_at_most_four_hosts_are_named() -> None:
    (finding,) = group_findings((name_of(number), "", [broken_gpu(number)]) for number in range(12))
    assert finding.evidence["gpu_on_host"] == {"gpu0000": "0", "gpu0001": "1", "gpu0002": "2", "gpu0003": "3"}
    (finding,) = group_findings([("a", "a", [broken_gpu(1), broken_gpu(0)])])
    assert "gpu_on_host" not in finding.evidence


def test_a_reason_names_its_hosts_unless_it_holds_on_all() -> None:
    lacks = (NotChecked("DC302, DC301", "NVML does not answer on gpu0001"),)
    other = (NotChecked("DC309", "NVML does not answer on gpu0002"),)
    shared = (NotChecked("DC405", "no network"),)
    report = one(
        [host(1, not_checked=lacks + shared), host(2, not_checked=other + shared), host(3, not_checked=shared)]
    )
    assert [tuple(item) for item in report.not_checked] == [
        ("DC301, DC302, DC309", "NVML does not answer on gpu0001 (on gpu[0001-0002])"),
        ("DC405", "no network"),
    ]


def test_probes_that_failed_or_did_not_end_are_kept_up_to_twenty() -> None:
    probes = tuple(ProbeRun(f"probe{number}", "failed" if number % 2 else "timed-out") for number in range(25))
    others = tuple(ProbeRun(status, status) for status in ("ran", "not-checked", "not-applicable"))
    assert one([host(1, probes=others + probes)]).probes == probes[:20]
    judged = Report("env", probes=(ProbeRun("compare", "ran"),))
    assert one([host(1)], judged=judged).probes == judged.probes


def test_times_of_many_hosts() -> None:
    slow = host(2)._replace(report=host(2).report._replace(elapsed_s=3.5, out_of_time=True))
    report = one([host(1), slow])
    assert (report.elapsed_s, report.out_of_time) == (3.5, True)
    assert one([host(1), slow], elapsed_s=9.0).elapsed_s == 9.0
    assert not one([host(1)]).out_of_time
    assert (merge([]).elapsed_s, merge([]).checked, merge([]).stage) == (0.0, frozenset(), None)
    assert one([host(1)], note="a note").subject["closing"] == ["a note"]


@pytest.mark.parametrize("stage", ["shell", "planned", "rank"])
def test_a_cluster_is_launched_where_a_host_has_a_launch(stage: str) -> None:
    hosts = [host(1), host(2)._replace(report=Report("env", stage))]
    assert cluster_of(hosts).launched is (stage != "shell")


def test_namespaces_tell_hosts_of_one_name_and_boot_apart() -> None:
    records = [HostRecord("pod", boot_id="b", namespaces={"uts": uts}) for uts in ("1", "2", "1")]
    hosts = one_per_host([host(1)._replace(host="pod", record=record) for record in records])
    assert [(item.name, item.tasks) for item in hosts] == [("pod", 2), ("pod#2", 1)]
    without = HostReport("a", host(1).report, None, task=0, tasks=2)
    (joined,) = one_per_host([without, without._replace(task=1, tasks=3)])
    assert (joined.tasks, joined.record) == (5, None)


def test_what_half_of_the_hosts_share_does_not_hide_the_trouble_of_one() -> None:
    names = [name_of(number) for number in range(10)]
    shared = [(name, name, [unresolvable()]) for name in names[:5]]
    findings = group_findings([*shared, (names[9], names[9], [broken_gpu(0)])])
    assert hosts_to_leave_out(findings, names) == names[9:]


def test_a_reason_that_names_its_host_is_one_reason() -> None:
    hosts = [
        HostReport(name, Report("env", not_checked=(NotChecked("DC301", f"NVML is missing on {name}"),)))
        for name in ("alpha", "beta")
    ]
    assert [tuple(item) for item in one(hosts).not_checked] == [("DC301", "NVML is missing on alpha")]


def test_a_finding_of_one_host_keeps_its_evidence() -> None:
    (finding,) = group_findings([("a", "a", [broken_gpu(0)])])
    assert finding.evidence == broken_gpu(0).evidence
