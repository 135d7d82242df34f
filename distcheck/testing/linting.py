"""``pytest --distcheck``: one run of ``distcheck lint`` over the project, and a test for each file with
findings.

The run takes place when tests are collected: values are followed across files, so that none can be judged alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from distcheck.cli import lint_inputs, lint_run, options
from distcheck.cli.lint import command, lint_options
from distcheck.cli.lint_results import described
from distcheck.core.model import Finding, Report, Severity, grouped
from distcheck.core.redaction import mask_all
from distcheck.core.world import World
from distcheck.reporters import Style, concise
from distcheck.reporters.progress import Progress
from distcheck.reporters.text_parts import finding_lines

#: The name of what is added, and of the mark by which ``-m distcheck`` selects it.
NAME = "distcheck"
#: Columns of the text of a finding.
_NARROWEST, _WIDEST = 60, 120


class DistcheckWarning(UserWarning):
    """A finding that is milder than what makes a test fail."""


class LintFailure(Exception):  # noqa: N818 - what is wrong is in the project
    """What makes a test fail; ``sections`` has the text of each finding."""

    def __init__(self, summary: str, sections: Sequence[tuple[str, str]]) -> None:
        super().__init__(summary)
        self.sections = tuple(sections)


class ProjectResult(NamedTuple):
    """The findings of ``distcheck lint`` in the project."""

    report: Report
    #: None where the configuration disables failures
    fail_on: Severity | None


def checks(session: pytest.Session, config: pytest.Config) -> list[pytest.Item]:
    """The tests to add: the project, and each file with findings."""
    look = take_look(config)
    by_path = grouped(look.report.findings, lambda finding: finding.where.path)
    found: list[pytest.Item] = [
        Check.from_parent(session, name=NAME, nodeid=NAME, look=look, findings=by_path.pop(None, []))
    ]
    for path in sorted(filter(None, by_path)):
        file = CheckedFile.from_parent(session, path=config.rootpath / path)
        found.append(Check.from_parent(file, name=NAME, look=look, findings=by_path[path]))
    for item in found:
        item.add_marker(NAME)
    return found


def take_look(config: pytest.Config) -> ProjectResult:
    """Lint what is below the root folder, by its configuration and the options.

    :raises pytest.UsageError: an option or the configuration is not right
    """
    words = []
    for name in ("select", "extend-select", "ignore"):
        for codes in config.getoption(f"distcheck_{name.replace('-', '_')}"):
            words += [f"--{name}", codes]
    if (fail_on := config.getoption("distcheck_fail_on")) is not None:
        words += ["--fail-on", fail_on]
    if os.environ.get("PYTEST_XDIST_WORKER"):
        words += ["--jobs", "1"]  # its neighbours run the same on the other cores
    with _working_in(config.rootpath):
        try:
            configuration = options.configuration_of(World(), None, isolated=False)
            given = command.make_context("lint", words, auto_envvar_prefix=None).params
            settings = lint_options(given, configuration)
            inputs = lint_inputs.inputs_of(settings)
            silent = lint_inputs.DelayedProgress(Progress(io.StringIO()), time.monotonic())
            result = lint_run.look(settings, inputs, {}, silent)
        except click.UsageError as error:
            raise pytest.UsageError(f"--distcheck: {error.format_message()}") from None
        lint_run.save_cache(settings)
        report = described(result, inputs, settings, configuration)
    return ProjectResult(report, None if settings.fail_on == "never" else Severity.parse(settings.fail_on))


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    """Paths of findings, and the nearest configuration, are those of the working folder."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class CheckedFile(pytest.File):
    """A file with findings; what is in it is not imported."""

    def collect(self) -> list[pytest.Item]:
        return []


class Check(pytest.Item):
    """Fails with the findings of one file, or with those that belong to none."""

    def __init__(self, *, look: ProjectResult, findings: Sequence[Finding], **node: Any) -> None:
        super().__init__(**node)
        self.look = look
        self.findings = tuple(findings)

    def runtest(self) -> None:
        limit = self.look.fail_on
        loud = [finding for finding in self.findings if limit is not None and finding.severity >= limit]
        if loud:
            raise LintFailure(_summary(loud), [(_title(finding), self._text(finding)) for finding in self.findings])
        for finding in self.findings:
            self._warn(finding)
        if self.nodeid == NAME:
            self._describe_project()

    def _warn(self, finding: Finding) -> None:
        where = finding.where
        path = self.config.rootpath / (where.path or "")
        warnings.warn_explicit(
            f"{finding.code} {finding.name}: {finding.message}", DistcheckWarning, str(path), where.line or 1
        )

    def _describe_project(self) -> None:
        report = self.look.report
        lines = [" · ".join(["distcheck lint", *map(str, report.subject.get("line", ()))])]
        lines += [f"not checked: {item.what}: {item.why}" for item in report.not_checked]
        self.add_report_section("call", NAME, "\n".join(lines))
        if not report.subject["files"] and not report.findings:
            pytest.skip(f"no Python files and no launch files below {self.config.rootpath}")

    def _text(self, finding: Finding) -> str:
        finding = mask_all(finding)
        if self.config.getoption("tbstyle", "auto") in ("short", "line"):
            return concise.render(self.look.report._replace(findings=(finding,)), Style()).splitlines()[0] + (
                f"\nfix: {finding.fix.text}" + (f"\n    {finding.fix.command}" if finding.fix.command else "")
            )
        width = min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
        return "\n".join(list(finding_lines(finding, Style(width=width)))[1:])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, LintFailure):
            return excinfo.getrepr(style="value")
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path if isinstance(self.parent, CheckedFile) else self.config.rootpath, None, self.nodeid


def _title(finding: Finding) -> str:
    where = finding.where
    place = "" if where.line is None else f":{where.line}"
    return (
        f"{finding.severity.word} {finding.code} {finding.name} ({where.path}{place})"
        if where.path
        else (f"{finding.severity.word} {finding.code} {finding.name}")
    )


def _summary(findings: Sequence[Finding]) -> str:
    rules = dict.fromkeys(f"{finding.code} {finding.name}" for finding in findings)
    number = len(findings)
    return f"{number} finding{'s' * (number != 1)}: {', '.join(rules)}"
