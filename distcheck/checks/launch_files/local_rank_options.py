"""What launch lines give to the option of a script for the local rank, where its parser has one spelling (DC207)."""

from __future__ import annotations

import os
from collections.abc import Iterable

from distcheck.core.model import Finding, Severity
from distcheck.core.rank_evidence import AS_EXPECTED, OPTION_OF
from distcheck.launch.model import ELASTIC_LAUNCHERS

from .model import LaunchSite


def with_launched_option(finding: Finding, sites: Iterable[LaunchSite]) -> Finding:
    """Return a finding about the option for the local rank, with what launch lines of its scripts give to it.

    :param sites: the launch lines that start one of the scripts in its evidence
    """
    evidence = dict(finding.evidence)
    for site in sites:
        given = _given(finding, site)
        if given is None:
            del evidence[OPTION_OF]
            evidence.pop(AS_EXPECTED, None)
            break
        if given:
            evidence.setdefault(AS_EXPECTED, given)
    return finding._replace(evidence=evidence)


def by_launched_option(finding: Finding) -> Finding:
    """Return a finding once all launch lines are known: a note where none of them gives what its option refuses."""
    evidence = dict(finding.evidence)
    del evidence[OPTION_OF]
    given = evidence.pop(AS_EXPECTED, "")
    if not given and "variable" in evidence:
        given = "no known launch line passes one"
    if not given or finding.severity == Severity.INFO:
        return finding._replace(evidence=evidence)
    return finding._replace(severity=Severity.INFO, message=f"{finding.message}; {given}", evidence=evidence)


def _given(finding: Finding, site: LaunchSite) -> str | None:
    """Return what a launch line gives to the option: None if that is not what it expects, empty if it is not known."""
    command, option = site.command, finding.evidence["option"]
    reads = "variable" in finding.evidence
    line = f"{os.path.relpath(site.span.path)}:{site.span.line}"
    if any(word.partition("=")[0] == option for word in command.script_args):
        return f"{line} passes it"
    added = command.local_rank_argument
    if added is not None:
        refused = added != option and (finding.evidence[OPTION_OF]["strict"] or not reads)
        return None if refused else f"{line} passes {added}"
    if command.launcher not in ELASTIC_LAUNCHERS or command.launcher == "accelerate":
        return ""
    if "script_args" in command.unknown:
        return ""
    one = command.nproc in (None, "1") and "nproc" not in command.unknown
    return f"{line} passes none" if reads or one else None
