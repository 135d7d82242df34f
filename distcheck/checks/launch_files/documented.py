"""What the launch lines of a project's documents show about a script: whether its launcher passes the local rank, and
whether it runs as several ranks.

A document is a launch file only with ``--include-markdown``. Here it only answers these questions.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import (
    FOLDER_OPTION,
    LAUNCHER_API,
    NEEDS,
    ONE_PROCESS,
    ONLY_LAUNCHED,
    OPTION_OF,
    PEER_ACCESS,
    SCRIPTS,
    SET_BY_CALLERS,
    SIGN,
    UNREACHED,
)
from distcheck.core.unreached import not_reached

from .document_files import DocumentFiles
from .engine import read_one
from .fragments import Fragment
from .given_options import DocumentedLaunch, GivenOptions, by_launches, configuration_in
from .local_rank_options import by_launched_option, with_launched_option
from .model import LaunchFile, LaunchSite
from .peer_access import why_off, with_reason
from .scripts import names_of
from .started_ranks import launch_of, may_start_any, mentions_several, starts_ranks, starts_several
from .yaml_text import Node, read_yaml

#: Folders with more documents about the folder around them.
_FOLDERS = ("", "docs", "doc")
#: Folders with more files that start the scripts of the folder around them.
_FOLDERS_OF_CALLERS = (*_FOLDERS, "scripts", "tools")
#: Folders above a script whose documents are read.
_MAX_DEPTH = 12


class DocumentedStart(NamedTuple):
    """A document with a launch line that starts a script."""

    document: str
    #: it starts several ranks, or as many as a variable holds
    several: bool


class Documents:
    """The launch lines of documents, each read once.

    :param roots: the folders above which no README is read
    """

    def __init__(self, roots: Iterable[str] = (".",)) -> None:
        self._roots = tuple(os.path.abspath(root) for root in roots)
        #: all that was read from the disk
        self.files = DocumentFiles()
        self._known: dict[str, list[LaunchFile]] = {}
        self._launches: dict[str, list[DocumentedLaunch]] = {}
        self._options: dict[tuple[str, DocumentedLaunch], GivenOptions] = {}
        self._configurations: dict[str, Node | None] = {}

    def sites_of(self, script: str) -> list[LaunchSite]:
        """Return the launch lines of a script in documents, as they were read."""
        return [site for _, site in self._starting(script)]

    def start_of(self, script: str) -> DocumentedStart | None:
        """Return a document that starts a script, one with several ranks if there is one."""
        found = None
        for document, site in self._starting(script):
            name = os.path.relpath(document.path)
            if starts_several(site) or mentions_several(document.lines, script):
                return DocumentedStart(name, True)
            found = found or DocumentedStart(name, False)
        return found

    def launches_of(self, script: str) -> list[DocumentedLaunch]:
        """Return the launch lines of a script in documents."""
        if script not in self._launches:
            self._launches[script] = [launch_of(site) for _, site in self._starting(script)]
        return self._launches[script]

    def starts_several_near(self, path: str) -> bool:
        """Return whether a document about a folder around a file has a launch line with several ranks."""
        return any(
            starts_several(site)
            for folder in self._above(os.path.abspath(path))
            for document in self._in_folder(folder)
            for site in document.sites
        )

    def reason_without_peer_access(self, path: str) -> str | None:
        """Return what a document about a folder around a file shows about peer access, as a clause, or None."""
        for folder in self._above(os.path.abspath(path)):
            for around in (os.path.join(folder, inner) for inner in _FOLDERS):
                for name in self.files.documents(around):
                    text = (self.files.content(around, name) or b"").decode("utf-8", "replace")
                    why = why_off(os.path.relpath(os.path.join(around, name)), text.splitlines())
                    if why is not None:
                        return why
        return None

    def start_only_others(self, script: str, launched: bool | Iterable[str]) -> bool:
        """Return whether other scripts of a project are started by launchers, and no document names this one.

        :param launched: whether launch files start others as several ranks, or the scripts that start ranks themselves
        """
        above = [(folder, one) for folder in self._above(os.path.abspath(script)) for one in self._in_folder(folder)]
        name = re.compile(rf"(?<!\w){re.escape(os.path.basename(script).removesuffix('.py'))}(?!\w)")
        for folder, document in above:
            if any(map(name.search, document.lines)) or may_start_any(document.sites):
                return False
            names = [found for site in document.sites if (found := names_of(site))]
            if not all(any(self.files.exists(folder, one) for one in found) for found in names):
                return False  # the script has another name now
        return (
            launched is True
            or any(starts_ranks(site) for _, document in above for site in document.sites)
            or any(self.start_of(other) is not None for other in (launched or ()))
        )

    def callers_have(self, script: str, words: Iterable[str]) -> bool:
        """Return whether another file around a script names it and has one of some words."""
        path = os.path.abspath(script)
        name = re.compile(rf"(?<![\w-]){re.escape(os.path.basename(path))}(?!\w)".encode())
        wanted = re.compile("|".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words).encode())
        for folder in self._above(path):
            for inner in (os.path.join(folder, one) for one in _FOLDERS_OF_CALLERS):
                for file in self.files.callers(inner):
                    text = None if os.path.join(inner, file) == path else self.files.content(inner, file)
                    if text is not None and name.search(text) and wanted.search(text):
                        return True
        return False

    def mention(self, script: str) -> bool:
        """Return whether a comment in a document that starts a script starts it with a launcher."""
        documents = {document.path: document for document, _ in self._starting(script)}
        return any(mentions_several(document.lines, script) for document in documents.values())

    def options_of(self, script: str, launch: DocumentedLaunch) -> GivenOptions:
        """Return what a launch line of a script gives to options."""
        key = (script, launch)
        if key not in self._options:
            named = partial(self._configuration, script, launch)
            self._options[key] = GivenOptions(launch.script_args, named, one_per_gpu=launch.one_per_gpu)
        return self._options[key]

    def _configuration(self, script: str, launch: DocumentedLaunch) -> Node | None:
        """Return the only configuration file that a launch line of a script names, or None."""
        named = {path for word in launch.script_args if (path := configuration_in(word)) is not None}
        if len(named) != 1:
            return None
        name = named.pop()
        for folder in (os.path.abspath(launch.folder), *self._above(os.path.abspath(script))):
            key = os.path.join(folder, name)
            if key not in self._configurations:
                data = self.files.sourced(folder, name)
                self._configurations[key] = None if data is None else _parsed(key, data)
            found = self._configurations[key]
            if found is not None:
                return found
        return None

    def _starting(self, script: str) -> Iterator[tuple[LaunchFile, LaunchSite]]:
        """Yield the launch lines that start a script, each with its document."""
        path = os.path.abspath(script)
        for folder in self._above(path):
            for document in self._in_folder(folder):
                for site in document.sites:
                    if any(self._means(document, folder, name, path) for name in names_of(site)):
                        yield document, site

    def _above(self, path: str) -> Iterator[str]:
        """Yield the folder of a script, and those above it up to that of its repository."""
        folder = os.path.dirname(path)
        for _ in range(_MAX_DEPTH):
            yield folder
            parent = os.path.dirname(folder)
            if folder in self._roots or parent == folder or self.files.exists(folder, ".git"):
                return
            folder = parent

    def _in_folder(self, folder: str) -> list[LaunchFile]:
        if folder not in self._known:
            self._known[folder] = [file for inner in _FOLDERS for file in self._read(os.path.join(folder, inner))]
        return self._known[folder]

    def _read(self, folder: str) -> Iterator[LaunchFile]:
        for name in self.files.documents(folder):
            data = self.files.content(folder, name)
            if data is None:
                continue
            path = os.path.join(folder, name)
            read = read_one(path, _as_shell(data), partial(self.files.sourced, folder))
            if read is not None:
                yield read

    def _means(self, document: LaunchFile, folder: str, name: str, path: str) -> bool:
        """Return whether a document, about a folder, means a script by a name: from there, or from a folder below."""
        if os.path.normpath(posixpath.join(folder, name)) == path:
            return True
        inner = _OUTER.sub("", name)
        if not path.endswith(f"/{inner}") or self.files.exists(folder, name):
            return False
        # the reader has changed to a folder below
        below = os.path.basename(path.removesuffix(f"/{inner}"))
        return any(below in line for line in document.lines)


#: What stands before the path of a script within the project: other folders, and those that a variable holds.
_OUTER = lazy(r"^(?:(?:[^/]*\$[^/]*|\.\.?)/)+")
_FENCE = lazy(rb"[ \t>]*(```+|~~~+)[ \t]*(\S*)")


def _parsed(path: str, data: bytes) -> Node | None:
    """Return the first document of a YAML or JSON file."""
    documents = read_yaml(Fragment(data.decode("utf-8", "replace"), path)).documents
    return documents[0] if documents else None


def _as_shell(data: bytes) -> bytes:
    """Return a document whose blocks without a language are shell: what no shell starts is no launch line there."""
    lines = data.split(b"\n")
    fence = b""
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if match is None:
            continue
        if not fence:
            fence = match[1]
            if not match[2]:
                lines[number] = line[: match.end(1)] + b"bash"
        elif match[1].startswith(fence) and not match[2]:
            fence = b""
    return b"\n".join(lines)


def respect_documents(findings: Iterable[Finding], documents: Documents) -> list[Finding]:
    """Return the findings; what needs several ranks is a note where nothing shows that there are several.

    So is DC207 at an option for the local rank that no launch line gives in a way that it doesn't expect. A variable
    that a caller of its script sets is no finding.
    """
    found = []
    for finding in findings:
        path = finding.where.path
        if OPTION_OF in finding.evidence:
            scripts = finding.evidence[OPTION_OF]["scripts"]
            finding = with_launched_option(finding, [site for one in scripts for site in documents.sites_of(one)])
        if OPTION_OF in finding.evidence:
            finding = by_launched_option(finding)
        if ONLY_LAUNCHED in finding.evidence:
            if not _is_launched(finding, documents):
                continue
            finding = finding._replace(
                evidence={key: value for key, value in finding.evidence.items() if key != ONLY_LAUNCHED}
            )
        if SCRIPTS in finding.evidence and finding.severity > Severity.INFO:
            finding = _by_ranks(finding, documents)
        if LAUNCHER_API in finding.evidence:
            evidence = {key: value for key, value in finding.evidence.items() if key != LAUNCHER_API}
            finding = finding._replace(evidence=evidence)
        if UNREACHED in finding.evidence and path:
            finding = _by_project(finding, documents.starts_several_near(path))
        if NEEDS in finding.evidence:
            finding = by_launches(finding, documents.launches_of, documents.mention, documents.options_of)
        if PEER_ACCESS in finding.evidence:
            finding = with_reason(finding, documents.reason_without_peer_access(path or "."))
        if FOLDER_OPTION in finding.evidence:
            finding = _by_made_folder(finding, documents)
        if SET_BY_CALLERS in finding.evidence:
            evidence = dict(finding.evidence)
            if documents.callers_have(*evidence.pop(SET_BY_CALLERS)):
                continue
            finding = finding._replace(evidence=evidence)
        found.append(finding)
    return found


def _by_made_folder(finding: Finding, documents: Documents) -> Finding:
    """Return a finding about a folder: a note if every launch of its script creates it, and no document has others."""
    evidence = dict(finding.evidence)
    script, made = evidence.pop(FOLDER_OPTION)
    if isinstance(made, str) and finding.severity > Severity.INFO and not documents.launches_of(script):
        message = f"{finding.message}; {made} creates it before the script starts"
        return finding._replace(severity=Severity.INFO, message=message, evidence=evidence)
    return finding._replace(evidence=evidence)


def _by_project(finding: Finding, is_launched: bool) -> Finding:
    """Return a finding that only users of a package may reach: a note if the project shows how it is launched."""
    if is_launched and finding.severity > Severity.INFO:
        return not_reached(finding)
    evidence = {key: value for key, value in finding.evidence.items() if key != UNREACHED}
    return finding._replace(evidence=evidence)


def _is_launched(finding: Finding, documents: Documents) -> bool:
    """Return whether the code shows several ranks, or a launch line in a launch file or in a document starts them."""
    evidence = finding.evidence
    if SCRIPTS not in evidence or (SIGN in evidence and evidence.keys().isdisjoint((LAUNCHER_API, ONE_PROCESS))):
        return True
    starts = map(documents.start_of, evidence[SCRIPTS])
    return any(start is not None and start.several for start in starts)


def _by_ranks(finding: Finding, documents: Documents) -> Finding:
    """Return a finding that needs several ranks: a note without a sign of them, or if one process is started."""
    starts = [start for script in finding.evidence[SCRIPTS] if (start := documents.start_of(script)) is not None]
    several = next((start for start in starts if start.several), None)
    if several is not None:
        return finding._replace(evidence={**finding.evidence, SIGN: several.document})
    one = finding.evidence.get(ONE_PROCESS) or next((start.document for start in starts), None)
    launched = finding.evidence.get(LAUNCHER_API)
    if one is None and SIGN in finding.evidence:
        scripts = finding.evidence[SCRIPTS]
        if launched is None or not all(documents.start_only_others(script, launched) for script in scripts):
            return finding
    why = f"{one} starts it as one process" if one else "nothing shows that several ranks run it"
    return finding._replace(severity=Severity.INFO, message=f"{finding.message}; {why}")
