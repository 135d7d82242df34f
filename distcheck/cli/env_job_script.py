"""The job script of ``distcheck env -- sbatch train.sbatch``: read as ``distcheck lint`` reads it, with its findings.

The options of the command go before those of the script, as sbatch has it; what the nodes have is known where their
facts are given. The script is read, never run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from distcheck.core.configuration import Configuration
from distcheck.core.model import Finding, NotApplicable, NotChecked, Report
from distcheck.core.rank_evidence import OF_DOCUMENTS
from distcheck.core.world import World
from distcheck.launch.model import LaunchCommand
from distcheck.rules import Selection

if TYPE_CHECKING:
    from distcheck.checks.launch_files.model import LaunchFile, LaunchFiles, Nodes

#: Bytes of a job script that are read.
_LONGEST = 5_000_000


def report_on(
    command: LaunchCommand,
    world: World,
    *,
    selection: Selection,
    configuration: Configuration,
    nodes: Nodes | None,
) -> Report | None:
    """What is wrong with the script that a command hands over, and with what that starts; None without a script."""
    path = command.script
    if command.launcher != "other" or path is None or command.module or "script" in command.unknown:
        return None
    try:
        full = path if path.startswith("/") else f"{world.working_folder}/{path}"
        data = world.read_bytes(full, _LONGEST)
    except OSError as error:
        return Report("env", not_checked=(NotChecked("the job script", f"{path}: {_why(error)}"),))
    from distcheck.checks.launch_files.engine import look_up_below, read_one, remembering

    path = os.path.normpath(path).replace(os.sep, "/")
    options = _sbatch_options(command)
    text, inserted = with_options(data, options) if options else (data, None)
    file = read_one(path, text, remembering(look_up_below(os.getcwd())), include_markdown=False)
    if file is None or file.kind != "shell":
        why = f"{path} is not a shell script"
        return Report("env", not_checked=(NotChecked("the job script", why),))
    if file.why_no_shell is not None:
        return Report("env", not_checked=(NotChecked("the job script", f"{path}: {file.why_no_shell}"),))
    report = _judge(file, selection=selection, configuration=configuration, nodes=nodes)
    if inserted is not None:
        report = report._replace(findings=tuple(_moved_up(finding, path, inserted) for finding in report.findings))
    unread = tuple(
        NotChecked("a part of the job script", f"{path}{f', line {line}' if line else ''}: {why}")
        for why, line, _ in file.problems
    )
    return report._replace(not_checked=(*report.not_checked, *unread))


def _why(error: OSError) -> str:
    return f"it can't be read: {error.strerror or error}"


def _judge(file: LaunchFile, *, selection: Selection, configuration: Configuration, nodes: Nodes | None) -> Report:
    """The findings in a launch file, and in what it sources and starts; without those that its comments silence."""
    from distcheck.checks.launch_files.engine import lines_around
    from distcheck.checks.launch_files.model import LaunchFiles
    from distcheck.checks.launch_files.scripts import find_started
    from distcheck.checks.source.suppressions import apply_suppressions

    from .lint_launch_files import probe, with_source

    files = LaunchFiles((file,))
    program = _program_of(files)
    stated = NotApplicable("no facts of the nodes were given") if nodes is None else nodes
    started = find_started(files, program)
    report = probe(files, started, stated, configuration, selection=selection, command="env")
    comments = {facts.path: facts.comments for facts in program.files.values() if facts.problem is None}
    heard = apply_suppressions(
        report.findings,
        {**comments, file.path: file.comments},
        lines_of=lambda finding: (
            lines_around(file, (finding.where.line, finding.where.end_line))
            if finding.where.path == file.path
            else (finding.where.line, finding.where.end_line)
        ),
    )
    kept = [
        item._replace(evidence={key: value for key, value in item.evidence.items() if key not in OF_DOCUMENTS})
        for item in heard.kept
    ]
    # the facts are those of files, and no part of what is known of this host
    return report._replace(findings=tuple(with_source(item, file) for item in kept), facts={})


def _program_of(files: LaunchFiles) -> Any:
    """The Python files that a launch file starts, as ``lint`` reads them."""
    from distcheck.checks.launch_files.scripts import wanted_scripts
    from distcheck.checks.source.engine import SourceFile, analyse

    def read(path: str) -> bytes:
        with open(path, "rb") as source:
            return source.read()

    return analyse([SourceFile(path, partial(read, path)) for path in wanted_scripts(files)])


# options of the command


def _sbatch_options(command: LaunchCommand) -> str:
    """Return the options between sbatch and its script, in the form of a directive; empty without options."""
    argv = list(command.argv)
    start = next((index for index, word in enumerate(argv) if word.rpartition("/")[2] == "sbatch"), None)
    end = len(argv) - len(command.script_args) - 1
    if start is None or end <= start or argv[end] != command.script:
        return ""
    words = argv[start + 1 : end]
    return "" if any("\n" in word for word in words) else shlex.join(words)


def with_options(data: bytes, options: str) -> tuple[bytes, int | None]:
    """A script with options behind its last directive, where they win; and the line that was put in for them, if any.

    sbatch(1): options on the command line override those in the script, where directives count up to the first command.
    """
    ending = b"\r\n" if b"\r\n" in data[:4096] else b"\n"
    lines = data.split(b"\n")
    last = None
    for index, line in enumerate(lines):
        plain = line.strip()
        if plain and not plain.startswith(b"#"):
            break
        if line.startswith(b"#SBATCH"):
            last = index
    added = options.encode("utf-8", "surrogateescape")
    if last is not None:
        carriage = b"\r" if lines[last].endswith(b"\r") else b""
        # a comment behind the options of a directive would swallow them
        kept = lines[last].removesuffix(b"\r").split(b" #", 1)[0]
        lines[last] = kept + b" " + added + carriage
        return b"\n".join(lines), None
    at = 1 if data.startswith(b"#!") else 0
    lines.insert(at, b"#SBATCH " + added + ending.removesuffix(b"\n"))
    return b"\n".join(lines), at + 1


def _moved_up(finding: Finding, path: str, inserted: int) -> Finding:
    """A finding of a script with a line put in, where it stands in the script itself; its edits don't fit any more."""
    where = finding.where
    if where.path != path or where.line is None:
        return finding
    fix = finding.fix._replace(edits=())
    if where.line == inserted:
        return finding._replace(where=where._replace(line=None, column=None, end_line=None, end_column=None), fix=fix)
    if where.line > inserted:
        end = None if where.end_line is None else where.end_line - 1
        where = where._replace(line=where.line - 1, end_line=end)
    return finding._replace(where=where, fix=fix)


def nodes_of(facts: Mapping[type, object] | None, origin: str | None, configuration: Configuration) -> Nodes | None:
    """The nodes that a job will run on: those of a saved file, else what the configuration names.

    A usage error where the file that the configuration names can't be used.
    """
    from distcheck.checks.launch_files.model import Nodes
    from distcheck.checks.launch_files.nodes import NodesError, nodes_of_facts, read_nodes

    if facts is not None and origin is not None:
        found = nodes_of_facts(facts, origin)
        return None if found == Nodes(origin) else found
    for path, folder in configuration.placed("node-facts"):
        try:
            return read_nodes(os.path.join(folder, path), of_a_checkout=True)
        except NodesError as error:
            raise click.UsageError(f"{configuration.origin('node-facts')}: node-facts: {path}: {error}") from None
    return None
