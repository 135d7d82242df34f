"""Write the results of ``distcheck lint``: the report, a baseline, a difference, the fixed files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from distcheck import rules
from distcheck.core.configuration import Configuration
from distcheck.core.model import Report, grouped
from distcheck.core.redaction import mask_forms

from . import options as shared
from . import output
from .lint_inputs import LintFiles, LintOptions, bytes_of, has_changed, say
from .lint_run import LintResult


def finish(
    options: LintOptions,
    inputs: LintFiles,
    configuration: Configuration,
    result: LintResult,
    changed: Mapping[str, bytes],
    fixed: int,
) -> int:
    """Write the results, and return the exit status."""
    given = options.given
    report = described(result, inputs, options, configuration)
    style = output.style_of(given)
    warn_about_inputs(options, inputs, result)
    if given["write_baseline"] is not None:
        return _write_baseline(options, inputs, report)
    if given["diff"]:
        return _print_diff(options, inputs, changed, fixed)
    written = True
    if given["fix"] and inputs.standard_input:
        # standard output has the source, fixed or not, and must not have the report
        (name,) = inputs.paths or inputs.launch or ("",)
        sys.stdout.flush()
        sys.stdout.buffer.write(changed.get(name, inputs.texts.get(name, b"")))
        sys.stdout.flush()
    elif given["fix"]:
        written = _write_changes(options, inputs, changed, fixed)
    if given["statistics"]:
        written = _print(_statistics(report, given["output_format"]), given["output_file"]) and written
    elif given["fix"] and inputs.standard_input and given["output_file"] is None:
        from distcheck.reporters import render

        click.echo(render(report, _format(given), style), err=True, nl=False)
    else:
        written = output.emit(report, _format(given), given["output_file"], style) and written
    _say_what_can_be_fixed(options, result)
    if _nothing_was_read(inputs, result):
        click.echo("distcheck: none of the input could be read", err=True)
        return output.MISUSED
    must_check = shared.must_check_of(given, configuration)
    return output.conclude(report, given, written=written, fail_on=options.fail_on, must_check=must_check)


def _format(given: Mapping[str, Any]) -> str:
    """One line is all that ``-q`` wants, of the formats that people read."""
    chosen = str(given["output_format"])
    return "full" if given["quiet"] and chosen == "concise" else chosen


def _nothing_was_read(inputs: LintFiles, result: LintResult) -> bool:
    seen = result.seen
    problems = len(set(seen.broken).intersection(inputs.paths)) + seen.launch_unread
    number = len(inputs.paths) + len(seen.launch)
    return problems == number if number else bool(inputs.problems)


def described(result: LintResult, inputs: LintFiles, options: LintOptions, configuration: Configuration) -> Report:
    """The report with its first line."""
    launch_files = len(result.seen.launch)
    number = len(inputs.paths) + launch_files
    line = ["standard input" if inputs.standard_input else _of_files(number, launch_files)]
    if options.baseline is not None:
        line.append(f"{result.known} known to the baseline")
    if result.lowered:
        line.append(f"{result.lowered} lowered to info by measured precision (--preview: own level)")
    if result.silenced:
        line.append(f"{result.silenced} silenced in the code or by per-file-ignores")
    report = result.report._replace(
        subject={"files": number, "python": ".".join(map(str, sys.version_info[:3])), "line": line},
    )
    return output.with_settings_line(report, options.given, configuration)


def _of_files(number: int, launch_files: int) -> str:
    """How many files there are, and how many of them are launch files."""
    if launch_files == number and number:
        return f"{number} launch file{'s' * (number != 1)}"
    among = f", {launch_files} of them {'launch files' if launch_files != 1 else 'a launch file'}"
    return f"{number} file{'s' * (number != 1)}" + (among if launch_files else "")


def warn_about_inputs(options: LintOptions, inputs: LintFiles, result: LintResult) -> None:
    """Print warnings about the input that are not findings."""
    launch_files = result.seen.launch
    silent = sorted(inputs.named.intersection(inputs.launch).difference(launch_files))
    for path in silent:
        say(options, f"{path}: nothing in it starts ranks or configures a launcher")
    if not (inputs.paths or launch_files or silent or inputs.problems or inputs.standard_input):
        say(options, f"no Python files and no launch files in {', '.join(options.given['paths']) or 'this folder'}")
    if inputs.problems and not options.selection.takes(rules.DC904):
        for path, why in inputs.problems:
            say(options, f"{path}: {why}")
    for path, line, text in result.unknown:
        say(options, f"{path}:{line}: a comment that silences nothing: {text}")
    if result.gone:
        say(
            options,
            f"{result.gone} finding{'s' * (result.gone != 1)} of the baseline "
            f"no longer occur{'s' * (result.gone == 1)}; --write-baseline removes them",
        )


def _say_what_can_be_fixed(options: LintOptions, result: LintResult) -> None:
    if options.given["output_format"] not in ("full", "concise"):
        return
    fixes = [finding.fix for finding in result.report.findings if finding.fix.edits]
    safe = sum(fix.safe for fix in fixes)
    if safe:
        say(options, f"{safe} of these can be fixed with --fix")
    if len(fixes) > safe and not options.given["unsafe_fixes"]:
        say(options, f"{len(fixes) - safe} of these can be fixed with --fix --unsafe-fixes; --diff shows how")


def _write_baseline(options: LintOptions, inputs: LintFiles, report: Report) -> int:
    path = options.given["write_baseline"]
    if inputs.problems and not inputs.paths:
        click.echo("distcheck: none of the input could be read; no baseline is written", err=True)
        return output.MISUSED
    shared.write_baseline(path, report.findings)
    number = len(report.findings)
    say(options, f"{path} knows {number} finding{'s' * (number != 1)} now; check against it with --baseline {path}")
    return output.CLEAN


def _print_diff(options: LintOptions, inputs: LintFiles, changed: Mapping[str, bytes], fixed: int) -> int:
    from distcheck.core.fixes import unified_diff

    texts = []
    for path in sorted(changed):
        texts.append(unified_diff(path, bytes_of(path, inputs), changed[path], python=path in inputs.paths))
    # a masked line of context no longer matches its file, so that the patch is refused and never writes a mask
    if not _print(mask_forms("".join(texts)), options.given["output_file"]):
        return output.MISUSED
    number = len(changed)
    say(options, f"--fix would fix {_of_fixes(fixed)} in {number} file{'s' * (number != 1)}")
    return output.FOUND if changed and not options.given["exit_zero"] else output.CLEAN


def _write_changes(options: LintOptions, inputs: LintFiles, changed: Mapping[str, bytes], fixed: int) -> bool:
    """Write the changed files; False where one can't be written."""
    from distcheck.core.files import remove_dead_drafts
    from distcheck.core.fixes import write_atomically
    from distcheck.reporters import escape

    # a run that was killed while it wrote may have left one
    remove_dead_drafts({os.path.dirname(os.path.realpath(path)) for path in (*inputs.paths, *inputs.launch)})
    number = 0
    for path in sorted(changed):
        try:
            if has_changed(path, inputs):
                click.echo(f"distcheck: {escape(path)} is left as it is: it was changed during the check", err=True)
                continue
            write_atomically(path, changed[path])
            number += 1
        except OSError as error:
            click.echo(f"distcheck: {escape(path)} can't be written: {error.strerror}", err=True)
    if number:
        say(options, f"fixed {_of_fixes(fixed)} in {number} file{'s' * (number != 1)}")
    return number == len(changed)


def _of_fixes(number: int) -> str:
    return f"{number} finding{'s' * (number != 1)}"


def _statistics(report: Report, output_format: str) -> str:
    """How many findings each rule has, most first."""
    groups = grouped(report.findings, lambda finding: finding.code)
    rows = [
        {
            "code": code,
            "name": found[0].name,
            "severity": max(finding.severity for finding in found).word,
            "count": len(found),
            "fixable": sum(finding.fix.safe and bool(finding.fix.edits) for finding in found),
        }
        for code, found in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    if output_format in ("json", "json-lines"):
        import json

        if output_format == "json":
            return json.dumps(rows, indent=2) + "\n"
        return "".join(json.dumps(row) + "\n" for row in rows)
    if not rows:
        return ""
    table: list[tuple[str, ...]] = [
        (
            str(row["count"]),
            str(row["code"]),
            str(row["severity"]),
            str(row["name"]),
            f"{row['fixable']} with --fix" if row["fixable"] else "",
        )
        for row in rows
    ]
    # importing tabulate takes longer than checking a small project
    count, *others = (max(map(len, column)) for column in zip(*table, strict=True))
    return "".join(
        "  ".join(
            [cells[0].rjust(count), *(cell.ljust(width) for cell, width in zip(cells[1:], others, strict=True))]
        ).rstrip()
        + "\n"
        for cells in table
    )


def _print(text: str, output_file: str | None) -> bool:
    """Print a text, or write it to a file. False where that is not possible."""
    if output_file in (None, "-"):
        output.to_stdout(text)
        return True
    try:
        output.write_file(output_file, text)
    except OSError as error:
        click.echo(f"distcheck: {output_file} can't be written: {error.strerror}", err=True)
        return False
    return True
