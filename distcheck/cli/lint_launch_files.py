"""The launch files of ``distcheck lint``: which of its input they are, what is found in them, what fixing them takes.

:mod:`.lint_run` imports it only if the input may have launch files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from distcheck import rules
from distcheck.checks.launch_files import engine
from distcheck.checks.launch_files.model import LaunchFile, LaunchFiles, LaunchSite, LookUp
from distcheck.core.checker import Checker, KnownFindings
from distcheck.core.configuration import Configuration
from distcheck.core.model import Finding, Fix, NotApplicable, NotChecked, Report, Severity, Where, merge_not_checked
from distcheck.core.patterns import lazy
from distcheck.core.redaction import MASK, mask, names_a_credential
from distcheck.rules import Selection

if TYPE_CHECKING:
    from distcheck.checks.launch_files.model import Nodes
    from distcheck.checks.launch_files.scripts import Started
    from distcheck.checks.source.program import Program

    from .lint_inputs import DelayedProgress, LintFiles, LintOptions, PartAnswers, Recorder

_WORD = lazy(r"\S+")
#: Files that are named where the shell in many was not read.
_MOST_NAMED = 3


class LaunchSide(NamedTuple):
    """The launch files of one run."""

    files: LaunchFiles
    #: Python files that they start and that are not part of the input: read only for the launch
    scripts: frozenset[str]
    look_up: LookUp
    #: all of them by path, with those that they source and in which something was found
    by_path: Mapping[str, LaunchFile]

    @property
    def paths(self) -> tuple[str, ...]:
        """The launch files among the input."""
        return tuple(file.path for file in self.files.files)

    @property
    def not_requested(self) -> frozenset[str]:
        """What was read for the sake of launch files only: its comments count, and are not judged."""
        return self.scripts | (self.by_path.keys() - set(self.paths))

    @property
    def whole(self) -> tuple[str, ...]:
        """Those of which all could be read."""
        return tuple(file.path for file in self.files.files if not file.problems)

    @property
    def is_whole(self) -> bool:
        """Return whether all shell could be read, and no analysis failed."""
        return all(engine.is_whole(file) for file in self.files.files)

    @property
    def unread(self) -> int:
        """Return how many of them are completely unreadable."""
        return sum(bool(file.problems) and not engine.has_contents(file) for file in self.files.files)

    def part(self, files: Iterable[LaunchFile]) -> LaunchSide:
        """Return the side of some of the launch files."""
        own = tuple(files)
        return self._replace(files=LaunchFiles(own), by_path={file.path: file for file in own})

    def comments(self) -> dict[str, tuple[tuple[int, str], ...]]:
        """The comments of all of them, by path, for suppressions."""
        return {path: file.comments for path, file in self.by_path.items()}

    def lines_of(self, finding: Finding) -> Collection[int | None]:
        """The lines whose comments count for a finding."""
        lines = (finding.where.line, finding.where.end_line)
        file = self.by_path.get(finding.where.path or "")
        return lines if file is None else engine.lines_around(file, lines)

    def in_place(self, finding: Finding) -> Finding:
        """The finding with its line of source, where it is about one of them."""
        file = self.by_path.get(finding.where.path or "")
        return finding if file is None else with_source(finding, file)

    def not_read(self, named: Collection[str] = ()) -> list[Finding]:
        """DC904 for what can't be read of them.

        :param named: the files that were named on the command line
        """
        return [
            rules.DC904.found(
                _why(file, why),
                where=Where(path=file.path, line=line or None, column=column or None),
                evidence={"kind": file.kind},
                severity=_severity(file, why, line, named=file.path in named),
                fix=Fix(
                    "remove one of the two"
                    if _AGAIN in why
                    else "fix it, or remove it with --exclude; the rest was checked",
                    where="job-script",
                ),
            )
            for file in self.files.files
            for why, line, column in file.faults
        ]

    def not_checked(self) -> list[NotChecked]:
        """Return the files whose shell can't be read."""
        whys = {file.path: file.why_no_shell for file in self.files.files if file.why_no_shell is not None}
        shown = list(whys)[: _MOST_NAMED if len(whys) > _MOST_NAMED + 1 else None]
        left = len(whys) - len(shown)
        found = [NotChecked(f"the shell in {path}", why) for path, why in whys.items() if path in shown]
        return found + [NotChecked(f"the shell in {left} more files", why) for why in [*whys.values()][-1:] if left]

    def why_it_reads_worse(self, path: str, data: bytes) -> str | None:
        """Return what could no longer be read if a file had these bytes, or None."""
        return engine.why_it_reads_worse(path, self.by_path[path], data, self.look_up)


#: A duplicate key of YAML: the last one counts, and all of it was read.
_AGAIN = "stands here again, after line"
#: What this program can't read is no error of the file.
_OWN_LIMIT = "the grammar of the shell does not understand"


def _why(file: LaunchFile, why: str) -> str:
    return why if why.startswith("it can't be read") or _AGAIN in why else f"{_how_much(file)} can't be read: {why}"


def _severity(file: LaunchFile, why: str, line: int, *, named: bool) -> Severity:
    """Return how loud a problem is: a note for templates, for limits of this program, and for what starts no ranks."""
    from distcheck.checks.source.unparsed import is_distributed, is_template

    if _AGAIN in why:
        return Severity.INFO
    if why.startswith(_OWN_LIMIT):
        return Severity.WARNING if named else Severity.INFO
    text = "\n".join(file.lines)
    if named:
        return Severity.ERROR
    if not file.lines:
        # a name like Dockerfile.encrypted is no evidence about what is in it
        return Severity.INFO if "binary data" in why else Severity.ERROR
    if is_template(file.path, text, line):
        return Severity.INFO
    return Severity.ERROR if file.sites or is_distributed(text.encode("utf-8", "replace"), line) else Severity.INFO


def _how_much(file: LaunchFile) -> str:
    return "a part of it" if engine.has_contents(file) or file.lines else "it"


def read(
    options: LintOptions,
    inputs: LintFiles,
    changed: Mapping[str, bytes],
    progress: DelayedProgress,
    memory: Recorder | None = None,
) -> LaunchSide:
    """Return the launch files of the input, their contents, and the scripts that they start.

    :param memory: records what is read
    """
    from .lint_inputs import bytes_of

    def source(path: str) -> engine.LaunchSource:
        if memory is not None:
            return engine.LaunchSource(path, lambda limit: memory.read(path, limit))
        return engine.LaunchSource(path, lambda limit: bytes_of(path, inputs, changed, limit))

    known = {**inputs.texts, **changed}
    given = [path for path in options.given["paths"] if path != "-"]
    roots = [path if os.path.isdir(path) else os.path.dirname(path) for path in given]
    look_up = engine.look_up_below(os.getcwd(), known, roots=roots)
    look_up = engine.remembering(look_up if memory is None else memory.asking(look_up))
    files = engine.read_launch_files(
        [source(path) for path in inputs.launch],
        look_up=look_up,
        include_markdown=options.include_markdown,
        named=inputs.named,
        progress=lambda done, total: progress.show("reading launch files", done, total),
        read=None if memory is None else memory.launch_file,
    )
    scripts: frozenset[str] = frozenset()
    if any(file.sites for file in files.files):
        from distcheck.checks.launch_files.scripts import wanted_scripts

        wanted = wanted_scripts(files) if memory is None else wanted_scripts(files, memory.is_file, memory.read)
        scripts = frozenset(wanted).difference(inputs.paths)
    return LaunchSide(files, scripts, look_up, {file.path: file for file in files.files})


class LaunchJudge:
    """Judges launch files, and Python files together with what starts them."""

    def __init__(self, options: LintOptions, side: LaunchSide) -> None:
        self.options = options
        #: the files whose shell can't be read
        self.unread = side.not_checked()

    def judge(
        self,
        side: LaunchSide,
        starts: Iterable[tuple[LaunchFile, LaunchSite, str]],
        program: Program,
        python: Report,
        kept: tuple[PartAnswers, str] | None = None,
    ) -> tuple[LaunchSide, Report]:
        """The report on the Python files with what is found in the launch files, and where both are seen.

        :param starts: the launch lines that start files of the program, with those files
        :param kept: where findings about these launch files alone are kept, and under which name
        """
        # scripts outside of the input are read only for the launch: their own findings are dropped
        own = [finding for finding in python.findings if finding.where.path not in side.scripts]
        not_checked = merge_not_checked([*python.not_checked, *self.unread])
        python = python._replace(findings=tuple(own), not_checked=not_checked)
        if not self.unread and not any(engine.has_contents(file) for file in side.files.files):
            return side, python
        from distcheck.checks.launch_files.made_folders import with_made_folders
        from distcheck.checks.launch_files.scripts import (
            started_in,
            without_missing_launchers,
            without_passed_options,
            without_weaker,
        )
        from distcheck.checks.launch_files.started_ranks import with_launch_lines

        options = self.options
        started = started_in(starts, program)
        nodes = NotApplicable("no --node-facts were given") if options.nodes is None else options.nodes
        known = {} if kept is None else kept[0].recall_findings("launch", kept[1])
        before = len(known)
        judged = probe(
            side.files,
            started,
            nodes,
            options.configuration,
            selection=options.selection,
            command="lint",
            known=known,
        )
        if kept is not None and len(known) > before:
            kept[0].keep_findings(known, "launch", kept[1])
        side = _with_sourced(side, judged.findings, program)
        here = os.getcwd()
        found = [
            _placeholder_is_a_note(finding, side.by_path)
            for finding in _each_once(judged.findings)
            # an excluded file has no findings, even if another file sources it
            if finding.where.path not in side.not_requested or not options.excludes.match_file(finding.where.path, here)
        ]
        every = without_passed_options(without_weaker([*python.findings, *found]), started)
        every = with_made_folders(with_launch_lines(every, started, side.files), side.files)
        return side, python._replace(
            findings=tuple(without_missing_launchers(every, started)),
            not_checked=merge_not_checked([*python.not_checked, *judged.not_checked]),
            probes=(*python.probes, *judged.probes),
            # a rule counts as not checked if a part of the input was not read
            checked=python.checked - judged.checked if self.unread else python.checked | judged.checked,
        )


#: Marks of templates and manuals in place of a value: ``{{ nodes }}``, ``@NODES@``, ``%(nodes)s``, ``<nodes>``,
#: ``[NODES]``, ``__NODES__``, ``YOUR_PORT``, ``XX``. No program takes them as they stand.
_PLACEHOLDER = lazy(
    r"\{\{.*?\}\}|\{%|(?<!\w)@[A-Za-z_]\w*@|%\(\w+\)[sd]|(?<![<\w])<[A-Za-z](?:[\w ./-]*\w)?>"
    r"|(?<![\w\])}])\[[A-Z][A-Z_]+\]|\b__[A-Z]\w*__\b|\b(?i:your)[_-]\w|\b(?i:change_?me|replace_?me|todo)\b"
    r"|\b[Xx]{2,}\b|\$\$\w+\$\$"
)


def _placeholder_is_a_note(finding: Finding, files: Mapping[str, LaunchFile]) -> Finding:
    """The finding; a note if its text is a placeholder, which is replaced before the file is used."""
    where = finding.where
    file = files.get(where.path or "")
    if file is None or finding.severity is Severity.INFO or where.line is None or where.line > len(file.lines):
        return finding
    line = file.lines[where.line - 1]
    end = where.end_column if where.end_line == where.line and where.end_column else len(line) + 1
    text = line[(where.column or 1) - 1 : end - 1]
    return finding._replace(severity=Severity.INFO) if _PLACEHOLDER.search(text) else finding


def probe(
    files: LaunchFiles,
    started: Started,
    nodes: Nodes | NotApplicable,
    configuration: Configuration,
    *,
    selection: Selection,
    command: str,
    known: dict[str, tuple[Finding, ...]] | None = None,
) -> Report:
    """Return the report of the probes of launch files, with the Python files that they start.

    :param known: by probe, what needs no Python file and was found before; what this run finds is added
    """
    from distcheck.checks.launch_files.model import Nodes

    # the caller has imported the plug-ins, and reported those that do not import
    checker = Checker(selection, modules=("distcheck.checks.launch_files",), plug_ins=False)
    plan = checker.plan(LaunchFiles, type(started), command=command, closed=True)
    facts: dict[type, object] = {type(started.program): started.program, Configuration: configuration, Nodes: nodes}
    alone = frozenset([LaunchFiles, Configuration, Nodes])
    return plan.run(files, started, facts=facts, known=None if known is None else KnownFindings(alone, known))


def with_source(finding: Finding, file: LaunchFile) -> Finding:
    """A finding in a launch file with its line, as far as that may be shown."""
    line = finding.where.line
    if finding.where.path != file.path or line is None or not 1 <= line <= len(file.lines):
        return finding
    source = without_credentials(file.lines[line - 1].rstrip("\r\n"))
    return finding._replace(evidence={**finding.evidence, "source": source})


def _each_once(findings: Iterable[Finding]) -> list[Finding]:
    """Return equal findings at the same location once: several files may source a file with an error.

    Of equal findings, one with edits is kept.
    """
    seen: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        known = seen.setdefault((finding.code, finding.severity, finding.message, finding.where), finding)
        if finding.fix.edits and not known.fix.edits:
            seen[finding.code, finding.severity, finding.message, finding.where] = finding
    return list(seen.values())


def _with_sourced(side: LaunchSide, findings: Iterable[Finding], program: Program) -> LaunchSide:
    """With the files that are no input and in which something was found all the same: their lines and comments."""
    more: dict[str, LaunchFile] = {}
    for path in {finding.where.path for finding in findings}:
        if path is None or path in side.by_path or path in program.files:
            continue
        data = side.look_up(path)
        file = None if data is None else engine.read_one(path, data, side.look_up)
        if file is not None:
            more[path] = file
    return side._replace(by_path={**side.by_path, **more}) if more else side


def _open_quote(word: str) -> str:
    """The quote that a word begins with and that ends in a later one, else nothing."""
    bare = word.lstrip("\\")
    return bare[0] if bare[:1] in ("'", '"') and bare[0] not in bare[1:] else ""


def without_credentials(line: str) -> str:
    """Return a line with credentials masked; all other text keeps its column."""
    hide_next = False
    #: the quote at which a value ends whose first words are hidden already
    until = ""
    parts: list[str] = []
    position = 0
    for match in _WORD.finditer(line):
        word = match[0]
        name, equals, value = word.partition("=")
        if until:
            shown, until = "", "" if until in word else until
        elif hide_next:
            shown, hide_next, until = MASK, False, _open_quote(word)
        elif equals:
            shown = f"{name}={mask(value, name=name)}"
            until = _open_quote(value) if names_a_credential(name) else ""
        else:
            shown = mask(word)
            is_name = word.startswith("-") or word.endswith(":")
            hide_next = word.lower() == "bearer" or (is_name and names_a_credential(word.strip("-:\"'{[,")))
        shown = word if shown == word else shown[: len(word)].ljust(len(word))
        parts.append(line[position : match.start()] + shown)
        position = match.end()
    return "".join([*parts, line[position:]]).rstrip()
