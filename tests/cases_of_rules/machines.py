"""Recorded machines: ``distcheck env --facts FILE`` on what was read on a machine of ``tests/hosts``."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distcheck.checks.host.examine import examine
from distcheck.core import registry
from distcheck.core.facts_file import dump_facts
from distcheck.core.model import Severity
from distcheck.launch.model import Launch
from tests.rules.circumstances import on_a_machine
from tests.rules.examples import Example, examples
from tests.test_hosts import facts_of, hosts, known_facts, launch_of, read, world_of

from . import Case, Cases, Said, run


@functools.cache
def launches() -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Every launch on every machine, but those whose verdict is known to be wrong."""
    return tuple((host, case) for host in hosts() for case in read(host, "cases") if "defect" not in case)


@functools.cache
def trees() -> tempfile.TemporaryDirectory[str]:
    """Where the file tree of each machine is, until the tests end."""
    return tempfile.TemporaryDirectory(prefix="machines-")


@functools.cache
def replayed(number: int) -> Said:
    """Return what the command reports for the facts that were read for a launch."""
    return replay(*launches()[number])


def replay(host: str, case: Mapping[str, Any]) -> Said:
    """Return what ``env --facts`` reports for a launch on a recorded machine."""
    world = world_of(host, case, Path(trees().name))
    with tempfile.TemporaryDirectory() as folder:
        launch = launch_of(case, world)
        known = known_facts()
        seen = examine(launch, world, facts=facts_of(host, case)).facts
        facts = {known[name]: value for name, value in seen.items() if name in known}
        path = Path(folder) / "facts.json"
        path.write_text(dump_facts({**facts, Launch: launch}, tool_version="test", saved_at=""), encoding="utf-8")
        return run(Path(folder), "env", "--isolated", "--facts", str(path))


def case_of(number: int, code: str = "", probes: frozenset[str] = frozenset()) -> Case:
    """The launch as a case. With a code: where no probe of that rule has judged it, the rule counts as reported."""
    host, case = launches()[number]

    def said(_: Path) -> Said:
        found = replayed(number)
        if code and (code in found.not_checked or not probes & found.ran):
            return found._replace(codes={**found.codes, code: Severity.INFO})
        return found

    return Case(f"{host}: {case['name']}", said)


def worst(case: Mapping[str, Any], code: str) -> int:
    """The severity that a launch expects of a rule, 0 for none."""
    words = case["expect"].get(code, [])
    loud = [Severity.parse(word) for word in ([words] if isinstance(words, str) else words)]
    return max(loud, default=int(code in case.get("info", ())))


def of_example(example: Example) -> list[Case]:
    """Return the blocks of a page's example as cases."""

    def case(number: int) -> Case:
        host, launch = on_a_machine(example, number)
        return Case(f"{host}: {launch['name']}", lambda _: replay(host, launch))

    return [case(number) for number in range(len(example.blocks))]


def of_machines(code: str) -> Cases:
    """Return the launches that show the rule, the worst first, and those that neither report it nor leave it unchecked.

    A rule that no recorded launch shows has the example of its page.
    """
    everywhere = launches()
    order = sorted(range(len(everywhere)), key=lambda number: -worst(everywhere[number][1], code))
    bad = [number for number in order if worst(everywhere[number][1], code)]
    if not bad:
        return Cases(*map(of_example, examples(code)))
    probes = frozenset(probe.name for probe in registry.probes() if code in {rule.code for rule in probe.rules})
    good = [number for number in range(len(everywhere)) if number not in bad]
    return Cases([case_of(number) for number in bad], [case_of(number, code, probes) for number in good])
