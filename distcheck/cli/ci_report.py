"""Combine the parts of ``distcheck ci`` into one report. Each finding names the part that found it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.configuration import Configuration
from distcheck.core.model import Finding, NotChecked, Report, merge_not_checked, sort_findings
from distcheck.core.world import World
from distcheck.rules import Selection

from .ci_profiles import ProfileChoice


class CiOptions(NamedTuple):
    """The options of a call, and what they are compared with."""

    given: Mapping[str, Any]
    world: World
    configuration: Configuration
    selection: Selection
    choice: ProfileChoice
    gpus: int
    until: float
    fail_on: str

    @property
    def all_info(self) -> bool:
        """Return whether findings of level info are shown for all rules."""
        return bool(self.given["verbose"]) or self.fail_on == "info"


class PartStatus(NamedTuple):
    """The outcome of a part."""

    part: str
    #: ``ran``, ``left-out`` (nothing to check here), ``cut`` (out of time) or ``broken``
    status: str
    elapsed_s: float
    report: Report | None = None
    #: what it checked, or why it did not
    detail: str = ""
    #: why not all of it could be done, if it applies here or was requested
    lacking: str = ""


def joined(done: Sequence[PartStatus], options: CiOptions, elapsed_s: float) -> Report:
    """Return one report of all parts."""
    reports = [
        item.report._replace(findings=_marked(item, item.report.findings), hidden=_marked(item, item.report.hidden))
        for item in done
        if item.report is not None
    ]
    first, *others = reports or [Report("ci")]
    report = first.merge(*others)
    by_part = {item.part: item.report for item in done if item.report is not None}
    host = by_part.get("env")
    smoke = by_part.get("smoke")
    unseen = [NotChecked(item.part, item.detail) for item in done if item.status != "ran"]
    unseen += [NotChecked(item.part, item.lacking) for item in done if item.status == "ran" and item.lacking]
    about = host or smoke
    subject = {} if about is None else {name: value for name, value in about.subject.items() if name != "line"}
    subject["profile"] = options.choice.profile.name
    subject["parts"] = [
        {"part": item.part, "status": item.status, "elapsed_s": round(item.elapsed_s, 3), "said": item.detail}
        for item in done
    ]
    why = options.choice.why
    subject["line"] = [
        f"profile {options.choice.profile.name}" + (f" ({why})" if why else ""),
        *(f"{item.part}: {item.detail if item.status == 'ran' else 'not checked'}" for item in done),
    ]
    return report._replace(
        command="ci",
        stage=host.stage if host is not None else None,
        subject=subject,
        findings=each_once(report.findings),
        hidden=each_once(report.hidden),
        not_checked=merge_not_checked((*unseen, *report.not_checked)),
        facts=host.facts if host is not None else {},
        elapsed_s=elapsed_s,
        out_of_time=report.out_of_time or any(item.status == "cut" for item in done),
        measurements=smoke.measurements if smoke is not None else {},
    )


def _marked(item: PartStatus, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings of a part, each with the part's name."""
    return tuple(finding._replace(evidence={**finding.evidence, "part": item.part}) for finding in findings)


def each_once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return each finding about this host once, with its worst severity; findings in files stay separate."""
    kept: dict[str, Finding] = {}
    rest: list[Finding] = []
    for finding in sort_findings(findings):
        if finding.where.path is not None:
            rest.append(finding)
            continue
        first = kept.setdefault(finding.key, finding)
        if first.evidence.get("part") == finding.evidence.get("part") and first is not finding:
            rest.append(finding)
    return sort_findings((*kept.values(), *rest))


def against(report: Report, baseline: tuple[str, Mapping[str, int]] | None) -> Report:
    """Return the report without the findings of the baseline."""
    if baseline is None:
        return report
    from distcheck.core.baseline import compare

    folder, counts = baseline
    # only lint knows which files it has read completely, so it alone reports fixed findings
    compared = compare(report.findings, counts, folder=folder, checked_paths=())
    subject = {**report.subject, "line": [*report.subject["line"], f"{len(compared.known)} known to the baseline"]}
    return report._replace(findings=sort_findings(compared.new), subject=subject)
