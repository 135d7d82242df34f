"""The newest torch, accelerate, transformers and Python that a project allows, by pins and bounds.

These stand in requirements, setup files and environments.

Instructions to install count as well: lines of documents with ``pip install`` or ``conda install``, and a release that
is quoted as code (```torch==1.13.1```), is an item of a list, or is the one that the project was tested with. So do an
image that a document names, the one that a Dockerfile starts from, and what it installs. A lock file or exact
constraints of pip count instead of the bounds next to them.

For a launch file, the module of a cluster that it loads and its image count too.

An old Python bounds torch: no newer one has wheels for it.

A Python file that imports a module of torch which a release has removed allows none from there on.

What newer releases deprecate or refuse does not concern a script whose project pins an older one.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from typing import NamedTuple

from .model import Finding, Severity
from .patterns import lazy
from .rank_evidence import ACCELERATE_SINCE, SINCE, TRANSFORMERS_SINCE

#: Files that declare what a project needs, by name.
_DECLARING = lazy(
    r"(?:.*[_-])?requirements?(?:[._-].*)?\.(?:txt|in)|setup\.(?:py|cfg)|pyproject\.toml|Pipfile"
    r"|(?:.*[_-])?(?:environment|env|conda)(?:[._-].*)?\.ya?ml"
    r"|(?!change|news|history|release).*\.(?:md|rst)|(?:.*\.)?Dockerfile(?:\..*)?",
    re.IGNORECASE,
)
#: Files that name the one release that is installed, where others next to them only bound it.
_LOCKS = lazy(r"(?:uv|poetry|pdm)\.lock|Pipfile\.lock|(?:.*[_-])?constraints?(?:[._-].*)?\.txt", re.IGNORECASE)
_LOCKED = {
    package: lazy(
        rf"""name\ =\ "{package}"\r?\nversion\ =\ "(\d+(?:\.\d+)*)
        | ^[ \t]*"{package}":\ \{{ [^{{}}]*? "version":\ "==(\d+(?:\.\d+)*)
        | ^{package}==(\d+(?:\.\d+)*)""",
        re.MULTILINE | re.VERBOSE,
    )
    for package in ("torch", "accelerate", "transformers", "python")
}
#: A folder of documents, and those in it that show how to install.
_DOCUMENTS = lazy(r"docs?|documentation|readme", re.IGNORECASE)
_INSTALLATION = lazy(r"(?:install(?:ation|ing)?|get(?:ting)?[_-]?started|requirements?)\.(?:md|rst)", re.IGNORECASE)
#: A folder of such files.
_FOLDER = lazy(r"requirements?|reqs?|envs?|environments?|conda", re.IGNORECASE)
_LISTED = lazy(r".*\.(?:txt|in|ya?ml)", re.IGNORECASE)
# In all patterns, repetitions that another part of the pattern can follow have a bound: a text needs no square.
#: ``torch==1.6.0+cu92``, ``torch>=1.6,<1.8``, ``pytorch=1.9.0=py3.7``, ``pytorch::pytorch=1.12``, ``torch = "^1.13"``.
_DECLARATIONS = {
    package: lazy(
        rf"""
        (?: ^ | [\s"'\[,(] | :: ) (?P<name> {names} ) (?![\w./:*-]) (?: \[ [^\]\n]{{0,200}} \] )?
        (?P<text> [ \t]{{0,60}} ["']? [ \t]{{0,60}}
            (?: \(? [ \t]{{0,60}} (?: ===? | = | ~= | <=? | >=? | != ) [ \t]{{0,60}}
                ["']? [\^~]? [ \t]{{0,60}} \d [^\s"',;)\#]{{0,200}} [ \t]{{0,60}} ,? [ \t]{{0,60}} )*
        )
        """,
        re.MULTILINE | re.VERBOSE,
    )
    for package, names in (
        ("torch", "torch | pytorch"),
        ("accelerate", "accelerate"),
        ("transformers", "transformers"),
        ("python", "python"),
    )
}
#: In a text for readers: programs that install packages, and their commands.
_INSTALLER, _INSTALLS = lazy(r"\b(?:pip3?|conda|mamba)\b", re.I), lazy(r"\b(?:install|create)\b", re.I)
#: A release that is quoted as code, is an item of a list, is a line of its own, or is a link without "or newer" after
#: it.
_NAMED = lazy(
    r"(?<=`)(?:torch|pytorch)={1,2}\d[^\s`]*(?=`)"
    r"|(?:(?<=^[-*] )|^)(?:torch|pytorch)(?: ?={1,2} ?\d\S*| ?\d+(?:\.\d+)+)(?=[ ]{0,9}(?:<br ?/?>)?[ ]{0,9}$)"
    r"|(?<=\[)(?:torch|pytorch) ?\d+(?:\.\d+)+"
    r"(?=\]\([^)\s]*\)(?!\s*(?:\+|>|or\b|and\s+(?:above|later|newer|higher|up))))",
    re.MULTILINE | re.IGNORECASE,
)
#: The only release that the text calls tested, and no "or newer" after it.
_TESTED = lazy(
    r"\b(?:tested|developed|implemented|trained|built) (?:with|on|in|using|under)\b[^\n]{0,60}?"
    r"\b((?:torch|pytorch)[ `=v]{1,4}\d+(?:\.\d+)+)"
    r"(?![\w.]*\d|`?\+|`?\s*(?:[>/~-]|or|to|(?:,|and) v?\d|and \w+er)\b)",
    re.IGNORECASE,
)
#: An image that is named after its torch, in a Dockerfile and elsewhere, and a version that a Dockerfile names once.
_IMAGE = lazy(r"^FROM\s+(?:--\S+\s+)?pytorch/pytorch:(\d+(?:\.\d+)+)", re.MULTILINE | re.IGNORECASE)
_NAMED_IMAGE = lazy(r"(?<![\w.-])(?<!\w/)(?:docker\.io/)?pytorch/pytorch:(\d+(?:\.\d+)+)", re.IGNORECASE)
#: A module of a cluster that a launch file loads: ``module load pytorch-gpu/py3/2.1.1``, ``ml PyTorch/1.12.0-foss``.
_MODULE = lazy(
    r"^[ \t]*(?:module|ml)[ \t][^#\n]{0,200}?\b(?:py)?torch(?:-[a-z]+)?(?:/[a-z]\w*)?[/-]v?(\d+(?:\.\d+)+)",
    re.MULTILINE | re.IGNORECASE,
)
_VERSION = lazy(r"^(?:ARG|ENV)\s+(\w+)[ =]\s*[\"']?(\d{1,9}(?:\.\d{1,9}){0,9})", re.MULTILINE | re.IGNORECASE)
_BOUND = lazy(r"(===?|=|~=|<=?|>=?|!=)[ \t]*(?:[\"'][ \t]*)?(?:([\^~])[ \t]*)?(\d+(?:\.\d+)*)(\.\*)?")
#: Where conda finds packages: one of the channels is called pytorch.
_CHANNELS = lazy(r"^channels:[^\n]*(?:\n[ \t]*-[^\n]*|\n[ \t]*$)*", re.MULTILINE)
#: Extras of another package, such as ``horovod[pytorch]``: they name no requirement.
_EXTRAS = lazy(r"(?<=\w)\[[\w\s.,-]*\]")
#: A module that torch 2.0 removed, imported where no ``try`` is around.
_REMOVED = lazy(rb"^(?:from torch\._six import |import torch\._six\b|from torch import _six\b)", re.MULTILINE)
#: transformers from its repository, of a commit or tag if there is an ``@``.
_FROM_SOURCE = lazy(
    r"(?:transformers[ \t]{0,9}@[ \t]{0,9})?git\+[^\s@]{1,200}/transformers(?:\.git)?"
    r"(?P<at>@(?:v?(?P<release>\d+\.\d+[\d.]*))?\S*)?"
)
#: What a project requires of Python, whose bounds are within quotes.
_OF_PYTHON = lazy(r"\b(?:requires-python|python_requires|python)[ \t]{0,9}=[ \t]{0,9}(?=[\"'][ \t]{0,9}[<>=~!])")
#: The first Python with wheels of torch from a release on, by the files of these releases on PyPI.
_PYTHON_OF_TORCH = (("3.7", (1, 11)), ("3.8", (2, 0)), ("3.9", (2, 5)), ("3.10", (2, 9)))
#: The first Python that transformers 5 can be installed with, by its ``requires-python``.
_PYTHON_OF_TRANSFORMERS = "3.10"
#: Bytes of a file that are read, files of a folder, and folders above a file.
_MAX_BYTES = 200_000
_MAX_BYTES_OF_LOCK = 8_000_000
_MAX_FILES = 40
_MAX_DEPTH = 40


class Newest(NamedTuple):
    """The newest release that a project allows."""

    version: tuple[int, ...]
    #: the file that declares it
    path: str
    #: the release itself is not allowed (``<2.0``)
    excluded: bool = False

    def is_before(self, since: str) -> bool:
        """Return whether all allowed releases are older than one."""
        wanted = tuple(int(part) for part in since.split("."))
        own = self.version[: len(wanted)] + (0,) * (len(wanted) - len(self.version))
        return own < wanted or (
            self.excluded and self.version[: len(wanted)] <= wanted and not any(self.version[len(wanted) :])
        )


def newest_in(text: str, path: str, package: str = "torch") -> list[Newest | None]:
    """Return the newest allowed release of each declaration in a text; None for one without an upper bound."""
    of_image = "dockerfile" in path.lower()
    if of_image:
        versions = dict(_VERSION.findall(text))
        text = re.sub(r"\$\{?(\w+)\}?", lambda name: versions.get(name[1], name[0]), text)
        text = _IMAGE.sub(r"torch==\1\n", text)
    if of_image or path.lower().endswith((".md", ".rst")):
        # a channel is called pytorch as well
        text = re.sub(r"(?:-c|--channel)[ =]\S+", "", "\n".join(_installing(text)).lower())
        # an item of a list: torch 1.8.0
        text = re.sub(r"(?m)^(torch|pytorch) ?(?=\d)", r"\1==", text)
    if path.endswith((".txt", ".in", ".yml", ".yaml", ".toml", ".cfg", "Pipfile")):
        text = re.sub(r"(?m)(?:^|[ \t])#.*$", "", text)
        text = _CHANNELS.sub("", text)
    text = _EXTRAS.sub("", text)
    if package == "transformers":
        text = _FROM_SOURCE.sub(
            lambda match: f" transformers=={match['release'] or 0}" if match["at"] else " transformers", text
        )
    elif package == "python":
        text = _OF_PYTHON.sub("python ", text)
    found: list[Newest | None] = []
    for match in _DECLARATIONS[package].finditer(text):
        given = _BOUND.findall(match["text"])
        if not given and path.endswith((".py", ".toml", ".cfg")):
            before, after = text[match.start() : match.start("name")], text[match.end("name") : match.end("name") + 1]
            if path.endswith(".cfg") or before[-1:] not in "\"'" or after != before[-1:]:
                continue  # a word of a text, or a package of its own
        if not given and (of_image or package == "python"):
            continue  # whatever is newest when the image is built, or a command
        bounds = [bound for one in given if (bound := _bound(path, *one)) is not None]
        found.append(_lowest(bounds))
    companions = _bound_of_companions(text, path) if package == "torch" else None
    if companions is None:
        return found
    return [_lowest([companions, *([] if one is None else [one])]) for one in found or [None]]


def _installing(text: str) -> list[str]:
    """Return the lines that install packages, and the releases that other lines name."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines):
        installer = _INSTALLER.search(line)
        if installer is not None and _INSTALLS.search(line, installer.end()):
            found.append(line)
            lines[number] = ""
    rest = "\n".join(lines)
    tested = (re.sub(r"[ `=v]+", " ", one) for one in _TESTED.findall(rest))
    images = (f"torch=={release}" for release in _NAMED_IMAGE.findall(rest))
    return [*found, *_NAMED.findall(rest), *tested, *images]


def _release(text: str) -> tuple[int, ...]:
    """Return the numbers of a release; Python converts no text of thousands of digits."""
    return tuple(int(part[:9]) for part in text.split("."))


def _lowest(bounds: Iterable[Newest]) -> Newest | None:
    """Return the bound that allows the least; None without bounds."""
    return min(bounds, key=lambda bound: (bound.version, not bound.excluded), default=None)


def _bound(path: str, operator: str, caret: str, number: str, star: str) -> Newest | None:
    version = _release(number)
    if caret == "^" and version[0] > 0:
        return Newest((version[0] + 1, 0), path, True)
    if operator == "~=" or caret == "~":
        return Newest((*version[: max(len(version) - 2, 0)], version[max(len(version) - 2, 0)] + 1), path, True)
    if operator in ("==", "===", "=", "<="):
        # 1.6 of conda, and 1.6.*, are all of 1.6
        return Newest(version, path)
    return Newest(version, path, True) if operator == "<" else None


#: Releases of other packages that need a torch of their own: the name, its bound, and the first torch that is too new.
#: torchvision and torchaudio require one release of torch; timm up to 0.3.2 imports what torch 1.9 has removed.
_COMPANION = lazy(
    r"""
    (?: ^ | [\s"'\[,(] | :: ) (?P<name> torchvision | torchaudio | timm )
    [ \t]{0,60} ={1,3} [ \t]{0,60} 0 \. (?P<minor> \d+ ) (?: \. (?P<patch> \d+ ) )?
    """,
    re.MULTILINE | re.VERBOSE,
)


def _bound_of_companions(text: str, path: str) -> Newest | None:
    """Return the newest torch that the pins of other packages allow."""
    found = []
    for match in _COMPANION.finditer(text):
        name, minor, patch = match["name"], int(match["minor"][:9]), int((match["patch"] or "0")[:9])
        if name == "timm":
            after = (1, 9) if (minor, patch) <= (3, 2) else None
        elif name == "torchaudio":
            after = (1, minor + 1) if minor < 13 else (2, 0)
        else:
            after = (1, minor) if minor < 14 else (2, minor - 14)
        if after is not None:
            shown = match[0].strip(" \t\n\"',[(:")
            found.append(Newest(after, f"{path} ({shown})", True))
    return min(found, key=lambda bound: bound.version, default=None)


class PackagePins:
    """The newest torch, or another package, for each folder, read once."""

    def __init__(self, roots: Iterable[str] = (".",), package: str = "torch") -> None:
        self._package = package
        self._roots = tuple(os.path.abspath(root) for root in roots)
        self._known: dict[str, Newest | None] = {}
        self._python = PackagePins(self._roots, "python") if package == "torch" else None

    def of(self, path: str) -> Newest | None:
        """Return the newest torch for a file, by its imports, Python, and the nearest folder that declares torch."""
        folders = self._of_folder(path)
        if self._python is None:
            return folders
        bounds = [] if folders is None else [folders]
        if path.endswith(".py") and _REMOVED.search(_content(path)):
            bounds.append(Newest((2, 0), f"{posixpath.basename(path)} (torch._six)", True))
        elif not path.endswith(".py"):
            text = _content(path).decode("utf-8", "replace")
            loaded = [_release(one) for one in (*_MODULE.findall(text), *_NAMED_IMAGE.findall(text))]
            bounds += [Newest(max(loaded), posixpath.basename(path))] if loaded else []
        python = self._python.of(path)
        # 3 of conda is any release of Python 3
        if python is not None and (python.excluded or len(python.version) > 1):
            after = next((torch for first, torch in _PYTHON_OF_TORCH if python.is_before(first)), None)
            if after is not None:
                bounds.append(Newest(after, f"{python.path} (Python {_shown(python)})", True))
        return _lowest(bounds)

    def is_declared(self, path: str) -> bool:
        """Return whether a folder above a file declares the package, with or without a bound."""
        folder = os.path.dirname(os.path.abspath(path))
        for _ in range(_MAX_DEPTH):
            if self._declared(folder):
                return True
            if folder in self._roots or os.path.dirname(folder) == folder or os.path.exists(f"{folder}/.git"):
                break
            folder = os.path.dirname(folder)
        return False

    def _of_folder(self, path: str) -> Newest | None:
        folder = os.path.dirname(os.path.abspath(path))
        visited: list[str] = []
        found: Newest | None = None
        for _ in range(_MAX_DEPTH):
            if folder in self._known:
                found = self._known[folder]
                break
            visited.append(folder)
            declared = self._declared(folder)
            if declared:
                # one declaration without an upper bound, or one that is newer, allows more
                newest = max(declared, key=lambda one: ((), False) if one is None else (one.version, not one.excluded))
                found = None if None in declared else newest
                break
            if folder in self._roots or os.path.dirname(folder) == folder or os.path.exists(f"{folder}/.git"):
                break
            folder = os.path.dirname(folder)
        self._known.update(dict.fromkeys(visited, found))
        return found

    def _declared(self, folder: str) -> list[Newest | None]:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return []
        locks = [name for name in names if _LOCKS.fullmatch(name)]
        locked = [one for name in locks for one in self._locked(f"{folder}/{name}")]
        if locked:
            return locked
        paths = [f"{folder}/{name}" for name in names if _DECLARING.fullmatch(name)]
        for name in names:
            inner = f"{folder}/{name}"
            wanted = _LISTED if _FOLDER.fullmatch(name) else _INSTALLATION if _DOCUMENTS.fullmatch(name) else None
            if wanted is not None and os.path.isdir(inner) and not os.path.islink(inner):
                try:
                    paths.extend(f"{inner}/{one}" for one in sorted(os.listdir(inner)) if wanted.fullmatch(one))
                except OSError:
                    continue
        found: list[Newest | None] = []
        for path in paths[:_MAX_FILES]:
            text = _content(path).decode("utf-8", "replace").replace("\r\n", "\n")
            found.extend(newest_in(text, posixpath.basename(path), self._package))
        return found

    def _locked(self, path: str) -> list[Newest | None]:
        text = _content(path, _MAX_BYTES_OF_LOCK).decode("utf-8", "replace")
        return [
            Newest(_release("".join(one)), posixpath.basename(path)) for one in _LOCKED[self._package].findall(text)
        ]


def _content(path: str, most: int = _MAX_BYTES) -> bytes:
    """Return the begin of a file; nothing of one that can't be read, is no file, or is a link."""
    try:
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                return file.read(most)
    except OSError:
        return b""
    return b""


def respect_pins(
    findings: Iterable[Finding],
    pins: PackagePins,
    accelerate: PackagePins,
    transformers: PackagePins,
    python: PackagePins,
) -> list[Finding]:
    """Return the findings; those about a torch that the project excludes are notes.

    So is what accelerate refuses where the project pins a release that is not known to refuse it. What only another
    transformers refuses is no finding, as is what the project's Python can't have, and a note if no file declares it.
    """
    found = []
    for finding in findings:
        if TRANSFORMERS_SINCE in finding.evidence:
            if _older_pin(finding, TRANSFORMERS_SINCE, transformers) is not None:
                continue
            newest = python.of(finding.where.path or ".")
            if newest is not None and newest.is_before(_PYTHON_OF_TRANSFORMERS):
                continue
            if not transformers.is_declared(finding.where.path or "."):
                finding = finding._replace(severity=Severity.INFO)
        newest = _older_pin(finding, SINCE, pins)
        if newest is not None:
            message = f"{finding.message}; {_pin(newest)}, which is not affected"
            finding = finding._replace(severity=Severity.INFO, message=message)
        newest = _older_pin(finding, ACCELERATE_SINCE, accelerate)
        if newest is not None:
            message = f"{finding.message}; {_pin(newest, 'accelerate')}, which may accept it"
            finding = finding._replace(severity=Severity.INFO, message=message)
        found.append(finding)
    return found


def _older_pin(finding: Finding, evidence: str, pins: PackagePins) -> Newest | None:
    """Return the pin of a release that is older than the one that a finding is about."""
    since, path = finding.evidence.get(evidence), finding.where.path
    if finding.severity == Severity.INFO or not isinstance(since, str) or not path:
        return None
    newest = pins.of(path) if re.fullmatch(r"\d+(\.\d+)*", since) else None
    return newest if newest is not None and newest.is_before(since) else None


def _pin(newest: Newest, package: str = "torch") -> str:
    return f"{newest.path} pins {package} {_shown(newest)}"


def _shown(newest: Newest) -> str:
    shown = ".".join(map(str, newest.version))
    return f"before {shown}" if newest.excluded else shown
