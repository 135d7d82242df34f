"""Recorded machines: each gives the findings that it must give, and no others.

A machine is a folder below ``tests/hosts``: ``world.json`` (answers of the system), ``files.json`` (its file tree),
``facts.json`` (facts that no file tells, such as GPUs), ``cases.json`` (launches on it with what must be found).
A case may change the machine: ``world``, ``files``, ``without`` (paths that are not there), ``facts`` (fields of a fact).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from distcheck import registry
from distcheck.examination import examine
from distcheck.facts_file import dump_facts, load_facts
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.reader import LaunchOptions, make_launch
from distcheck.model import Report, Severity
from tests.recorded import HOSTS, RecordedWorld, recorded_world

#: What the machines named in the project's plan are called here, and the silent cases that it lists.
REQUIRED_HOSTS = {
    "hgx-h100-infiniband",
    "a100-pcie",
    "docker-default",
    "kubernetes-pytorchjob",
    "slurm-task-per-gpu",
    "rocm-mi300x",
    "wsl2",
    "laptop-no-gpu",
    "efa-p4d",
    "infiniband-dead-port",
}


def read(host: str, name: str, default: Any = None) -> Any:
    """One of a machine's files."""
    path = HOSTS / host / f"{name}.json"
    return default if default is not None and not path.exists() else json.loads(path.read_text(encoding="utf-8"))


def hosts() -> list[str]:
    """The names of all machines."""
    return sorted(path.parent.name for path in HOSTS.glob("*/cases.json"))


def cases() -> list[Any]:
    """Every launch on every machine."""
    found = []
    for host in hosts():
        for case in read(host, "cases"):
            # a verdict that is known to be wrong stands there until the room that gives it is mended
            marks = [pytest.mark.xfail(strict=True, reason=case["defect"])] if "defect" in case else []
            found.append(pytest.param(host, case, id=f"{host}: {case['name']}", marks=marks))
    return found


def world_of(host: str, case: Mapping[str, Any], folder: Path) -> RecordedWorld:
    """The machine as the case finds it. A variable that is null there is not set."""
    record = {**read(host, "world"), **case.get("world", {})}
    environ = {**record.get("environ", {}), **case.get("environ", {})}
    record["environ"] = {name: value for name, value in environ.items() if value is not None}
    files = {
        path: content
        for path, content in {**read(host, "files"), **case.get("files", {})}.items()
        if not path.startswith(tuple(case.get("without", ("\0",))))
    }
    return recorded_world(folder, files=files, **record)


def facts_of(host: str, case: Mapping[str, Any]) -> Mapping[type, object]:
    """The facts that stand in no file, with the fields that the case changes."""
    plain = read(host, "facts", {})
    for name, fields in case.get("facts", {}).items():
        whole = "unavailable" in fields or "unavailable" in plain.get(name, {})
        plain[name] = fields if whole else {**plain.get(name, {}), **fields}
    text = json.dumps({"kind": "distcheck facts", "schema_version": 1, "facts": plain})
    return load_facts(text, known_facts()).facts


def known_facts() -> Mapping[str, type]:
    """All facts of this host by their names."""
    __import__("distcheck.environment")
    return {made.__name__: made for made in (Launch, *registry.readers())}


def launch_of(case: Mapping[str, Any], world: RecordedWorld) -> Launch:
    """The launch that the case describes, made as the command line makes it."""
    command = parse_command(case["command"], world.environ) if case.get("command") else None
    return make_launch(
        world.environ,
        options=LaunchOptions(**case.get("options", {})),
        command=command,
        launched=case.get("launched", False),
        host_name=world.host_name(),
    )


def verdict(report: Report) -> dict[str, Any]:
    """Code to severity, or to all severities where a rule spoke more than once."""
    found: dict[str, list[str]] = {}
    for finding in report.findings:
        found.setdefault(finding.code, []).append(finding.severity.word)
    return {code: words[0] if len(words) == 1 else sorted(words) for code, words in sorted(found.items())}


def shown(report: Report) -> str:
    """The findings, to be read where a test fails."""
    return "\n".join(f"{finding.severity.word} {finding.code} {finding.message}" for finding in report.findings)


@pytest.mark.parametrize(("host", "case"), cases())
def test_host_gives_what_it_must_and_no_more(host: str, case: Mapping[str, Any], tmp_path: Path) -> None:
    world = world_of(host, case, tmp_path)
    launch = launch_of(case, world)
    report = examine(launch, world, facts=facts_of(host, case))

    assert verdict(report) == dict(sorted(case["expect"].items())), shown(report)
    for finding in report.findings:
        assert finding.fix is not None and finding.fix.text.strip(), f"{finding.code} has no fix"
    unchecked = {code for entry in report.not_checked for code in entry.what.split(", ")}
    assert set(case.get("not_checked", ())) <= unchecked

    known = known_facts()
    facts = {known[name]: value for name, value in report.facts.items() if name in known}
    saved = load_facts(dump_facts({**facts, Launch: launch}, tool_version="test", saved_at=""), known).facts
    replayed = saved[Launch]
    assert isinstance(replayed, Launch) and replayed == launch
    again = examine(replayed, facts={made: fact for made, fact in saved.items() if made is not Launch})
    assert again.findings == report.findings
    assert {entry.what for entry in again.not_checked} == {entry.what for entry in report.not_checked}


def test_every_machine_has_a_healthy_and_a_broken_launch() -> None:
    assert set(hosts()) >= REQUIRED_HOSTS
    for host in hosts():
        expected = [case["expect"] for case in read(host, "cases") if "defect" not in case]
        worst = [max((Severity.parse(word) for word in words(expect)), default=Severity.INFO) for expect in expected]
        assert Severity.INFO in worst, f"{host} has no launch with nothing above info"
        assert max(worst) > Severity.INFO, f"{host} has no broken launch"


def words(expect: Mapping[str, Any]) -> list[str]:
    """All severities of an expectation."""
    return [word for value in expect.values() for word in (value if isinstance(value, list) else [value])]


def test_names_of_cases_differ() -> None:
    for host in hosts():
        names = [case["name"] for case in read(host, "cases")]
        assert len(names) == len(set(names)), host
