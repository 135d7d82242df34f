"""The input of ``distcheck lint``: its options, its files, and the bytes of each."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from distcheck.core.configuration import Configuration
from distcheck.rules import Selection

if TYPE_CHECKING:
    from distcheck.checks.launch_files.engine import LaunchSource
    from distcheck.checks.launch_files.model import LaunchFile, LookUp, Nodes
    from distcheck.checks.source.cache import Cache
    from distcheck.checks.source.discovery import Globs
    from distcheck.core.model import Finding
    from distcheck.reporters.progress import Progress


#: Seconds after which the progress is shown.
_PROGRESS_AFTER_S = 2.0


class LintOptions(NamedTuple):
    """The options of a call, completed by the configuration."""

    given: Mapping[str, Any]
    selection: Selection
    excludes: Globs
    force_exclude: bool
    respect_gitignore: bool
    #: patterns with the rules that they switch off; True if the pattern is negated
    per_file: tuple[tuple[Globs, bool, Selection], ...]
    fail_on: str
    #: findings of level info are shown for all rules
    all_info: bool
    baseline: tuple[str, Mapping[str, int]] | None
    cache: Cache | None
    jobs: int
    #: documents in folders are searched for commands
    include_markdown: bool = False
    #: the nodes that the jobs will run on, where they were stated
    nodes: Nodes | None = None
    configuration: Configuration = Configuration()

    @property
    def quiet(self) -> bool:
        """Return whether ``-q`` is given."""
        return bool(self.given["quiet"])


#: Nanoseconds before the reading in which a change may be followed by another one with the same time. File systems
#: count time in steps of up to 2 s (FAT).
_RECENT_NS = 2_000_000_000


class FileStamp(NamedTuple):
    """What a file system records of a file and changes with its content."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileStamp:
        """Return the stamp of a file from its status."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)

    def is_recent(self) -> bool:
        """Return whether the file was changed just now, so that a second change may have the same stamp."""
        return max(self.modified_ns, self.changed_ns) > time.time_ns() - _RECENT_NS


class LintFiles(NamedTuple):
    """The files to check: paths as they are shown, and bytes that replace those of a file."""

    #: the Python files
    paths: tuple[str, ...]
    #: the stamp of each file when it was first read
    stamps: dict[str, FileStamp]
    problems: tuple[tuple[str, str], ...] = ()
    texts: Mapping[str, bytes] = {}
    standard_input: bool = False
    #: what may be launch files, and the files of both kinds that were named
    launch: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()


class Recorder(Protocol):
    """Records what is read, for the next run."""

    def read(self, path: str, limit: int | None = None) -> bytes: ...

    def asking(self, look_up: Callable[[str], bytes | None]) -> Callable[[str], bytes | None]: ...

    def is_file(self, path: str) -> bool: ...

    def launch_file(self, source: LaunchSource, markdown: bool, look_up: LookUp) -> LaunchFile | None: ...


class PartAnswers(Protocol):
    """What runs of the same code with the same options keep for each other about parts of the input."""

    def recall(self, *name: str) -> Any:
        """Return the plain value that is kept under a name, None if there is nothing."""

    def keep(self, plain: Any, *name: str) -> None:
        """Keep a plain value under a name."""

    def recall_findings(self, *name: str) -> dict[str, tuple[Finding, ...]]:
        """Return the findings that are kept under a name, by probe."""

    def keep_findings(self, found: Mapping[str, Iterable[Finding]], *name: str) -> None:
        """Keep findings by probe."""


class DelayedProgress:
    """The progress line, shown only if a run takes longer than _PROGRESS_AFTER_S."""

    def __init__(self, line: Progress, began: float) -> None:
        self.line = line
        self._from = began + _PROGRESS_AFTER_S

    def show(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Show the current phase."""
        if time.monotonic() >= self._from:
            self.line.show("lint", phase, done, total)

    def show_files(self, done: int, total: int) -> None:
        """Show how many files are read."""
        self.show("reading files", done, total)


def inputs_of(options: LintOptions) -> LintFiles:
    """Return the files to check."""
    given = options.given
    if given["paths"] == ("-",) or given["stdin_filename"] is not None:
        name = given["stdin_filename"] or "<stdin>"
        if options.force_exclude and options.excludes.match_file(name, os.getcwd()):
            return LintFiles((), {}, standard_input=True)
        texts = {name: sys.stdin.buffer.read()}
        if _is_no_python(name, texts[name]):
            return LintFiles((), {}, texts=texts, standard_input=True, launch=(name,), named=frozenset([name]))
        return LintFiles((name,), {}, texts=texts, standard_input=True, named=frozenset([name]))
    from distcheck.checks.source.discovery import discover

    found = discover(
        given["paths"] or (".",),
        excludes=options.excludes,
        force_exclude=options.force_exclude,
        respect_gitignore=options.respect_gitignore,
        include_markdown=options.include_markdown,
        store=options.cache,
    )
    problems = tuple((problem.path, problem.why) for problem in found.problems)
    return LintFiles(found.files, {}, problems, launch=found.launch_files, named=found.named)


def covers_repositories(options: LintOptions) -> bool:
    """Return whether each path that was given is a folder, and no part of a repository that has more."""
    for path in options.given["paths"] or (".",):
        above = os.path.abspath(path)
        if not os.path.isdir(above):
            return False
        while not os.path.exists(os.path.join(above, ".git")) and os.path.dirname(above) != above:
            above = os.path.dirname(above)
        if os.path.dirname(above) != above and above != os.path.abspath(path):
            return False
    return True


def _is_no_python(name: str, data: bytes) -> bool:
    """Return whether standard input is a launch file, by its name, or by its first line."""
    from distcheck.checks.source.discovery import SUFFIXES, may_be_a_launch_file

    name = name.replace(os.sep, "/").rpartition("/")[2]
    if name.endswith(SUFFIXES):
        return False
    if name != "<stdin>" and "." in name:
        return may_be_a_launch_file(name, include_markdown=True)
    if name == "<stdin>" and not data.startswith(b"#!"):
        return False
    from distcheck.checks.launch_files.files import kind_of

    return kind_of(name, data, include_markdown=True) is not None


def bytes_of(path: str, inputs: LintFiles, changed: Mapping[str, bytes] = {}, limit: int | None = None) -> bytes:
    """Return the bytes of a file, and record its time and size when it is read first; raises OSError.

    :param changed: bytes that replace those of a file
    :param limit: the most bytes: a file that only has the name of a launch file may be large
    """
    text = changed.get(path, inputs.texts.get(path))
    if text is not None:
        return text[:limit]
    with open(path, "rb") as file:
        inputs.stamps.setdefault(path, FileStamp.of(os.fstat(file.fileno())))
        return file.read(limit)


def has_changed(path: str, inputs: LintFiles) -> bool:
    """Return whether a file has changed since it was read; raises OSError."""
    if path not in inputs.stamps:
        return False
    return FileStamp.of(os.stat(path)) != inputs.stamps[path]


def say(options: LintOptions, text: str) -> None:
    """Print a line on standard error, unless ``-q`` is given."""
    if not options.quiet:
        from distcheck.reporters import escape

        click.echo(f"distcheck: {escape(text)}", err=True)
