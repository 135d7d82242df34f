"""Turn reports into text: one module per format, each with one function ``render(report, style)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from distcheck.core.model import Finding, Report, Where
from distcheck.core.patterns import lazy
from distcheck.core.redaction import mask_all

#: format → module
FORMATS = {
    "full": "full",
    "concise": "concise",
    "json": "json_report",
    "json-lines": "json_lines",
    "github": "github",
    "gitlab": "gitlab",
    "sarif": "sarif",
    "junit": "junit",
    "rdjson": "rdjson",
    "html": "html",
    "markdown": "markdown",
    "prometheus": "prometheus",
}

#: What a CI system obeys if a log shows it: of GitHub Actions ``::stop-commands::``, which hides all
#: annotations that follow, at the beginning of a line, and ``##[…]`` anywhere, as Azure Pipelines and TeamCity.
CI_COMMAND = lazy(
    r"(?<!\S)::(?=(?:add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|internal-[\w-]+|notice|remove-matcher"
    r"|save-state|set-env|set-output|stop-commands|warning)(?:\s|::|$))|#(?=#(?:vso|teamcity)?\[)",
    re.IGNORECASE,
)
_JSON_HASH, _XML_HASH = r"\u0023", "&#35;"
_HASH_OF = {
    **dict.fromkeys(("json", "json-lines", "gitlab", "sarif", "rdjson"), _JSON_HASH),
    **dict.fromkeys(("junit", "html"), _XML_HASH),
}


class Style(NamedTuple):
    """The style of a text."""

    color: bool = False
    #: columns to wrap prose at; commands are never wrapped
    width: int = 80
    #: 1 (``-v``) shows info findings and evidence; 2 also facts, probes and their times
    verbose: int = 0
    quiet: bool = False
    #: whether more than ASCII can be shown
    unicode: bool = True


def render(report: Report, output_format: str, style: Style = Style()) -> str:
    """Return the report in one of FORMATS, ending with a line break; raises KeyError for another format.

    Credentials are masked, whatever file, log or exception they come from.
    """
    module = import_module(f"{__name__}.{FORMATS[output_format]}")
    text: str = module.render(mask_all(report), style)
    # a format with an escape of its own shows the same text to its readers
    own = _HASH_OF.get(output_format)
    return text if own is None else CI_COMMAND.sub(lambda found: found[0].replace("#", own, 1), text)


def counts(report: Report) -> str:
    """Return ``1 error, 2 warnings, 0 info``, for the last line of the text formats."""
    from distcheck.core.model import Severity

    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    info = [f"{number} info"] if (number := report.count(Severity.INFO)) or not report.hidden else []
    info += [f"{len(report.hidden)} info hidden (-v shows them)"] if report.hidden else []
    return ", ".join((f"{errors} error{'s' * (errors != 1)}", f"{warnings} warning{'s' * (warnings != 1)}", *info))


def sentence(report: Report) -> str:
    """Return the result of the smoke test in one line; empty for other commands."""
    if report.command == "collective" and not report.measurements:
        return "no rank was started: no backend or device was chosen"
    return str(report.measurements.get("sentence") or "")


def unseen(report: Report) -> int:
    """Return the number of rules that were not checked; an entry may name several."""
    return sum(len(item.what.split(", ")) for item in report.not_checked)


def undecided(report: Report) -> str:
    """Return a failure in a log with an unknown cause, in one line; empty if there is none."""
    story = report.story
    if not story or story.get("code") is not None or "first" not in story:
        return ""
    first = story["first"]
    text = first["text"].partition("\n")[0] or "an exception without a text"
    return f"{first['path']}:{first['line']}: undecided: {text} ({story['why']})"


def position(where: Where) -> str:
    """Return ``path:line:col`` or ``notebook:cell 3:line:col``; empty for a finding without a path."""
    cell = None if where.cell is None else f"cell {where.cell}"
    parts = (where.path, cell, where.line, where.column)
    return "" if where.path is None else ":".join(str(part) for part in parts if part is not None)


def inside(where: Where) -> str:
    """Return ``, archive/data.pkl, byte 45``, the location in a file without lines; empty if there is none."""
    if where.line is not None or where.path is None:
        return ""
    offset = None if where.offset is None else f"byte {where.offset}"
    return "".join(f", {part}" for part in (where.object, offset) if part is not None)


def line_of(where: Where) -> int | None:
    """Return the line of a file; None in a notebook, where lines are those of a cell."""
    return where.line if where.cell is None else None


def source_of(finding: Finding) -> str | None:
    """Return the line of source of a finding, as it was read when it was judged."""
    source = finding.evidence.get("source")
    return source if isinstance(source, str) else None


def flow_of(finding: Finding) -> Sequence[str]:
    """Return the steps of the data-flow path of a finding."""
    flow = finding.evidence.get("flow")
    return [str(step) for step in flow] if isinstance(flow, (list, tuple)) else []


def escape_first(found: re.Match[str]) -> str:
    """Return what was found with its first character as four, such as ``\\x23``."""
    return f"\\x{ord(found[0][0]):02x}{found[0][1:]}"


def escape(text: str) -> str:
    """Return a text with its control characters visible: a report must control neither a terminal nor a CI system."""
    if "::" in text or "##" in text:
        text = CI_COMMAND.sub(escape_first, text)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
