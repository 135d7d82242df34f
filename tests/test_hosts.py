"""Recorded machines: each gives the errors and warnings that it must give, and no others.

A machine is a folder below ``tests/hosts``: ``world.json`` (answers of the system), ``files.json`` (its file tree),
``facts.json`` (facts that no file tells, such as GPUs), ``cases.json`` (launches on it with what must be found).
``expect`` lists the errors and warnings of a launch, all of them. ``info`` lists codes that are reported as information;
others may be, so that a new rule of that kind changes no file here.
A case may change the machine: ``environ`` (null: not set), ``world``, ``files``, ``without`` (beginnings of paths that
are not there), ``facts`` (fields of a fact; of a list, the entries by their position). A case with ``defect`` stands for
a verdict that is known to be wrong, with what is wrong about it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.examine import examine
from distcheck.core import registry
from distcheck.core.facts_file import dump_facts, load_facts
from distcheck.core.model import Finding, Report, Severity
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.reader import LaunchOptions, make_launch

from .recorded import HOSTS, RecordedWorld, recorded_world

#: The kinds of machine without which this collection is not complete.
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
            # a verdict that is known to be wrong stands there until the room that gives it is fixed
            marks = [pytest.mark.xfail(strict=True, reason=case["defect"])] if "defect" in case else []
            found.append(pytest.param(host, case, id=f"{host}: {case['name']}", marks=marks))
    return found


def world_of(host: str, case: Mapping[str, Any], trees: Path) -> RecordedWorld:
    """The machine as the case finds it.

    :param trees: a folder in which a machine's file tree stands once for all cases that do not change it
    """
    record = {**read(host, "world"), **case.get("world", {})}
    environ = {**record.get("environ", {}), **case.get("environ", {})}
    record["environ"] = {name: value for name, value in environ.items() if value is not None}
    if isinstance(record.get("affinity"), str):
        record["affinity"] = tuple(numbers(record["affinity"]))
    changed = "files" in case or "without" in case
    folder = trees / (f"{host} {case['name']}" if changed else host).replace("/", "_")
    if folder.exists():
        return RecordedWorld(folder, record)
    # what a case leaves out is what stands there otherwise, so that it can bring something else below the same path
    left_out = tuple(case.get("without", ()))
    files = {path: content for path, content in read(host, "files").items() if not path.startswith(left_out)}
    return recorded_world(folder, files={**files, **case.get("files", {})}, **record)


def numbers(text: str) -> Iterator[int]:
    """``0-3,8`` as the kernel writes it."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def facts_of(host: str, case: Mapping[str, Any]) -> Mapping[type, object]:
    """The facts that stand in no file, with the fields that the case changes."""
    plain = read(host, "facts", {})
    for name, fields in case.get("facts", {}).items():
        whole = "unavailable" in fields or "unavailable" in plain.get(name, {})
        plain[name] = fields if whole else patched(plain.get(name, {}), fields)
    text = json.dumps({"kind": "distcheck facts", "schema_version": 1, "facts": plain})
    return load_facts(text, known_facts())


def patched(plain: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A value with some fields changed; of a list, those entries whose positions the change names."""
    changed = dict(plain)
    for name, value in fields.items():
        old = plain.get(name)
        if isinstance(old, list) and isinstance(value, dict):
            value = [{**entry, **value.get(str(position), {})} for position, entry in enumerate(old)]
        changed[name] = value
    return changed


def known_facts() -> Mapping[str, type]:
    """All facts of this host by their names."""
    __import__("distcheck.checks.host")
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
    """Code to severity above info, or to all severities where a rule reports several findings."""
    found: dict[str, list[str]] = {}
    for finding in report.at_least(Severity.WARNING):
        found.setdefault(finding.code, []).append(finding.severity.word)
    return {code: words[0] if len(words) == 1 else sorted(words) for code, words in sorted(found.items())}


def shown(report: Report) -> str:
    """The findings, to be read where a test fails."""
    return "\n".join(f"{finding.severity.word} {finding.code} {finding.message}" for finding in report.findings)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the file trees of the machines stand."""
    return tmp_path_factory.mktemp("hosts")


@pytest.mark.parametrize(("host", "case"), cases())
def test_host_gives_what_it_must_and_no_more(host: str, case: Mapping[str, Any], trees: Path) -> None:
    world = world_of(host, case, trees)
    launch = launch_of(case, world)
    report = examine(launch, world, facts=facts_of(host, case))

    assert verdict(report) == dict(sorted(case["expect"].items())), shown(report)
    quiet = {finding.code for finding in report.findings if finding.severity is Severity.INFO}
    assert set(case.get("info", ())) <= quiet, shown(report)
    for finding in report.findings:
        assert finding.fix is not None and finding.fix.text.strip(), f"{finding.code} has no fix"
    unchecked = {code for entry in report.not_checked for code in entry.what.split(", ")}
    assert set(case.get("not_checked", ())) <= unchecked

    known = known_facts()
    facts = {known[name]: value for name, value in report.facts.items() if name in known}
    saved = load_facts(dump_facts({**facts, Launch: launch}, tool_version="test", saved_at=""), known)
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


def fixed(case: Mapping[str, Any], command: str) -> dict[str, Any] | None:
    """The case after its user has typed a fix; None for a fix that is no variable with a plain value and no option."""
    setting = re.fullmatch(r"(?:export|set) (\w+)=([^$`]*)|unset (\w+)", command)
    if setting is not None:
        name, value = (setting[3], None) if setting[3] else (setting[1], "".join(shlex.split(setting[2])))
        return {**case, "environ": {**case.get("environ", {}), name: value}}
    option, equals, value = command.partition("=")
    if not equals or any(word in command for word in " $`"):
        return None
    if "command" in case:
        line = [f"{option}={value}" if word.startswith(f"{option}=") else word for word in case["command"]]
        return {**case, "command": line} if line != case["command"] else None
    field = option.lstrip("-").replace("-", "_")
    return {**case, "options": {**case["options"], field: value}} if field in case.get("options", {}) else None


@pytest.mark.slow
def test_fixes_fix_and_trigger_no_other_rule(trees: Path) -> None:
    tried = 0
    for host in hosts():
        seen: set[str] = set()
        for case in read(host, "cases"):
            if "defect" in case:
                continue
            report = look(host, case, trees)
            before = loud(report)
            troubles = []
            for finding in report.findings:
                command = finding.fix.command if finding.fix is not None else None
                if command is None or (finding.code not in before and not worth_trying(finding, seen)):
                    continue
                after = fixed(case, command)
                if after is None:
                    continue
                seen.add(finding.code)
                tried += 1
                again = look(host, after, trees)
                if finding.code in loud(again) or not loud(again) <= before:
                    troubles.append(f"{host}: {case['name']}: {finding.code}: {command}\n{shown(again)}")
            # a fix that is known to be wrong stands there until the room that gives it is fixed
            assert bool(troubles) is ("defect_of_fix" in case), "\n".join(troubles) or f"{case['name']}: fixed"
    assert tried > 40


def worth_trying(finding: Finding, seen: set[str]) -> bool:
    """What is only worth knowing is said in every case of a machine; and more ranks may well need more of the host."""
    command = finding.fix.command if finding.fix is not None else None
    return finding.code not in seen and command is not None and command.startswith(("export ", "unset "))


def look(host: str, case: Mapping[str, Any], trees: Path) -> Report:
    """The report on a case."""
    world = world_of(host, case, trees)
    return examine(launch_of(case, world), world, facts=facts_of(host, case))


def loud(report: Report) -> set[str]:
    """The codes of what is worse than worth knowing."""
    return {finding.code for finding in report.findings if finding.severity > Severity.INFO}
