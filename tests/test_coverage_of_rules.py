"""Every rule that env, ranks side by side, a live group, pickle or watch can report has a probe, a bad and a good case."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from distcheck import registry, rules
from distcheck.checker import Checker
from distcheck.cluster import judges
from distcheck.collectives import smoke
from distcheck.commands import rehearse_report
from distcheck.model import Rule

TESTS = Path(__file__).parent

#: DC901 to DC903 are made by the checker, DC904 and DC905 belong to commands that read files.
BY_PROBES = [
    rule
    for rule in rules.ALL
    if {"env", "ranks", "live", "pickle", "watch"} & set(rule.ways) and not rule.code.startswith("DC9")
]
#: Which rooms see a rule in a way.
ROOMS = {
    "env": ("distcheck.environment",),
    "ranks": (*judges.ROOMS, "distcheck.cluster.arrival"),
    "live": smoke.ROOMS,
    # bad and good cases of these are files: tests/lint/test_cases.py holds that there are enough
    "lint": ("distcheck.source",),
    # as of these: tests/launch/test_cases.py
    "launch": ("distcheck.launchfiles",),
    "pickle": ("distcheck.pickles.file_probes", "distcheck.pickles.object_probes"),
    # as of these: tests/logs/test_cases.py
    "log": ("distcheck.logs",),
    "watch": ("distcheck.rehearsal.standing", "distcheck.rehearsal.summary"),
    "rehearse": rehearse_report.ROOMS,
    "stuck": ("distcheck.rehearsal.outside.stillness", "distcheck.rehearsal.outside.numbered"),
}


@functools.cache
def functions(prefix: str) -> list[tuple[str, str]]:
    """The test functions of a kind, name and source, decorators included."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith(prefix):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found.append((f"{path.name}::{node.name}", "\n".join(lines[first - 1 : node.end_lineno])))
    return found


def probes_of(rule: Rule, ways: tuple[str, ...] = ("env", "ranks", "live", "pickle", "watch")) -> list[str]:
    rooms = tuple(room for way in ways for room in ROOMS[way])
    Checker(rooms=rooms, plug_ins=False)
    return [
        probe.name.rsplit(".", 1)[1]
        for probe in registry.probes()
        if rule in probe.rules and probe.function.__module__.startswith(rooms)
    ]


@pytest.mark.parametrize(
    ("rule", "way"),
    [(rule, way) for rule in rules.ALL if not rule.code.startswith("DC9") for way in rule.ways if way in ROOMS],
    ids=lambda value: value if isinstance(value, str) else value.code,
)
def test_a_rule_has_a_probe_for_each_way(rule: Rule, way: str) -> None:
    assert probes_of(rule, (way,)), f"no probe can find {rule.code} {rule.name} by {way}"


@pytest.mark.parametrize("rule", BY_PROBES, ids=lambda rule: rule.code)
def test_a_rule_has_a_bad_case(rule: Rule) -> None:
    assert any(rule.code.lower() in source.lower() for _, source in functions("test_bad")), (
        f"no test_bad… names {rule.code}"
    )


@pytest.mark.parametrize("rule", BY_PROBES, ids=lambda rule: rule.code)
def test_a_rule_has_a_good_case(rule: Rule) -> None:
    """A good case calls the rule's probe by name, or names the rule."""
    names = [rule.code, *probes_of(rule)]
    assert any(name.lower() in source.lower() for _, source in functions("test_good") for name in names), (
        f"no test_good… for {rule.code}"
    )
