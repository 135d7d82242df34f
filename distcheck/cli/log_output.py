"""How ``distcheck log`` ends: its report with what was read, and the exit status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from distcheck.core.configuration import Configuration
from distcheck.core.model import Report
from distcheck.rules import Selection

from . import output


class LogOptions(NamedTuple):
    """The options of a call, from the command line and the configuration."""

    paths: tuple[str, ...]
    given: Mapping[str, Any]
    selection: Selection
    fail_on: str
    must_check: Selection | None
    jobs: int
    configuration: Configuration


def finish(options: LogOptions, report: Report) -> int:
    """Write the report, and the exit status."""
    from distcheck.checks.logs.diagnose import is_undecided

    given = options.given
    report = with_subject(report)
    status = output.finish(report, given, options.configuration, fail_on=options.fail_on, must_check=options.must_check)
    sources = report.story["sources"]
    if sources and all(source["problem"] and not source["lines"] for source in sources):
        output.say("distcheck: nothing of the input could be read; name a log that is text, or a folder that holds one")
        return output.MISUSED
    if not sources:
        output.say("distcheck: no log is in what was named; name the files themselves")
        return output.MISUSED
    why = None
    if is_undecided(report):
        why = "a failure is in the text, and no rule names its cause: see 'fix' for what to do"
    elif any(source["problem"] for source in sources):
        why = "no failure is in what could be read, and not all could be"
    return output.or_not_checked(status, given, why)


def with_subject(report: Report) -> Report:
    """Return the report with its subject: files, and numbers of ranks, hosts and attempts."""
    story = report.story
    sources = story["sources"]
    lines = sum(source["lines"] for source in sources)
    parts = [
        sources[0]["path"] if len(sources) == 1 else f"{len(sources)} files",
        f"{lines:,} line{'s' * (lines != 1)}",
    ]
    if story["world_size"]:
        parts.append(f"{story['world_size']} rank{'s' * (story['world_size'] != 1)}")
    elif story["ranks_seen"]:
        parts.append(f"rank{'s' * (not story['ranks_seen'].isdecimal())} {story['ranks_seen']} seen")
    if len(story["hosts"]) > 1:
        parts.append(f"{len(story['hosts'])} hosts")
    if story["attempts"] > 1:
        parts.append(f"{story['attempts']} starts")
    subject = {**report.subject, "line": parts, "files": len(sources)}
    return report._replace(subject=subject)
