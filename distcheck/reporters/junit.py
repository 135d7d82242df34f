"""JUnit XML, for Jenkins, GitLab, Azure DevOps and others: one suite, one case per finding.

Errors and warnings are failures, and info findings are cases that pass. What was not checked is skipped. Failures of
distcheck itself, and a log with an unknown cause, are errors. Without findings there is one case that passes, because
an empty suite looks like a run that did not happen. Names stay the same when lines move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape as escape_xml
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, NotChecked, Report, Severity, page_url

from . import Style, escape, line_of, position, sentence
from .locations import UNDECIDED, Repository, has_file, repository, shown, words
from .plain import advice, visible
from .text_parts import brief, first_line

#: Findings about distcheck itself: a probe that raised, a reader without an end, a plug-in that does not import.
_BROKEN = ("DC901", "DC902", "DC903", UNDECIDED)
#: Columns of the text of a story or of measurements.
_WIDTH = 100
#: A line break in an attribute would be read as a blank.
_BREAK = "\n"


class _TestCase(NamedTuple):
    """A test case: its name, attributes and outcome."""

    name: str
    attributes: Mapping[str, object] = {}
    #: failure, error, skipped, or empty where it passes
    outcome: str = ""
    kind: str = ""
    message: str = ""
    text: str = ""


def render(report: Report, style: Style = Style()) -> str:
    """A document with one suite, all in ASCII."""
    base = repository()
    cases = [_case(finding, base) for finding in shown(report)]
    if report.out_of_time:
        late = "the time limit ended before everything was checked"
        cases.append(_TestCase(f"distcheck {report.command}: out of time", {}, "error", "out-of-time", late, late))
    skipped = [case for item in report.not_checked for case in _skipped(item)]
    wrong = any(case.outcome for case in cases)
    # if nothing could be checked, nothing passed
    if not wrong and (report.checked or not skipped):
        cases.insert(0, _TestCase(f"distcheck {report.command}", {"time": _seconds(report.elapsed_s)}))
    cases = list(_unique_names([*cases, *skipped]))
    return "\n".join(_document(report, cases)) + "\n"


def _document(report: Report, cases: list[_TestCase]) -> Iterator[str]:
    numbers = {
        "tests": len(cases),
        "failures": sum(case.outcome == "failure" for case in cases),
        "errors": sum(case.outcome == "error" for case in cases),
        "skipped": sum(case.outcome == "skipped" for case in cases),
        "time": _seconds(report.elapsed_s),
    }
    host = report.subject.get("host")
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites{_attributes({'name': 'distcheck', **numbers})}>"
    yield f"  <testsuite{_attributes({'name': f'distcheck.{report.command}', **numbers, 'hostname': host})}>"
    yield from _properties(report)
    for case in cases:
        yield from _written(case, report)
    if run_text := "\n".join(_run_text(report)):
        yield f"    <system-out>{_text(run_text)}</system-out>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _case(finding: Finding, base: Repository) -> _TestCase:
    where = finding.where
    place = words(where, lines=False)
    attributes: dict[str, object] = {}
    if has_file(where):
        attributes["file"] = path = base.place(where.path or "").path
        place = f"{escape(path)}, {place}" if place else escape(path)
        attributes["line"] = line_of(where)
    name = f"{finding.code} {finding.name}" + (f" ({place})" if place else "")
    text = "\n".join(_case_text(finding, base))
    if finding.severity is Severity.INFO:
        return _TestCase(name, attributes, text=text)
    outcome = "error" if finding.code in _BROKEN else "failure"
    return _TestCase(name, attributes, outcome, finding.severity.word, visible(finding.message), text)


def _case_text(finding: Finding, base: Repository) -> Iterator[str]:
    """Yield the text of a finding, for the body of its case."""
    where = finding.where
    yield f"{finding.severity.word}: {visible(finding.message)}"
    if has_file(where):
        yield "at " + escape(position(where._replace(path=base.place(where.path or "").path)))
    # the function around a line is visible at the line
    if text := words(where if where.line is None else where._replace(object=None, cell=None)):
        yield f"concerns: {text}"
    for name, value in finding.evidence.items():
        # the role only orders the findings of a log
        if value not in (None, "", [], {}) and name != "role":
            several = isinstance(value, (list, tuple)) and len(value) > 1
            yield f"{name}:" + (
                "".join(f"\n    {brief(part)}" for part in value) if several else f" {brief(value).strip()}"
            )
    yield advice(finding)
    if finding.code != UNDECIDED:
        yield page_url(finding.code)


def _skipped(item: NotChecked) -> Iterator[_TestCase]:
    """Yield a case for each rule, so that each has its own history."""
    for what in item.what.split(", "):
        rule = rules.look_up(what)
        name = what if rule is None else f"{rule.code} {rule.name}"
        yield _TestCase(f"{name}: not checked", outcome="skipped", message=f"not checked: {visible(item.why)}")


def _unique_names(cases: list[_TestCase]) -> Iterator[_TestCase]:
    """Yield cases with unique names: of two with one name, most programs show only the last."""
    seen: dict[str, int] = {}
    for case in cases:
        seen[case.name] = number = seen.get(case.name, 0) + 1
        yield case if number == 1 else case._replace(name=f"{case.name} #{number}")


def _properties(report: Report) -> Iterator[str]:
    plain = {name: value for name, value in report.subject.items() if isinstance(value, (str, int, float))}
    if report.stage:
        plain = {"stage": report.stage, **plain}
    if not plain:
        return
    yield "    <properties>"
    for name, value in plain.items():
        yield f"      <property{_attributes({'name': name, 'value': value})}/>"
    yield "    </properties>"


def _written(case: _TestCase, report: Report) -> Iterator[str]:
    attributes = {"classname": f"distcheck.{report.command}", "name": case.name, "time": "0.000", **case.attributes}
    head = f"    <testcase{_attributes(attributes)}"
    if not case.outcome and not case.text:
        yield head + "/>"
        return
    yield head + ">"
    if case.outcome == "skipped":
        yield f"      <skipped{_attributes({'message': case.message})}/>"
    elif case.outcome:
        inner = _attributes({"type": case.kind, "message": case.message})
        yield f"      <{case.outcome}{inner}>{_text(case.text)}</{case.outcome}>"
    else:
        yield f"      <system-out>{_text(case.text)}</system-out>"
    yield "    </testcase>"


def _run_text(report: Report) -> Iterator[str]:
    """Yield the text of the run: what was checked, the root-cause summary of a log, measurements."""
    plain = Style(width=_WIDTH)
    yield visible(first_line(report))
    if report.story:
        from . import log_summary

        yield ""
        yield from log_summary.lines_of(report, plain)
    if report.measurements:
        from . import measurements

        yield from measurements.lines(report, plain)
        yield ""
        yield escape(sentence(report))
    yield from (escape(str(line)) for line in report.subject.get("closing", ()))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _attributes(values: Mapping[str, object]) -> str:
    return "".join(
        f' {name}="{_text(str(value)).replace(_BREAK, "&#10;")}"' for name, value in values.items() if value is not None
    )


def _text(text: str) -> str:
    """Return escaped ASCII: what XML can't hold is visible, and other characters are references."""
    return escape_xml(visible(text), quote=True).encode("ascii", "xmlcharrefreplace").decode("ascii")
