"""Which Python file a launch line starts: the connection between launch files and :mod:`..source`.

Only certain names count. A name that several files match, or that the shell computes, is not resolved.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from distcheck.core.model import Finding
from distcheck.core.patterns import lazy
from distcheck.launch.model import NODE_LAUNCHERS

from .model import LaunchFile, LaunchFiles, LaunchSite, Word
from .paths import IN_OWN_FOLDER, normalized, the_one

if TYPE_CHECKING:
    from distcheck.checks.source.program import Program

_HELP = frozenset(("--help", "-h"))
#: Limit of files that are added to the named ones.
_MAX_WANTED = 400
#: Bytes of a script that are searched for imports.
_MAX_LENGTH = 1_000_000
_IMPORT = lazy(
    r"^[ \t]*(?:from[ \t]+(?P<module>\.*[\w.]*)[ \t]+import[ \t]+\(?(?P<names>[\w, \t]*)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)


class ScriptStart(NamedTuple):
    """A launch line and the file that it starts."""

    file: LaunchFile
    site: LaunchSite
    #: the index of the file in the program
    script: int
    path: str


class Started(NamedTuple):
    """Which file of the program each launch line certainly starts."""

    starts: tuple[ScriptStart, ...] = ()
    #: the program; None if no Python was read
    program: Program | None = None

    def of(self, site: LaunchSite) -> ScriptStart | None:
        """Return what a launch line starts."""
        for start in self.starts:
            if start.site is site:
                return start
        return None


def find_started(launch_files: LaunchFiles, program: Program) -> Started:
    """Return the files of a program that launch lines start."""
    found = started_files(launch_files, (facts.path for facts in program.index.files))
    return started_in(found, program)


def started_files(launch_files: LaunchFiles, paths: Iterable[str]) -> list[tuple[LaunchFile, LaunchSite, str]]:
    """Return the launch lines that start one of some files for certain, each with its launch file and that path."""
    by_name = {normalized(path): path for path in paths}
    found = []
    for file, site in launch_files.sites():
        if _HELP.intersection(site.command.script_args):
            continue  # the script prints its options and ends
        path = the_one(site, names_of(site), by_name.__contains__)
        if path is not None:
            found.append((file, site, by_name[path]))
    return found


def started_in(found: Iterable[tuple[LaunchFile, LaunchSite, str]], program: Program) -> Started:
    """Return what :func:`started_files` found, with the numbers that the files have in a program."""
    numbers = {facts.path: number for number, facts in enumerate(program.index.files)}
    starts = (ScriptStart(file, site, numbers[path], normalized(path)) for file, site, path in found)
    return Started(tuple(starts), program)


def names_of(site: LaunchSite) -> tuple[str, ...]:
    """Return the names of Python files that a launch line may mean, relative to one of its folders."""
    command = site.command
    if command.script is None or command.unknown & {"script", "module"}:
        return _in_script_folder(site)
    if not command.module:
        if not command.script.endswith(".py"):
            return ()
        return (_as_written(site) if command.script.startswith("/") else None) or (command.script,)
    if not re.fullmatch(r"\w+(\.\w+)*", command.script):
        return ()
    inner = command.script.replace(".", "/")
    tops = ["", "src/", *(f"{folder}/" for folder in _python_path(site))]
    return tuple(dict.fromkeys(f"{top}{inner}{end}" for top in tops for end in (".py", "/__main__.py")))


def _as_written(site: LaunchSite) -> tuple[str, ...] | None:
    """Return a script in the folder of the launch file, of which the file holds the path on another machine."""
    for word in site.words[: len(site.words) - len(site.command.script_args)]:
        written = word.written.strip("\"'")
        if word.text == site.command.script and IN_OWN_FOLDER.fullmatch(written):
            return (written,)
    return None


def _in_script_folder(site: LaunchSite) -> tuple[str, ...]:
    """Return a script in a folder from a variable: ``"$SCRIPT_DIR/train.py"``; :mod:`.paths` resolves it."""
    own = len(site.words) - len(site.command.script_args)
    for word in reversed(site.words[:own]):
        if word.text.endswith(".py") and "/" in word.text and "script" in site.command.unknown:
            return (word.text,)
    return ()


def _python_path(site: LaunchSite) -> Iterator[str]:
    setting = site.settings.get("PYTHONPATH")
    text = site.command.assignments.get("PYTHONPATH", None if setting is None else setting.value) or ""
    for folder in re.sub(r"\$\{?[A-Za-z_]\w*(?::?-[^}]*)?\}?", "", text).split(":")[:20]:
        if folder not in ("", ".") and not folder.startswith("/"):
            yield posixpath.normpath(folder)


def wanted_scripts(
    launch_files: LaunchFiles,
    exists: Callable[[str], bool] = os.path.isfile,
    read: Callable[[str], bytes] | None = None,
) -> tuple[str, ...]:
    """Return the Python files that launch lines certainly start, and the project's files that these import.

    :param read: returns the bytes of a file; raises OSError
    """
    found: dict[str, None] = {}
    for _, site in launch_files.sites():
        path = the_one(site, names_of(site), exists)
        if path is not None and len(found) < _MAX_WANTED:
            found[path] = None
    for path in list(found):
        for imported in _imported(path, exists, _read if read is None else read):
            if len(found) < _MAX_WANTED:
                found[imported] = None
    return tuple(sorted(found))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_MAX_LENGTH)


def _imported(path: str, exists: Callable[[str], bool], read: Callable[[str], bytes]) -> Iterator[str]:
    """Yield the files that a script imports, by the words of its import statements."""
    try:
        text = read(path)[:_MAX_LENGTH].decode("utf-8", "replace")
    except OSError:
        return
    own = posixpath.dirname(path)
    for match in _IMPORT.finditer(text):
        if match["modules"]:
            modules = [part.split()[0] for part in match["modules"].split(",") if part.split()]
        else:
            dotted = match["module"]
            within = "" if dotted.endswith(".") or not dotted else "."
            names = [part.split()[0] for part in match["names"].split(",") if part.split()]
            modules = [dotted, *(f"{dotted}{within}{name}" for name in names)]
        for module in modules:
            level = len(module) - len(module.lstrip("."))
            inner = module.lstrip(".").replace(".", "/")
            if not inner:
                continue
            folders = [posixpath.join(own, *[".."] * (level - 1))] if level else [own, ""]
            for folder in folders:
                for end in (".py", "/__init__.py"):
                    candidate = posixpath.normpath(posixpath.join(folder, inner + end))
                    if exists(candidate):
                        yield candidate


#: Evidence of a finding that replaces one without the launch line.
STARTED_BY = "started_by"


def without_weaker(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of a rule; at each location those that know the launch line replace the others.

    A warning in Python alone may be an error with a known launch.
    """
    every = list(findings)
    known = {_place(finding) for finding in every if STARTED_BY in finding.evidence}
    return [finding for finding in every if STARTED_BY in finding.evidence or _place(finding) not in known]


def without_missing_launchers(findings: Iterable[Finding], started: Started) -> list[Finding]:
    """Return the findings without DC208 for scripts that a launch line starts with a launcher."""
    program = started.program
    if program is None:
        return list(findings)
    launched = {
        program.index.files[file].path
        for start in started.starts
        if start.site.command.launcher in NODE_LAUNCHERS
        for file in program.component(start.script)
    }
    return [finding for finding in findings if finding.code != "DC208" or finding.where.path not in launched]


def without_passed_options(findings: Iterable[Finding], started: Started) -> list[Finding]:
    """Return the findings without DC207 at the option of scripts that deepspeed alone starts, with that spelling."""
    program = started.program
    if program is None:
        return list(findings)
    launchers: dict[str, set[str]] = {}
    for start in started.starts:
        if start.site.command.launcher in NODE_LAUNCHERS:
            for file in program.component(start.script):
                launchers.setdefault(program.index.files[file].path, set()).add(start.site.command.launcher)
    return [
        finding
        for finding in findings
        if finding.code != "DC207"
        or finding.evidence.get("option") != "--local_rank"
        or "script" in finding.evidence
        or launchers.get(finding.where.path or "") != {"deepspeed"}
    ]


def _place(finding: Finding) -> tuple[object, ...]:
    where = finding.where
    return finding.code, where.path, where.cell, where.line, where.column


def script_word(site: LaunchSite) -> Word | None:
    """Return the word that names the script or module."""
    at = len(site.words) - len(site.command.script_args) - 1
    if 0 <= at < len(site.words):
        word = site.words[at]
        if word.text == site.command.script or (site.command.script is None and word.text.endswith(".py")):
            return word
    return None
