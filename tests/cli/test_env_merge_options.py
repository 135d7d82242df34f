"""What the merge of many hosts reads from options and files, whom it misses, and its exit status."""

from __future__ import annotations

import json
import os
import signal
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from distcheck import rules
from distcheck.checks.cluster import record_exchange
from distcheck.checks.cluster.merge import HostReport, Missing
from distcheck.cli import env_merge
from distcheck.core.model import Finding, Fix, Report
from distcheck.reporters import Style
from distcheck.rules import Selection


def host(name: str, *findings: Finding, tasks: int = 1, **report: Any) -> HostReport:
    return HostReport(name, Report("env", "shell", {"host": name}, findings, **report), tasks=tasks)


def asked(**given: Any) -> env_merge.MergeOptions:
    options = {"output_format": "json", "output_file": None, "exit_zero": False, "strict": False, "expect": None}
    world: Any = SimpleNamespace(working_folder="/job", host_name=lambda: "gpu1", environ={})
    settings: Any = None
    return env_merge.MergeOptions(
        {**options, **given}, world, settings, Selection(), None, "error", Style(), lambda one: one
    )


TAKEN = rules.DC401.found("taken", fix=Fix("take another port"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, env_merge.WAIT_S), ("30", 30), ("30s", 30), (" 2m ", 120), ("1.5h", 5400), ("0.25", 0.25), ("1h", 3600)],
)
def test_times_are_read(text: str | None, seconds: float) -> None:
    assert env_merge.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1d", "1 s", "1e3", ".5", "12345678"])
def test_bad_times_are_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected a time"):
        env_merge.seconds_of(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ((), None)),
        ("4", ((), 4)),
        (" 16 ", ((), 16)),
        ("gpu[1-3]", (("gpu1", "gpu2", "gpu3"), 3)),
        ("a,b,a", (("a", "b"), 2)),
    ],
)
def test_expected_hosts_are_names_or_a_number(text: str | None, expected: tuple[tuple[str, ...], int | None]) -> None:
    assert env_merge.expected_of(text) == expected


@pytest.mark.parametrize(
    ("step", "hosts", "damaged", "silent", "unnamed"),
    [
        # the list names them
        ({"nodes": ("a", "b", "c"), "hosts": 3}, [host("a")], (), ("b", "c"), 0),
        ({"nodes": ("a", "b", "c")}, [host("a"), host("b")], (), ("c",), 0),
        ({"nodes": ("a", "b", "c"), "hosts": 3}, [host("a")], (("b", "cut"),), ("c",), 0),
        # the list has more hosts than the run: nothing says which of them were to come
        ({"nodes": ("a", "b", "c"), "hosts": 2}, [host("a")], (), (), 1),
        ({"nodes": ("a", "b", "c", "d"), "hosts": 3}, [host("a")], (), (), 2),
        # without a list, tasks are counted, else hosts
        ({"tasks": 8}, [host("a", tasks=2), host("b", tasks=3)], (), (), 3),
        ({"tasks": 8}, [host("a", tasks=2), host("b", tasks=3)], (("c", "cut"),), (), 2),
        ({"tasks": 8, "hosts": 4}, [host("a", tasks=2)], (), (), 6),
        ({"hosts": 4}, [host("a")], (), (), 3),
        ({"hosts": 4}, [host("a")], (("b", "cut"),), (), 2),
        ({}, [host("a")], (), (), 1),
    ],
)
def test_who_sent_nothing(
    step: dict[str, Any],
    hosts: list[HostReport],
    damaged: tuple[tuple[str, str], ...],
    silent: tuple[str, ...],
    unnamed: int,
) -> None:
    collected = record_exchange.Collected(tuple(hosts), damaged, complete=False)
    found = env_merge._missing(record_exchange.JobStep("12.0", **step), hosts, collected, 30.0)
    assert found == Missing(silent, unnamed, damaged, 30.0)


def test_nobody_is_missing_where_all_came() -> None:
    collected = record_exchange.Collected((host("a"),), (("b", "cut"),), complete=True)
    step = record_exchange.JobStep("12.0", nodes=("a", "b", "c"))
    assert env_merge._missing(step, [host("a")], collected, 30.0) == Missing(damaged=(("b", "cut"),))


@pytest.mark.parametrize(
    ("found", "missing", "given", "status", "words"),
    [
        ((), Missing(), {}, 0, ""),
        ((TAKEN,), Missing(), {}, 1, ""),
        ((), Missing(silent=("b",)), {}, 3, "not every host was checked: b"),
        ((), Missing(damaged=(("b", "cut"),)), {}, 3, "not every host was checked: b"),
        ((), Missing(unnamed=2, unit="host"), {}, 3, "nothing came from 2 hosts"),
        ((), Missing(unnamed=1), {}, 3, "nothing came from 1 task"),
        ((TAKEN,), Missing(silent=("b",)), {}, 1, "not every host was checked: b"),
        ((), Missing(silent=("b",)), {"exit_zero": True}, 0, "not every host was checked: b"),
        ((TAKEN,), Missing(), {"output_file": "no/such/folder"}, 2, "can't be written"),
        ((TAKEN,), Missing(), {"output_file": "no/such/folder", "exit_zero": True}, 2, "can't be written"),
        ((), Missing(silent=("b",)), {"strict": True}, 3, "--strict"),
    ],
)
def test_the_status_of_a_merge(
    found: tuple[Finding, ...],
    missing: Missing,
    given: dict[str, Any],
    status: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert env_merge.finish([host("a", *found)], missing, asked(**given)) == status
    written = capsys.readouterr()
    assert words in written.err
    assert bool(written.err) is bool(words)
    assert json.loads(written.out)["subject"]["merged_hosts"] == 1


@pytest.mark.parametrize(("findings", "status"), [((), 2), ((TAKEN,), 1)])
def test_a_host_alone_says_why_and_reports_its_own(
    findings: tuple[Finding, ...], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert env_merge._alone(host("gpu1", *findings), "no folder", asked()) == status
    written = capsys.readouterr()
    assert written.err == "distcheck: gpu1: no folder\n"
    assert ("DC401" in written.out) is bool(findings)


def judged(text: str) -> HostReport:
    return host(json.loads(text)["host"])


FACTS = json.dumps({"kind": "distcheck facts", "host": "of-facts"})


@pytest.mark.parametrize(
    ("name", "text", "places"),
    [
        ("a.json", FACTS, ["a.json: of-facts"]),
        ("-", FACTS, ["standard input: of-facts"]),
        ("a.txt", f"gpu1: {FACTS}\n\n# a comment\ngpu2: {FACTS}\n", ["gpu1: of-facts", "gpu2: of-facts"]),
        ("a.txt", f"{FACTS}\n{FACTS}\n", ["a.txt:1: of-facts", "a.txt:2: of-facts"]),
        ("+a.txt", f"{FACTS}\n{FACTS}\n", ["+a.txt:1: of-facts", "+a.txt:2: of-facts"]),
        ("-", f"some words {FACTS}\n{FACTS}\n", ["line1: of-facts", "line2: of-facts"]),
        ("a.txt", f"gpu1: {FACTS[:-9]}\n", ["gpu1: it is damaged: its line has no complete record"]),
        ("a.txt", "no record\n", []),
        ("a.json", '{"kind": "distcheck record"}', ["a.json: refused"]),
    ],
)
def test_the_records_of_a_text(name: str, text: str, places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> HostReport:
        raise ValueError("refused")

    monkeypatch.setattr(record_exchange, "from_plain", refuse)

    def read(line: str) -> HostReport:
        return judged(line[line.index("{") :])

    found = env_merge._documents(name, text, read)
    assert [f"{place}: {item if isinstance(item, str) else item.name}" for place, item in found] == places


def test_files_folders_and_standard_input_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.json", "a.json", "c.txt", "+gpu1"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(sys, "stdin", StringIO("typed"))
    monkeypatch.chdir(tmp_path)
    words = ["-", str(tmp_path), str(tmp_path / "c.txt"), "+gpu1"]
    found = [(Path(name).name, text) for name, text in env_merge._texts(words)]
    assert found == [
        ("-", "typed"), ("a.json", "a.json"), ("b.json", "b.json"), ("c.txt", "c.txt"), ("+gpu1", "+gpu1")
    ]  # fmt: skip
    (tmp_path / "empty").mkdir()
    for word, words_of_error in (("empty", "no .json file"), ("missing", "no such file")):
        with pytest.raises(click.UsageError, match=words_of_error):
            list(env_merge._texts([str(tmp_path / word)]))


@pytest.mark.parametrize(
    ("expect", "status", "line"),
    [
        (None, 0, "1 host"),
        ("1", 0, "1 host"),
        ("3", 3, "1 host, not all"),
        ("of-facts", 0, "1 host"),
        ("of-facts,other", 3, "1 of 2 hosts"),
    ],
)
def test_expected_hosts_without_a_record_are_missing(
    expect: str | None, status: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(FACTS)
    assert env_merge.run_files([str(tmp_path)], judged, asked(expect=expect)) == status
    assert json.loads(capsys.readouterr().out)["subject"]["line"][0] == line


def test_the_seconds_of_reading_files_are_those_since_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(FACTS)
    times = iter((100.0, 107.5))
    monkeypatch.setattr(env_merge, "time", SimpleNamespace(monotonic=lambda: next(times)))
    env_merge.run_files([str(tmp_path)], judged, asked(output_format="full"))
    assert capsys.readouterr().out.rstrip().endswith("· 7.50 s")


def test_files_without_a_record_are_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("no record")
    with pytest.raises(click.UsageError, match="there is no record in it"):
        env_merge.run_files([str(tmp_path / "a.json")], judged, asked())
    (tmp_path / "a.json").write_text('gpu1: {"v": 1')
    with pytest.raises(click.UsageError, match="gpu1: it is damaged"):
        env_merge.run_files([str(tmp_path / "a.json")], judged, asked())


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_step_with_its_status_and_is_handled_as_before(name: str) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)

    def look() -> HostReport:
        os.kill(os.getpid(), number)
        raise AssertionError("the signal did not end it")

    step = record_exchange.JobStep("12.0", rank=1, tasks=2)
    assert env_merge.run_in_step(step, look, asked(merge_dir="/nowhere", wait=None)) == 128 + number
    assert signal.getsignal(number) is before


def test_a_signal_ends_a_forked_reader_with_its_status_and_no_cleaning_up() -> None:
    with env_merge._end_on_signals():
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGTERM


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with env_merge._end_on_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("path", "written"), [("-", None), ("x.json", "x.json"), ("folder", "folder/gpu_1.example.org.json")]
)
def test_a_record_is_saved_under_the_hosts_name(
    path: str,
    written: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    env_merge.save_record(path, host("gpu/1.example.org"))
    text = capsys.readouterr().out if written is None else (tmp_path / written).read_text()
    assert json.loads(text)["kind"] == "distcheck record"
    with pytest.raises(click.UsageError, match="can't be written"):
        env_merge.save_record("no/such/folder/x.json", host("a"))


@pytest.mark.parametrize(
    ("rank", "came", "complete", "status", "words"),
    [
        (0, ("gpu1", "gpu2"), True, 0, ""),
        (0, ("gpu1", "gpu2"), False, 3, "not every host was checked"),
        (0, ("gpu1",), True, 0, ""),
        (0, ("gpu1",), False, 3, "not every host was checked"),
        (1, ("gpu1",), False, 2, "gpu1: no other host's record came to"),
    ],
)
def test_a_host_that_collects_reports_for_all_and_another_one_only_for_itself(
    rank: int,
    came: tuple[str, ...],
    complete: bool,
    status: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    collected = record_exchange.Collected(tuple(host(name) for name in came), complete=complete)
    monkeypatch.setattr(record_exchange, "collect", lambda *_: collected)
    step = record_exchange.JobStep("12.0", rank=rank, tasks=3)
    assert env_merge._collect(Path("/shared/run"), step, 1.0, host("gpu1"), asked()) == status
    written = capsys.readouterr()
    assert words in written.err
    assert bool(written.err) is bool(words)
    if status != 2:
        assert json.loads(written.out)["subject"]["merged_hosts"] == len(came)


def test_the_seconds_of_a_merge_are_those_of_its_own_host_and_of_the_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1.0

    def collect(*_: object) -> record_exchange.Collected:
        nonlocal now
        now += 3.5
        return record_exchange.Collected((host("gpu1"), host("gpu2")), complete=True)

    monkeypatch.setattr(record_exchange, "collect", collect)
    monkeypatch.setattr(env_merge, "time", SimpleNamespace(monotonic=lambda: now))
    step = record_exchange.JobStep("12.0", rank=0, tasks=2)
    env_merge._collect(Path("/shared/run"), step, 9.0, host("gpu1", elapsed_s=0.25), asked(output_format="full"))
    assert capsys.readouterr().out.rstrip().endswith("· 3.75 s")
