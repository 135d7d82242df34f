"""Changes the code that decides, one small change at a time, and counts the mutants that the quick tests kill.

Run from the root of a checkout: ``tox -e mutants``. cosmic-ray makes the mutants and runs the tests. This file decides
which mutants to draw, which tests to run, and what the result means. docs/quality.md lists the equivalent mutants, each
with the reason why no user can see the change. Fewer than 90 % killed of the other ones is a failure.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Queue
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "quality.md"
SEED = "distcheck"
LEAST = 90.0
#: Not drawn, since nearly always equivalent: `is` for `==` or the reverse, another operator for the `|` of types.
UNSEEN = re.compile(r"Operator_(Eq_Is|Is_Eq|NotEq_IsNot|IsNot_NotEq|BitOr_\w+)$")
#: Area: files below distcheck/, and the tests that run against their mutants, the most likely to kill them first.
AREAS = {
    "checker": (
        "core/checker.py core/registry.py checks/host/examine.py",
        "core/test_checker.py checks/host/test_examine.py test_plugins.py test_hosts.py",
    ),
    "log ranking": (
        "checks/logs/ranking.py checks/logs/failed_rank.py",
        "checks/logs/test_ranking.py checks/logs/test_failed_rank.py checks/logs/test_job_end.py "
        "checks/logs/test_summary.py checks/logs/test_cases.py",
    ),
    "pickle verdict": (
        "checks/pickles/verdict.py checks/pickles/weights_only.py",
        "checks/pickles/test_verdict.py checks/pickles/test_weights_only.py checks/pickles/test_file_probes.py "
        "checks/pickles/test_raw_pickles.py checks/pickles/test_files.py checks/pickles/test_corpus.py",
    ),
    "source algebra": ("checks/source/algebra.py", "checks/source lint/test_cases.py"),
    "source guards": (
        "checks/source/rank_numbers.py checks/source/evaluate.py checks/source/source_tables.py "
        "checks/source/call_sites.py checks/source/rank_reach.py checks/source/variables.py "
        "checks/source/operators.py checks/source/call_results.py",
        "checks/source lint/test_cases.py",
    ),
    "exit status": ("cli/exit_status.py cli/output.py", "cli/test_exit_status.py cli/test_output.py cli/test_cli.py"),
    "merge": (
        "core/model.py checks/cluster/merge.py cli/env_merge.py",
        "core/test_model.py checks/cluster/test_merge.py cli/test_env_merge_options.py cli/test_env_merge.py",
    ),
    "root cause of hangs": (
        # smoke_test/stragglers.py measures with torch, and has no verdict
        "runtime/coordination/root_cause.py runtime/smoke_test/straggler_checks.py "
        "runtime/coordination/hang_detector.py runtime/coordination/call_mismatch.py "
        "runtime/coordination/long_waits.py runtime/monitor/summary.py",
        "runtime/coordination/test_root_cause.py runtime/smoke_test/test_straggler_checks.py "
        "runtime/coordination/test_hang_detector.py runtime/coordination/test_call_mismatch.py "
        "runtime/monitor/test_summary.py",
    ),
}


class Mutant(NamedTuple):
    """One change of one file, and what the tests made of it."""

    file: str
    function: str
    #: The changed lines without indentation, which stay the same when code moves.
    before: str
    after: str
    outcome: str

    def __str__(self) -> str:
        return f"{self.file}: {self.function}\n- {self.before}\n+ {self.after}"


def possible(file: str) -> list[tuple[str, Any]]:
    """Return every mutant that cosmic-ray can make of a file, each with a name that stays when its line moves."""
    from cosmic_ray.commands.init import _all_work_items

    path, seen = ROOT / "distcheck" / file, Counter[str]()
    lines = path.read_text(encoding="utf-8").split("\n")
    found = []
    for item in _all_work_items([path], {}):
        (mutant,) = item.mutations
        if not UNSEEN.search(mutant.operator_name):
            name = f"{file} {mutant.definition_name} {lines[mutant.start_pos[0] - 1].strip()} {mutant.operator_name}"
            seen[name] += 1
            found.append((f"{name} {seen[name]}", mutant))
    return found


def drawn(found: list[tuple[str, Any]], count: int, seed: str = SEED) -> list[Any]:
    """Draw by a hash of seed and name, one mutant for each position: a change of code redraws only its own lines."""
    first: dict[object, Any] = {}
    for _, mutant in sorted(found, key=lambda one: hashlib.sha256(f"{seed} {one[0]}".encode()).digest()):
        first.setdefault((mutant.module_path, mutant.start_pos), mutant)
    return list(first.values())[:count]


def changed(diff: str) -> tuple[str, str]:
    """Return the lines that a unified diff removes, and those that it adds, without indentation."""
    lines = diff.splitlines()
    body = lines[next((number for number, line in enumerate(lines) if line.startswith("@@")), 0) :]
    return tuple(" ".join(line[1:].strip() for line in body if line.startswith(sign)) for sign in "-+")  # type: ignore[return-value]


def run(area: str, mutant: Any, limit_s: float) -> Mutant:
    """Apply a mutant in this process's copy and run the tests of its area."""
    import attrs
    from cosmic_ray.mutating import mutate_and_test

    file = str(mutant.module_path.relative_to(ROOT))
    result = mutate_and_test([attrs.evolve(mutant, module_path=file)], command(area), limit_s)
    outcome = "timed out" if result.output == "timeout" else str(result.test_outcome.value)
    if result.diff is None or outcome == "incompetent":
        raise RuntimeError(f"{file}: {result.output}")
    return Mutant(file.removeprefix("distcheck/"), mutant.definition_name or "", *changed(result.diff), outcome)


def command(area: str) -> str:
    """Return the command that runs an area's tests and ends at the first failure."""
    tests = " ".join(f"tests/{test}" for test in AREAS[area][1].split())
    return f"{sys.executable} -m pytest -qx -n0 --hypothesis-seed=0 -m 'not torch and not numpy and not slow' {tests}"


def unchanged(area: str) -> float:
    """Return the seconds that the tests of an area take without a mutant."""
    from cosmic_ray.testing import run_tests

    begun = time.monotonic()
    outcome, output = run_tests(command(area), 600)
    if outcome.value != "survived":
        raise RuntimeError(f"{area}: the tests fail without a mutant\n{output}")
    return time.monotonic() - begun


def enter(copies: Queue[str]) -> None:
    """Make a copy of the checkout this process's own."""
    os.chdir(copy := copies.get())
    os.environ.update(PYTHONPATH=copy, TMPDIR=str(Path(copy).parent))


def copied(to: Path) -> str:
    """Copy what git tracks or would track; compile it so that a changed file is compiled again whatever its date."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    compileall.compile_dir(to / "distcheck", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return str(to)


def measure(areas: Iterable[str], each: int, jobs: int, seed: str) -> Iterator[tuple[str, int, list[Mutant]]]:
    """Yield each area with the number of its possible mutants, and the ones that were drawn."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copies: Queue[str] = Queue()
        for number in range(jobs):
            copies.put(copied(Path(folder) / str(number)))
        with ProcessPoolExecutor(jobs, initializer=enter, initargs=(copies,)) as pool:
            seconds = dict(zip(areas, pool.map(unchanged, areas), strict=True))
            for area in areas:
                found = [one for file in AREAS[area][0].split() for one in possible(file)]
                limit_s = 30 + 4 * seconds[area]
                running = [pool.submit(run, area, mutant, limit_s) for mutant in drawn(found, each, seed)]
                yield area, len(found), [one.result() for one in running]


def equivalent(page: str) -> set[tuple[str, ...]]:
    """Return the mutants that the page lists as changing nothing that a user could see."""
    row = re.compile(r"^\| `(\S+)` \| `(\S*)` \| `(.+?)` \| `(.*?)` \| .+ \|$", re.MULTILINE)
    return {tuple(part.replace("\\|", "|") for part in found) for found in row.findall(page)}


def share(mutants: list[Mutant]) -> float:
    """Return the per cent of mutants that were killed. One that timed out counts as killed."""
    return 100 * sum(mutant.outcome != "survived" for mutant in mutants) / max(1, len(mutants))


def result(areas: list[tuple[str, int, list[Mutant]]], listed: set[tuple[str, ...]]) -> tuple[str, bool]:
    """Return the text to print, and whether enough were killed and no listed mutant was."""
    rows = ["| area | mutants | drawn | killed | timed out | survived | equivalent |", "| --- |" + " ---: |" * 6]
    for name, every, found in areas:
        kinds = Counter("equivalent" if f.outcome == "survived" and f[:4] in listed else f.outcome for f in found)
        counts = " | ".join(str(kinds[kind]) for kind in ("killed", "timed out", "survived", "equivalent"))
        rows.append(f"| {name} | {every} | {len(found)} | {counts} |")
    mutants = [mutant for _, _, found in areas for mutant in found]
    wrong = [mutant for mutant in mutants if mutant.outcome != "survived" and mutant[:4] in listed]
    others = [mutant for mutant in mutants if mutant.outcome != "survived" or mutant[:4] not in listed]
    shown = [f"survived: {mutant}" for mutant in others if mutant.outcome == "survived"]
    shown += [f"listed as equivalent, but killed: {mutant}" for mutant in wrong]
    figures = f"{share(mutants):.1f} % of all killed, {share(others):.1f} % without the equivalent ones"
    return "\n\n".join(["\n".join(rows), *shown, figures]), share(others) >= LEAST and not wrong


def main() -> None:
    """Draw, run, print; exit with 1 if too few mutants are killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--area", action="append", choices=AREAS, help="only this area; may be repeated")
    parser.add_argument("--each", type=int, default=40, help="how many mutants to draw from each area")
    parser.add_argument("--seed", default=SEED, help="another word draws other mutants")
    parser.add_argument("--jobs", type=int, default=2, help="how many test runs at once")
    options = parser.parse_args()
    areas = []
    for one in measure(options.area or list(AREAS), options.each, options.jobs, options.seed):
        print(f"{one[0]}: done", file=sys.stderr)
        areas.append(one)
    text, good = result(areas, equivalent(PAGE.read_text(encoding="utf-8")))
    print(text)
    sys.exit(not good)


if __name__ == "__main__":
    main()
