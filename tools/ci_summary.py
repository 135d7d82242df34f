"""Print what a run of tox took and found: seconds per environment, slowest tests, flaky tests, and last what failed.

    tox run-parallel --result-json result.json; python tools/ci_summary.py result.json

The exit status is 1 if an environment failed, or if one with torch did not run: without them a run proves little.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

#: The environments that a run must not skip.
REQUIRED = ("torch", "quiet")
SLOWEST = 20
#: Characters of a failed command's output that are printed: pytest's own summary stands at its end.
SHOWN = 8000

_DURATION = re.compile(r"^(\d+\.\d+)s (call|setup|teardown) +(\S.*)$", re.MULTILINE)
_RERUN = re.compile(r"^RERUN (\S.*)\n(?:(?!RERUN |=====).*\n)*?PASSED \1$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


class Environment(NamedTuple):
    """One environment of a run."""

    name: str
    #: seconds of installation and of commands
    setup_s: float
    test_s: float
    output: str
    #: commands that failed: words, exit status, end of the output
    failures: tuple[tuple[str, int, str], ...]


def environments(result: dict[str, Any]) -> list[Environment]:
    """Return the environments that ran, from the content of tox's `--result-json`."""
    found = []
    for name, run in result["testenvs"].items():
        # not of this run, or skipped because its Python is not here
        if run.get("result", {"skipped": True})["skipped"]:
            continue
        setup, test = run.get("setup", []), run.get("test", [])
        failures = tuple(
            (" ".join(step["command"]), int(step["retcode"]), step["err"][-1500:] + step["output"][-SHOWN:])
            for step in (*setup, *test)
            if step["retcode"]
        )
        found.append(
            Environment(
                name,
                sum(step["elapsed"] for step in setup),
                sum(step["elapsed"] for step in test),
                "\n".join(step["output"] for step in test),
                failures,
            )
        )
    return found


def slowest(found: list[Environment]) -> list[tuple[float, str]]:
    """Return the slowest tests of all environments: seconds and the environment with the test."""
    tests = [
        (float(seconds), f"{each.name}: {test} ({phase})")
        for each in found
        for seconds, phase, test in _DURATION.findall(each.output)
    ]
    return sorted(tests, reverse=True)[:SLOWEST]


def flaky(found: list[Environment]) -> list[str]:
    """Return the tests that failed and passed when they were run again."""
    return [f"{each.name}: {test}" for each in found for test in _RERUN.findall(each.output)]


def counts(found: list[Environment]) -> dict[str, int]:
    """Return how many tests passed, failed and were skipped, by the last line of each pytest run."""
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for each in found:
        for line in re.findall(r"^=+ (.* in \d.*) =+$", each.output, re.MULTILINE):
            for number, word in _COUNT.findall(line):
                total["failed" if word.startswith("error") else word] += int(number)
    return total


def summary(found: list[Environment]) -> str:
    """Return the text that ends a run."""
    lines = ["seconds per environment (installation + commands)"]
    lines += [
        f"  {each.name:<14}{each.setup_s + each.test_s:7.0f}   {each.setup_s:5.0f} + {each.test_s:5.0f}"
        for each in found
    ]
    lines += [f"{SLOWEST} slowest tests", *(f"  {seconds:7.1f} s  {test}" for seconds, test in slowest(found))]
    names = flaky(found)
    lines += [f"flaky tests, which failed and passed when run again: {len(names)}", *(f"  {name}" for name in names)]
    for each in found:
        for command, status, end in each.failures:
            lines += [f"==== {each.name}: {command} ended with {status}; the end of its output:", end]
    total = counts(found)
    lines.append(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return "\n".join(lines)


def main(path: str) -> int:
    """Print the summary; return the exit status."""
    found = environments(json.loads(Path(path).read_text()))
    print(summary(found))
    if missing := set(REQUIRED).difference(each.name for each in found):
        print(f"did not run: {', '.join(sorted(missing))}")
        return 1
    return int(any(each.failures for each in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
