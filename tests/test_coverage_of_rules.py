"""Every rule is reported for a bad case and not for a good one, through the public command, for each of its checks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from distcheck import rules
from distcheck.checks.cluster import comparison
from distcheck.cli import rehearse_report
from distcheck.cli.watch import OF_SAMPLES, OF_STEPS, OF_WORKERS
from distcheck.core import registry
from distcheck.core.checker import Checker
from distcheck.core.model import Rule, Severity
from distcheck.runtime.smoke_test import run as smoke

from .cases_of_rules import Cases, clusters, files, groups, jobs, machines, run
from .cli.test_cli import ROOT, distcheck
from .runtime.rehearsal.faults import FAULTS
from .test_plugins import add_entry_point

#: Which modules see a rule in a way.
PROBE_MODULES = {
    "env": ("distcheck.checks.host",),
    "ranks": (*comparison.PROBE_MODULES, "distcheck.checks.cluster.membership"),
    "live": smoke.PROBE_MODULES,
    "lint": ("distcheck.checks.source",),
    "launch": ("distcheck.checks.launch_files",),
    "pickle": ("distcheck.checks.pickles.file_probes", "distcheck.checks.pickles.object_probes"),
    "log": ("distcheck.checks.logs",),
    "watch": (
        "distcheck.runtime.coordination.hang_detector",
        "distcheck.runtime.coordination.drift",
        "distcheck.runtime.monitor.summary",
        *OF_SAMPLES,
        *OF_STEPS,
        *OF_WORKERS,
    ),
    # DC710 is lint's finding, where a rank raised because of that None
    "rehearse": (*rehearse_report.PROBE_MODULES, "distcheck.checks.source.collective_results"),
    "stuck": ("distcheck.runtime.inspect.snapshot_checks", "distcheck.runtime.inspect.collective_numbers"),
}
#: Where the cases of a way are.
CASES: dict[str, Callable[[str], Cases]] = {
    "env": machines.of_machines,
    "ranks": clusters.of_clusters,
    "live": groups.of_groups,
    "lint": files.of_scripts,
    "launch": files.of_launch_files,
    "pickle": files.of_pickles,
    "log": files.of_logs,
    "watch": jobs.of_watched_jobs,
    "stuck": jobs.of_stuck_jobs,
}
#: Ways whose cases take too long for this file, with the test that runs each of them through the public command. Not to
#: grow.
ELSEWHERE = {"rehearse": "tests/runtime/rehearsal/test_examples.py: ranks run with torch, some 10 s a case"}

#: So many cases of a rule run through the public command; the tests of each check run all of them.
TRIED = 2

#: DC901 to DC905 are about distcheck itself and are the same for all commands; each has a test below.
OF_COMMANDS = [
    (rule, way)
    for rule in rules.ALL
    if not rule.code.startswith("DC9")
    for way in rule.ways
    if way not in ELSEWHERE
]  # fmt: skip


def name(value: Rule | str) -> str:
    return value if isinstance(value, str) else value.code


@pytest.mark.parametrize(
    ("rule", "way"),
    [(rule, way) for rule in rules.ALL if not rule.code.startswith("DC9") for way in rule.ways],
    ids=name,
)
def test_a_rule_has_a_probe_for_each_way(rule: Rule, way: str) -> None:
    Checker(modules=PROBE_MODULES[way], plug_ins=False)
    assert any(
        rule in probe.rules and probe.function.__module__.startswith(PROBE_MODULES[way]) for probe in registry.probes()
    ), f"no probe can find {rule.code} {rule.name} by {way}"


@pytest.mark.parametrize(("rule", "way"), OF_COMMANDS, ids=name)
def test_a_bad_case_is_reported(rule: Rule, way: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    cases = CASES[way](rule.code).bad
    assert cases, f"{rule.code} has no bad case for {way}"
    silent = [case.name for case in cases[:TRIED] if rule.code not in case.said(tmp_path_factory.mktemp("bad")).codes]
    assert not silent


@pytest.mark.parametrize(("rule", "way"), OF_COMMANDS, ids=name)
def test_a_good_case_is_not_reported(rule: Rule, way: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    cases = CASES[way](rule.code).good
    assert cases, f"{rule.code} has no good case for {way}"
    silent = False
    for number, case in enumerate(cases):
        if silent and number >= TRIED:
            break
        level = case.said(tmp_path_factory.mktemp("good")).codes.get(rule.code)
        # a look-alike may be reported at a lower level; what was not judged counts as info
        assert level in (None, Severity.INFO) or level < max(rule.severities), f"{case.name}: {level.word}"
        silent |= level is None
    assert silent, [case.name for case in cases]


def test_a_rule_whose_cases_run_elsewhere_has_one_there() -> None:
    assert set(CASES) | set(ELSEWHERE) == set(PROBE_MODULES)
    rehearsed = {rule.code for rule in rules.ALL if "rehearse" in rule.ways and not rule.code.startswith("DC9")}
    assert rehearsed == {fault.code for fault in FAULTS}


# rules about distcheck itself

PLUG_IN = """\
import time
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.registry import fact, probe
from distcheck.checks.source.program import Program


class Slow(NamedTuple):
    value: int


@fact(limit_s=0.1)
def read_slowly(program: Program) -> Slow:
    time.sleep(60)


@probe(rules.DC701)
def fails(program: Program) -> Iterator[object]:
    raise ValueError("broken")


@probe(rules.DC702)
def needs_what_is_slow(program: Program, slow: Slow) -> Iterator[object]:
    return iter(())
"""


def test_bad_and_good_dc901_to_dc903_of_plug_ins(tmp_path: Path) -> None:
    """In a process of its own: what a plug-in registers stays registered."""
    (tmp_path / "train.py").write_text("import torch.distributed as dist\ndist.barrier()\n")
    site = tmp_path / "site"
    for module, text in (("fails", PLUG_IN), ("missing", "import no_such_module\n")):
        add_entry_point(site, f"{module}-1", f"{module} = {module}")
        (site / f"{module}.py").write_text(text)

    def codes(**environ: str) -> set[str]:
        words = ("lint", "--isolated", "--no-cache", "--output-format", "json", "train.py")
        return {item["code"] for item in json.loads(distcheck(*words, cwd=tmp_path, **environ).stdout)["findings"]}

    assert not {"DC901", "DC902", "DC903"} & codes()
    assert codes(PYTHONPATH=f"{ROOT}:{site}") >= {"DC901", "DC902", "DC903"}


def test_bad_and_good_dc904_and_dc905_of_files(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    words = ("lint", "--isolated", "--no-cache", "-j", "1", "--extend-select", "DC905", str(train))
    broken = "import torch.distributed as dist\nif dist.get_rank() == 0:\n    dist.barrier(\n"
    unused = "import torch.distributed as dist\ndist.get_rank()  # distcheck: ignore[DC701]\n"
    for text, codes in ((broken, {"DC904"}), (unused, {"DC905"}), ("import torch.distributed as dist\n", set())):
        train.write_text(text)
        assert {code for code in run(tmp_path, *words).codes if code.startswith("DC9")} == codes
