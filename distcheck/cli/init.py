"""``distcheck init``: show and write the configuration and the CI file of a repository.

:mod:`.scaffold` decides what to write.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from distcheck._version import __version__
from distcheck.core.fixes import unified_diff, write_atomically
from distcheck.core.redaction import mask_forms
from distcheck.core.world import World
from distcheck.reporters.locations import checkout_of

from . import installation, output, scaffold
from . import options as shared
from .scaffold import Proposal, ProposedFile, Unreadable

#: Seconds for linting the repository before a baseline is offered.
_LOOK_S = 60.0
#: Lines of a file that are shown; a baseline may have thousands.
_MOST_LINES = 60

EPILOG = """\b
Examples:
  distcheck init                                    shows the changes, and writes them after a confirmation
  distcheck init --github --yes                     writes without a confirmation
  distcheck init --pre-commit --baseline            accepts today's findings

Existing content is never changed, only added to, and a second run changes nothing.
Exit status: 0 written, or nothing to do; 1 shown but not written; 2 a file can't be read or written.
"""


@click.command("init", epilog=EPILOG, context_settings={"auto_envvar_prefix": "DISTCHECK_INIT"})
@click.argument("folder", metavar="[DIR]", required=False)
@click.option("--github", is_flag=True, help="Write a workflow for GitHub Actions.")
@click.option("--gitlab", is_flag=True, help="Write a job for GitLab CI.")
@click.option("--pre-commit", is_flag=True, help="Write a hook for pre-commit.")
@click.option(
    "--baseline/--no-baseline",
    default=None,
    help="Accept today's findings of lint, so that only new ones are reported.  [default: prompt]",
)
@click.option("-y", "--yes", is_flag=True, allow_from_autoenv=False, help="Write without a confirmation.")
def command(**given: Any) -> int:
    """Write the configuration and the CI file for this repository, after showing them.

    It detects CI systems by .github, .gitlab-ci.yml, .pre-commit-config.yaml and the remotes, unless options name them.
    DIR is the repository, by default that of the working folder.
    """
    folder = _folder(given["folder"])
    systems = _systems(given, folder)
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and not given["yes"]
    try:
        baseline = _baseline(given["baseline"], folder, interactive=interactive)
        how = installation.find(folder, __version__)
        proposal = scaffold.propose(folder, systems, installation=how, baseline=baseline)
    except Unreadable as error:
        raise click.UsageError(str(error)) from None
    for text in proposal.settled:
        click.echo(f"already there: {text}")
    for change in proposal.changes:
        click.echo(mask_forms(_shown(change)), nl=False)
    status = _carry_out(proposal, folder, interactive=interactive, yes=given["yes"])
    for note in proposal.notes:
        click.echo(f"to do by hand: {note.rstrip()}")
    return output.FOUND if status == output.CLEAN and proposal.notes else status


def _folder(given: str | None) -> str:
    if given is not None:
        if not os.path.isdir(given):
            raise click.UsageError(f"{given}: there is no such folder")
        return given
    here = shared.working_folder()
    return checkout_of(here) or here


def _systems(given: dict[str, Any], folder: str) -> list[str]:
    named = [name for name in scaffold.SYSTEMS if given[name.replace("-", "_")]]
    if named:
        return named
    found = scaffold.detected(folder)
    for name, why in found.items():
        click.echo(f"{name}: {why}")
    if not found:
        click.echo("no CI system is detected: --github, --gitlab and --pre-commit write a file for one")
    return list(found)


def _baseline(wanted: bool | None, folder: str, *, interactive: bool) -> bytes | None:
    """Return the text of a baseline with today's findings; None if it is not requested or there are no findings."""
    if wanted is False or (wanted is None and os.path.exists(os.path.join(folder, scaffold.BASELINE))):
        return None
    from distcheck.core.baseline import dump_baseline
    from distcheck.reporters.progress import Progress

    from .ci_parts import lint
    from .subprocess_call import Broken, Overdue, call

    before = os.getcwd()
    # paths of findings, and the configuration, are those of the repository
    os.chdir(folder)
    try:
        configuration = shared.configuration_of(World(), None, isolated=False)
        known = configuration.word("baseline") is not None
        if known and not wanted:
            return None
        with Progress(sys.stderr) as line:
            answer = call(lint, (["--no-cache"], configuration), _LOOK_S, lambda: line.show("init", "lint"))
        findings = answer.value.report.findings
    except (Broken, Overdue) as error:
        why = str(error) or f"it took longer than {_LOOK_S:g} s"
        if wanted:
            raise Unreadable(f"the repository could not be linted, and no baseline is made: {why}") from None
        click.echo(f"lint: {why}")
        return None
    finally:
        os.chdir(before)
    number = len(findings)
    if not number:
        click.echo("lint reports no findings: no baseline is needed")
        return None
    if wanted is None:
        question = f"lint reports {number} finding{'s' * (number != 1)}"
        if not interactive:
            click.echo(f"{question}: --baseline accepts what exists, so that only new findings are reported")
            return None
        if not click.confirm(f"{question}. Accept them in a baseline, so that only new ones are reported?"):
            return None
    return dump_baseline(findings, ".").encode()


def _shown(change: ProposedFile) -> str:
    """Return the difference or the whole new file; for a wheel or ``distcheck.pyz``, its size."""
    if b"\0" in change.new:
        return f"\nnew file {change.path}\n{len(change.new)} bytes: this distcheck\n"
    text = unified_diff(change.path, change.old or b"", change.new, python=False)
    lines = text.splitlines(keepends=True)
    head = "new file" if change.old is None else "added to"
    more = f"… and {len(lines) - _MOST_LINES} lines more\n" if len(lines) > _MOST_LINES else ""
    return f"\n{head} {change.path}\n{''.join(lines[:_MOST_LINES])}{more}"


def _carry_out(proposal: Proposal, folder: str, *, interactive: bool, yes: bool) -> int:
    """Write the proposed files after a confirmation."""
    if not proposal.changes:
        if not proposal.notes:
            click.echo("nothing to do")
        return output.CLEAN
    number = len(proposal.changes)
    files = f"{number} file{'s' * (number != 1)}"
    click.echo("")
    if not yes and not (interactive and click.confirm(f"Write {'this file' if number == 1 else f'these {files}'}?")):
        how = "" if interactive else ": there is no terminal for a question; --yes writes without one"
        click.echo(f"nothing was written{how}")
        return output.FOUND
    return _write(proposal.changes, folder)


def _write(changes: Sequence[ProposedFile], folder: str) -> int:
    try:
        paths = [scaffold.path_of(folder, change.path) for change in changes]
    except Unreadable as error:
        raise click.UsageError(str(error)) from None
    for change, path in zip(changes, paths, strict=True):
        try:
            if change.old is None:
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                # a file that was created meanwhile is kept
                with open(path, "xb") as file:
                    file.write(change.new)
            else:
                with open(path, "rb") as file:
                    if file.read() != change.old:
                        raise click.UsageError(f"{change.path} was changed meanwhile, and is left alone; run it again")
                write_atomically(path, change.new)
        except OSError as error:
            raise click.UsageError(f"{change.path} can't be written: {error.strerror}") from None
        click.echo(f"wrote {change.path}")
    return output.CLEAN
