"""SARIF 2.1.0 (OASIS, errata 01): for the code scanning of GitHub and Azure DevOps, and for viewers in editors.

One run. Rules stand there once, with their pages; what was not checked, and what of distcheck itself failed, are
notifications of the invocation. Columns count characters. Nothing in it is a time, so that equal runs give equal files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from distcheck import rules
from distcheck.core.model import SCHEMA_VERSION, Edit, Finding, Report, Rule, Severity, Where, page_url, to_plain
from distcheck.core.patterns import lazy
from distcheck.core.rule_page import Page, read_page

from . import Style, flow_of, line_of, sentence
from .locations import (
    FileLocation,
    Repository,
    context,
    fingerprints,
    has_file,
    is_file,
    lead,
    repository,
    shown,
    stand_in,
    things,
)
from .plain import advice, dump, visible
from .text_parts import first_line

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = "https://distcheck.readthedocs.io/"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
#: Topics by the hundreds of the codes: the tags by which code scanning filters.
_TOPICS = {
    "1": "launch", "2": "devices", "3": "host", "4": "network", "5": "collectives", "6": "pickling",
    "7": "training-script", "8": "launch-files", "9": "distcheck",
}  # fmt: skip
#: Rules about code of others that loading a file or receiving an object would run.
_SECURITY = ("DC610", "DC616")
#: ``train.py:12: the global rank``, ``train.ipynb:cell 4:2: …``
_STEP = lazy(r"(?P<path>[^\s:][^:]*):(?:cell (?P<cell>\d+):)?(?P<line>\d+)(?::\d+)?: (?P<text>.*)", re.DOTALL)


def render(report: Report, style: Style = Style()) -> str:
    """One SARIF log with one run."""
    from distcheck._version import __version__

    found = shown(report)
    base = repository()
    described = _rules(found)
    index = {rule["id"]: number for number, rule in enumerate(described)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "distcheck",
                "version": __version__,
                "semanticVersion": __version__,
                "informationUri": _HOME,
                "rules": described,
            }
        },
        # results of another command are another category, and do not replace these
        "automationDetails": {"id": f"distcheck/{report.command}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"uri": _file_uri(base.root + "/")}},
        "invocations": [_invocation(report)],
        "results": [
            _result(finding, index[finding.code], mark, report, base)
            for finding, mark in zip(found, fingerprints(found), strict=True)
        ],
        "properties": {"stage": report.stage, "lookedAt": visible(first_line(report)), "schemaVersion": SCHEMA_VERSION},
    }
    if text := sentence(report):
        run["properties"]["sentence"] = visible(text)
    return dump({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


# rules


def _rules(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """The rules of the findings, by code."""
    known = rules.known()
    first: dict[str, Finding] = {}
    for finding in found:
        first.setdefault(finding.code, finding)
    return [_rule(first[code], known.get(code)) for code in sorted(first)]


def _rule(finding: Finding, rule: Rule | None) -> dict[str, Any]:
    """Return a rule with its page; of a rule of a plug-in, what its finding has."""
    described: dict[str, Any] = {"id": finding.code, "name": finding.name}
    if rule is None:
        text = finding.name.replace("-", " ")
        described["shortDescription"] = {"text": text}
        described["help"] = {"text": text}
        described["defaultConfiguration"] = {"level": _LEVELS[finding.severity]}
        return described
    page = read_page(rule.code)
    described["shortDescription"] = {"text": f"{rule.summary}."}
    described["fullDescription"] = {"text": _meaning(page) or f"{rule.summary}."}
    described["helpUri"] = page_url(rule.code)
    described["help"] = {"text": f"{rule.summary}. See {page_url(rule.code)}"}
    if page is not None:
        described["help"] = {"text": page.text, "markdown": page.text}
    described["defaultConfiguration"] = {"level": _LEVELS[rule.severity], "enabled": rule.on_by_default}
    tags = [_TOPICS[rule.code[2]]] if rule.code[2] in _TOPICS else []
    if rule.code in _SECURITY:
        tags.append("security")
    described["properties"] = {"tags": tags}
    return described


def _meaning(page: Page | None) -> str:
    """What a rule means, in one paragraph; code scanning takes no more than 1024 characters."""
    text = "" if page is None else page.sections.get("What it detects", "")
    return " ".join(text.partition("\n\n")[0].split())[:1000]


# the invocation


def _invocation(report: Report) -> dict[str, Any]:
    failed = [probe for probe in report.probes if probe.status in ("failed", "timed-out")]
    notes = [
        {
            "descriptor": {"id": "not-checked"},
            "level": "note",
            "message": {"text": visible(f"not checked: {item.what}: {item.why}")},
        }
        for item in report.not_checked
    ]
    for probe in failed:
        words_of = "raised an exception" if probe.status == "failed" else "did not end within its limit"
        note: dict[str, Any] = {
            "descriptor": {"id": probe.status},
            "level": "error",
            "message": {"text": visible(f"{probe.name} {words_of}")},
        }
        if probe.traceback:
            note["exception"] = {"message": visible(probe.traceback)}
        notes.append(note)
    if report.out_of_time:
        notes.append(
            {
                "descriptor": {"id": "out-of-time"},
                "level": "error",
                "message": {"text": "the time limit ended before everything was checked"},
            }
        )
    return {
        "executionSuccessful": not failed and not report.out_of_time,
        "toolExecutionNotifications": notes,
    }


# results


def _result(finding: Finding, index: int, mark: str, report: Report, base: Repository) -> dict[str, Any]:
    where = finding.where
    location = _location(where, report, base)
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{visible(finding.message)}{context(where)}\n{advice(finding)}"},
        "locations": [location],
        "partialFingerprints": {"distcheckKey/v1": mark},
    }
    physical = location["physicalLocation"]
    if "region" not in physical or "uriBaseId" not in physical["artifactLocation"] or not has_file(where):
        # GitHub's upload makes this one of a line of the checkout, and here there is none
        result["partialFingerprints"]["primaryLocationLineHash"] = f"{mark[:16]}:1"
    steps = list(_steps(finding, base))
    if steps:
        last = {"location": {**location, "message": {"text": visible(finding.message)}}}
        result["codeFlows"] = [{"threadFlows": [{"locations": [*steps, last]}]}]
    if related := list(_related(finding, report, base)):
        result["relatedLocations"] = related
    if fixes := _fixes(finding, base):
        result["fixes"] = fixes
    plain = finding.as_dict()
    result["properties"] = {"name": plain["name"], "key": plain["key"], "where": plain["where"]}
    result["properties"]["evidence"] = to_plain(finding.evidence)
    result["properties"]["fix"] = {name: value for name, value in plain["fix"].items() if name != "edits"}
    return result


def _location(where: Where, report: Report, base: Repository) -> dict[str, Any]:
    """Return a location in a file, or in the file that stands for the run; the rest as logical locations."""
    artifact = (
        _artifact(base.place(where.path or "")) if has_file(where) else _artifact(FileLocation(stand_in(report), True))
    )
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if has_file(where) and line_of(where) is not None:
        names = {"startLine": where.line, "startColumn": where.column}
        names |= {"endLine": where.end_line, "endColumn": where.end_column}
        physical["region"] = {name: value for name, value in names.items() if value is not None}
    elif has_file(where) and where.offset is not None and where.object is None:
        # and a byte of a member of an archive is not that byte of the archive
        physical["address"] = {"relativeAddress": where.offset, "kind": "data"}
    location: dict[str, Any] = {"physicalLocation": physical}
    logical = [
        {"name": visible(name), "kind": kind, "fullyQualifiedName": f"{kind} {visible(name)}"}
        for kind, name in things(where, function=_kind_of_object(where))
    ]
    if logical:
        location["logicalLocations"] = logical
    return location


def _kind_of_object(where: Where) -> str:
    """What ``where.object`` names."""
    if where.path is None:
        return "object"
    if where.path.endswith((".py", ".pyw", ".ipynb")):
        return "function"
    # of an archive, which has no lines; or a command of a script
    return "member" if where.line is None else "object"


def _steps(finding: Finding, base: Repository) -> Iterator[dict[str, Any]]:
    """Return what led to a value: the steps that name a location. All of them are in the evidence."""
    for step in flow_of(finding):
        if (found := _STEP.fullmatch(step)) and is_file(found["path"]):
            physical: dict[str, Any] = {"artifactLocation": _artifact(base.place(found["path"]))}
            text = found["text"]
            # of a notebook the lines are those of a cell
            if found["cell"] is None and not found["path"].endswith(".ipynb"):
                physical["region"] = {"startLine": max(int(found["line"]), 1)}
            elif found["cell"] is not None:
                text = f"cell {found['cell']}, line {found['line']}: {text}"
            yield {"location": {"physicalLocation": physical, "message": {"text": visible(text)}}}


def _related(finding: Finding, report: Report, base: Repository) -> Iterator[dict[str, Any]]:
    """The lines of a log on which the cause rests."""
    if finding != lead(report):
        return
    for number, event in enumerate(report.story.get("evidence", ())):
        in_file = is_file(event["path"])
        place = base.place(event["path"]) if in_file else FileLocation(stand_in(report), True)
        physical: dict[str, Any] = {"artifactLocation": _artifact(place)}
        if event["line"] and in_file:
            physical["region"] = {"startLine": event["line"]}
        yield {"id": number, "physicalLocation": physical, "message": {"text": visible(event["text"])}}


def _fixes(finding: Finding, base: Repository) -> list[dict[str, Any]]:
    """The edits of the fix, by file; only where each can be given byte for byte."""
    edits = [edit for edit in finding.fix.edits if is_file(edit.path)]
    if not edits or any(edit.text != edit.text.encode("utf-8", "ignore").decode("utf-8") for edit in edits):
        return []
    files: dict[str, list[Edit]] = {}
    for edit in edits:
        files.setdefault(edit.path, []).append(edit)
    changes = [
        {"artifactLocation": _artifact(base.place(path)), "replacements": [_replacement(edit) for edit in listed]}
        for path, listed in files.items()
    ]
    return [{"description": {"text": visible(finding.fix.text)}, "artifactChanges": changes}]


def _replacement(edit: Edit) -> Mapping[str, Any]:
    region = {
        "startLine": edit.line,
        "startColumn": edit.column,
        "endLine": edit.end_line,
        "endColumn": edit.end_column,
    }
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}


def _artifact(place: FileLocation) -> dict[str, str]:
    if place.inside:
        return {"uri": _quoted(place.path), "uriBaseId": "SRCROOT"}
    return {"uri": _file_uri(place.path)}


def _file_uri(path: str) -> str:
    """``file:///home/user/project/``, also of ``C:\\project\\``."""
    return "file:///" + _quoted(path.replace("\\", "/").lstrip("/"), safe="/:")


def _quoted(path: str, safe: str = "/") -> str:
    """Percent-encoded: a file name that is no UTF-8 by its own bytes."""
    try:
        return quote(path, safe, errors="surrogateescape")
    except UnicodeEncodeError:
        return quote(path, safe, errors="backslashreplace")
