"""Which files a call of ``distcheck lint`` is about: folders are walked, what is excluded or git-ignored is skipped.

It opens no source file, except to find ``python`` or a shell in the first line of a file that was named and whose
name means nothing. A file that is named counts even where a pattern excludes it; a link to a folder is not followed, so
no tree is endless. What only *may* be a launch file, by its name, is listed apart: its content decides.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from distcheck.core.files import read_record
from distcheck.core.patterns import lazy

#: Folders that hold nothing of the project's own: those that Ruff excludes by default (its setting ``exclude``, ruff
#: 0.17), and what Python and we write. ``dist`` is not among them: of all names, it is what training projects call the
#: package that starts their process groups.
DEFAULT_EXCLUDES = (
    ".bzr", ".direnv", ".distcheck_cache", ".eggs", ".git", ".git-rewrite", ".hg", ".ipynb_checkpoints", ".mypy_cache",
    ".nox", ".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode",
    "__pycache__", "__pypackages__", "_build", "buck-out", "node_modules", "site-packages", "venv",
)  # fmt: skip
#: What a Python file must be called to be found in a folder.
SUFFIXES = (".py", ".pyw", ".ipynb")
#: How the names of launch files end: scripts of shells and schedulers, manifests, configurations, recipes.
LAUNCH_SUFFIXES = (
    ".sh", ".bash", ".zsh", ".ksh", ".sbatch", ".slurm", ".srun", ".sub", ".job", ".pbs", ".qsub", ".lsf", ".bsub",
    ".batch", ".cmd", ".yaml", ".yml", ".json", ".mk", ".mak", ".make",
)  # fmt: skip
#: Documents with commands in them, where they are requested.
MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx", ".qmd")
#: Names without such an end that mean the same: ``Dockerfile.train``, ``Makefile.am``, ``hostfile_2nodes.txt``.
_LAUNCH_NAME = lazy(
    r"(?:docker|container|(?:gnu)?make)file(?:[._-].*)?|.*[._-](?:docker|container)file|.*(?:host|machine)[_-]?file.*",
    re.IGNORECASE,
)
#: Longest first line that is checked, in bytes: more than the kernel takes of one (256, Linux 5.1's BINPRM_BUF_SIZE).
_FIRST_LINE = 512
#: The first line of a script of a shell.
_SHELL = lazy(rb"#!.*[/ ](?:ba|da|z|k|)sh\b")


class FileProblem(NamedTuple):
    """A requested path that cannot be checked, and why."""

    path: str
    why: str


class FoundFiles(NamedTuple):
    """The files, by the paths that are shown to users, in order and each once; and what could not be checked."""

    files: tuple[str, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    #: what may be a launch file: its content decides
    launch_files: tuple[str, ...] = ()
    #: the files of both kinds that were named, not found in a folder
    named: frozenset[str] = frozenset()


#: A pattern that is about one name, without a sign that means more than itself.
_PLAIN = lazy(r"[\w.-]+")


class Globs:
    """Patterns as Ruff has them: one without a slash is about a name, another about a path; ``*`` goes over slashes.

    :param patterns: the pattern, and the folder that it is relative to
    """

    def __init__(self, patterns: Iterable[tuple[str, str]]) -> None:
        names: list[str] = []
        paths: list[str] = []
        self._plain: set[str] = set()
        for text, base in patterns:
            pattern = text.strip().replace(os.sep, "/").removeprefix("./").rstrip("/")
            if not pattern:
                continue
            if _PLAIN.fullmatch(pattern):
                self._plain.add(pattern)
            elif "/" not in pattern:
                names.append(_regex(pattern))
            else:
                start = "" if pattern.startswith(("/", "**/")) or os.path.isabs(text) else _regex_of_base(base)
                paths.append(start + _regex(pattern))
        self._names = _union(names)
        self._paths = _union(paths)

    def match(self, folder: str, name: str) -> bool:
        """Return whether a pattern names this entry of a folder, which is given by its absolute path."""
        if name in self._plain or (self._names is not None and self._names.fullmatch(name)):
            return True
        return self._paths is not None and self._paths.fullmatch(f"{folder}/{name}".replace("//", "/")) is not None

    def match_file(self, path: str, working_folder: str) -> bool:
        """Return whether a pattern names a file, or a folder above it that is below the working folder."""
        here = _slashes(working_folder).rstrip("/")
        absolute = _absolute(path, working_folder)
        while True:
            folder, _, name = absolute.rpartition("/")
            if self.match(folder, name):
                return True
            if not folder.startswith(here + "/"):
                return False
            absolute = folder


#: A pattern of an ignore file: whether it ignores, whether it is about folders only, and its regular expression.
_Pattern = tuple[bool, bool, str]


class PatternStore(Protocol):
    """Keeps what was made of ignore files: importing their library takes longer than many a search."""

    def get(self, digest: bytes) -> bytes | None: ...

    def put(self, digest: bytes, data: bytes) -> None: ...


#: A pattern of an ignore file that needs no library: names and slashes, with ``*`` and ``[abc]`` in the names.
_SIMPLE = lazy(r"(?P<no>!?)(?P<text>(?:[\w.$~+-]|\[\w+\]|\*(?!\*)|/(?!/))+?)(?P<folder>/?) *")
_SIGN_OF_NAME = lazy(r"\[\w+\]|\W")


def _simple_pattern(line: str) -> _Pattern | None:
    """Return a pattern of an ignore file as the library reads it; None if the library has to."""
    found = _SIMPLE.fullmatch(line)
    if found is None or found["text"] in ("*", "/"):
        return None
    start = "^" if "/" in found["text"] else "^(?:.+/)?"
    path = "/".join(
        "[^/]+" if name == "*" else _SIGN_OF_NAME.sub(_regex_of_sign, name)
        for name in found["text"].removeprefix("/").split("/")
    )
    return not found["no"], bool(found["folder"]), start + path + ("(?:/)" if found["folder"] else "(?:(?:/)|$)")


def _regex_of_sign(sign: re.Match[str]) -> str:
    return "[^/]*" if sign[0] == "*" else sign[0] if len(sign[0]) > 1 else re.escape(sign[0])


def _patterns_of(lines: Iterable[str]) -> list[_Pattern]:
    """Return the patterns of an ignore file. The import of the library takes longer than many a search."""
    found: list[_Pattern] = []
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        if (simple := _simple_pattern(line)) is not None:
            found.append(simple)
            continue
        import pathspec

        try:
            parsed = list(pathspec.GitIgnoreSpec.from_lines([line]).patterns)
        except ValueError:  # git passes over what it can't read as well
            continue
        for pattern in parsed:
            regex = getattr(pattern, "regex", None)
            if pattern.include is not None and regex is not None:
                source = re.sub(r"\(\?P<\w+>", "(?:", regex.pattern)
                found.append((pattern.include, line.rstrip().endswith("/"), source))
    return found


def _known_patterns(text: str, store: PatternStore | None) -> list[_Pattern]:
    """Return the patterns of an ignore file, from the store if they are there."""
    lines = text.split("\n")
    if store is None:
        return _patterns_of(lines)
    key = hashlib.blake2b(
        b"gitignore" + _library_stamp() + text.encode("utf-8", "surrogateescape"), digest_size=20
    ).digest()
    data = store.get(key)
    if data is not None:
        try:
            rows = marshal.loads(data)  # noqa: S302 - written by this user, and holds plain values
            return [(bool(include), bool(folders), str(source)) for include, folders, source in rows]
        except (ValueError, TypeError, EOFError):
            pass  # damaged: it is made again
    patterns = _patterns_of(lines)
    store.put(key, marshal.dumps(patterns))
    return patterns


def _library_stamp() -> bytes:
    """Return what changes with the version of the library that reads ignore files."""
    spec = importlib.util.find_spec("pathspec")
    if spec is None or spec.origin is None:
        return b""
    try:
        found = os.stat(spec.origin)
    except OSError:  # in an archive
        return spec.origin.encode("utf-8", "surrogateescape")
    return f"{spec.origin}:{found.st_size}:{found.st_mtime_ns}".encode("utf-8", "surrogateescape")


#: The regular expression of a pattern for one name at any depth: ``build/``, ``.env``, ``*.so``.
_OF_A_NAME = lazy(
    r"\^\(\?:\.\+/\)\?(?P<ends>\[\^/\]\*)?(?P<text>(?:[\w~-]|\\[^\w\s])+)"
    r"(?:(?P<folder>\(\?:/\)|/\.\*\$)|\(\?:\(\?:/\)\|\$\)|\(\?:/\.\*\)\?\$)"
)


class _Name(NamedTuple):
    """A pattern for one name at any depth. Most patterns are such, and to compile them takes longer than a search."""

    text: str
    #: names that end so fit
    ends: bool
    #: only a folder fits
    folder: bool

    @classmethod
    def of(cls, source: str) -> _Name | None:
        """Return what a regular expression of an ignore file means, None for one about more than a name."""
        found = _OF_A_NAME.fullmatch(source)
        if found is None:
            return None
        return cls(re.sub(r"\\(.)", r"\1", found["text"]), found["ends"] is not None, found["folder"] is not None)

    def fits(self, parts: Sequence[str]) -> bool:
        """Return whether a part of a path fits; the last part of a folder is empty."""
        named = parts[:-1] if self.folder else parts
        return any(part.endswith(self.text) for part in named) if self.ends else self.text in named


class _GitIgnore:
    """One ``.gitignore`` file."""

    def __init__(self, folder: str, patterns: Sequence[_Pattern]) -> None:
        self.folder = folder
        names = [_Name.of(source) for _, _, source in patterns]
        #: the last that fits decides
        self.patterns = [
            (include, folders, _linear(source), name)
            for (include, folders, source), name in zip(patterns, names, strict=True)
        ]
        # one search for all: most paths fit none, and are done with then
        self._names = {name.text for name in names if name is not None and not name.ends}
        self._ends = tuple({name.text for name in names if name is not None and name.ends})
        self._any = _union([source for _, _, source, name in self.patterns if name is None])

    def ignores(self, path: str, *, folder: bool) -> bool | None:
        """Return whether it ignores an absolute path; None where no pattern matches."""
        relative = path[len(self.folder) + 1 :] if self.folder != "/" else path[1:]
        if folder:
            relative += "/"
        parts = relative.split("/")
        # the end of a regular expression may stand before a line end
        plain = "\n" not in relative
        if (
            plain
            and self._names.isdisjoint(parts)
            and not any(part.endswith(self._ends) for part in parts)
            and (self._any is None or self._any.match(relative) is None)
        ):
            return None
        for include, folders, source, name in reversed(self.patterns):
            if (folder or not folders) and (
                name.fits(parts) if plain and name is not None else re.match(source, relative) is not None
            ):
                return include
        return None


def discover(
    paths: Sequence[str],
    *,
    excludes: Globs,
    force_exclude: bool = False,
    respect_gitignore: bool = True,
    include_markdown: bool = False,
    working_folder: str | None = None,
    store: PatternStore | None = None,
) -> FoundFiles:
    """Return the files that are below some paths or named by them.

    :param excludes: what is skipped in folders; what ``paths`` name is skipped only with ``force_exclude``
    :param include_markdown: documents in folders may be launch files as well; one that is named always is
    :param store: keeps what was made of ignore files
    """
    here = _slashes(os.getcwd() if working_folder is None else working_folder)
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    launch: set[str] = set()
    named: set[str] = set()
    problems: list[FileProblem] = []
    for path in paths:
        absolute = _absolute(path, here)
        shown = _shown(path, absolute, here)
        if force_exclude and absolute != here and excludes.match_file(path, here):
            continue
        if not os.path.isdir(absolute):
            kind, why = _named(absolute)
            if why is not None:
                problems.append(FileProblem(shown, why))
                continue
            files.setdefault(os.path.realpath(absolute), shown)
            named.add(shown)
            if kind == "launch":
                launch.add(shown)
            continue
        walk = _Walk(excludes, respect_gitignore, include_markdown, store)
        chain = walk.ignores_above(absolute, here) if respect_gitignore else ()
        real = _slashes(os.path.realpath(absolute))
        prefix = "" if shown == "." else shown if shown.endswith("/") else shown + "/"
        for relative, is_link, is_python in walk.files(absolute, chain):
            if not is_python:
                launch.add(prefix + relative)
            if is_link:
                links.setdefault(_slashes(os.path.realpath(f"{absolute}/{relative}")), prefix + relative)
            else:
                files.setdefault(f"{real}/{relative}".replace("//", "/"), prefix + relative)
        problems.extend(FileProblem(prefix + relative if relative else shown, why) for relative, why in walk.problems)
    for real, shown in links.items():
        files.setdefault(real, shown)
    every = sorted(files.values())
    return FoundFiles(
        tuple(path for path in every if path not in launch),
        tuple(dict.fromkeys(problems)),
        tuple(path for path in every if path in launch),
        frozenset(named.intersection(every)),
    )


def may_be_a_launch_file(name: str, *, include_markdown: bool = False) -> bool:
    """Return whether the name of a file suggests that it may start ranks; one without any suffix may be a script."""
    return (
        name.endswith(LAUNCH_SUFFIXES)
        or "." not in name
        or (include_markdown and name.endswith(MARKDOWN_SUFFIXES))
        or _LAUNCH_NAME.fullmatch(name) is not None
    )


def _named(path: str) -> tuple[str, str | None]:
    """Return what a path that was named is, ``python`` or ``launch``, and why it is nothing that can be read."""
    if not os.path.exists(path):
        return "", "it is a link that leads nowhere" if os.path.islink(path) else "it does not exist"
    if not os.path.isfile(path):
        return "", "it is no ordinary file; to read from standard input, use -"
    if path.endswith(SUFFIXES):
        return "python", None
    name = path.rpartition("/")[2]
    if path.endswith((*LAUNCH_SUFFIXES, *MARKDOWN_SUFFIXES)) or _LAUNCH_NAME.fullmatch(name) is not None:
        return "launch", None
    try:
        with open(path, "rb") as file:
            first = file.readline(_FIRST_LINE)
    except OSError as error:
        return "", f"it can't be read: {error.strerror}"
    if first.startswith(b"#!") and b"python" in first:
        return "python", None
    if _SHELL.match(first):
        return "launch", None
    return "", (
        "it is no Python file and no launch file: its name ends with none of .py, .pyw, .ipynb, .sh, .sbatch, .slurm, "
        ".yaml, .json and the like, and its first line names neither python nor a shell"
    )


class _Walk:
    """One walk below one folder."""

    def __init__(
        self, excludes: Globs, respect_gitignore: bool, include_markdown: bool, store: PatternStore | None
    ) -> None:
        self.excludes = excludes
        self.store = store
        self.respect_gitignore = respect_gitignore
        self.include_markdown = include_markdown
        self.problems: list[tuple[str, str]] = []

    def ignores_above(self, folder: str, here: str) -> tuple[_GitIgnore, ...]:
        """Return the ignore files above a folder, up to the repository or the working folder.

        None where they ignore the folder itself: whatever names it wants to see what is in it.
        """
        above: list[str] = []
        current = folder
        repository = None
        while True:
            if os.path.exists(f"{current}/.git"):
                repository = current
                break
            parent = current.rpartition("/")[0]
            if parent == current or not parent:
                break
            current = parent
            above.append(current)
        if repository is None:
            above = [place for place in above if place == here or place.startswith(here + "/")]
        chain: list[_GitIgnore] = []
        if repository is not None:
            chain.extend(_ignore_file(f"{repository}/.git/info/exclude", repository, self.store))
        for place in reversed(above):
            chain.extend(_ignore_file(f"{place}/.gitignore", place, self.store))
        parts = [folder, *(place for place in above if place != repository)]
        if any(_ignored(chain, part, folder=True) for part in parts):
            return ()
        return tuple(chain)

    def files(self, root: str, chain: tuple[_GitIgnore, ...]) -> Iterator[tuple[str, bool, bool]]:
        """The files below a folder, relative to it, whether each is a link, and whether it is Python by its name."""
        stack: list[tuple[str, tuple[_GitIgnore, ...]]] = [("", chain)]
        match = self.excludes.match
        while stack:
            relative, ignores = stack.pop()
            folder = f"{root}/{relative}".rstrip("/") if root != "/" else f"/{relative}".rstrip("/")
            try:
                with os.scandir(folder or "/") as entries:
                    listed = list(entries)
            except OSError as error:
                self.problems.append((relative, f"the folder can't be listed: {error.strerror}"))
                continue
            if self.respect_gitignore and any(entry.name == ".gitignore" for entry in listed):
                ignores = (*ignores, *_ignore_file(f"{folder}/.gitignore", folder or "/", self.store))
            for entry in listed:
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if not match(folder, name) and not _ignored(ignores, f"{folder}/{name}", folder=True):
                            stack.append((f"{relative}/{name}" if relative else name, ignores))
                        continue
                    is_python = name.endswith(SUFFIXES)
                    if not is_python and not may_be_a_launch_file(name, include_markdown=self.include_markdown):
                        continue
                    # is_file follows a link: one that leads to a folder or nowhere is none
                    if not entry.is_file() or match(folder, name):
                        continue
                    link = entry.is_symlink()
                except OSError:  # deleted since it was listed
                    continue
                if not _ignored(ignores, f"{folder}/{name}", folder=False):
                    yield f"{relative}/{name}" if relative else name, link, is_python


def _ignored(chain: Sequence[_GitIgnore], path: str, *, folder: bool) -> bool:
    """Return the decision of the ignore file nearest to a path."""
    for ignore in reversed(chain):
        ignored = ignore.ignores(path, folder=folder)
        if ignored is not None:
            return ignored
    return False


def _ignore_file(path: str, folder: str, store: PatternStore | None) -> Iterator[_GitIgnore]:
    """Yield the ignore file at a path, if there is one with patterns."""
    try:
        text = read_record(path, errors="surrogateescape")
    except (OSError, ValueError):
        return
    patterns = _known_patterns(text, store)
    if patterns:
        yield _GitIgnore(folder, patterns)


def _union(sources: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{_linear(source)})" for source in sources), re.DOTALL) if sources else None


#: Text of fixed length in the regular expression of a glob; nothing in it but a slash matches a slash.
_SIGN = r"\\.|\[\^/\](?![*+?])|\[[^\]\[^/\\-]+\](?![*+?])|[^\\\[\](){}.*+?^$|/]"
#: A wildcard and the text up to the same wildcard, and how to match both once.
_REPEATED = tuple(
    (re.compile(f"{re.escape(wildcard)}((?:{signs})+?){end}(?={re.escape(wildcard)})"), once)
    for wildcard, signs, end, once in (
        ("[^/]*", _SIGN, "", r"(?>[^/]*?\1)"),
        (".*", f"{_SIGN}|/", "", r"(?>.*?\1)"),
        ("(?:/.+)?", f"{_SIGN}|/", "", r"(?>(?:/.+?)??\1(?=/))"),
        ("(?:.*/)?", f"{_SIGN}|/", "(?<=/)", r"(?>(?:.*?/)??\1)"),
    )
)


def _linear(source: str) -> str:
    """Return the regular expression of a glob that takes the first match of each part but the last.

    The next wildcard takes the rest as well, so that no other match is worth a try: ``*a*a*a*b`` would try them all.
    Python 3.10 has no such groups.
    """
    if sys.version_info >= (3, 11):
        for repeated, once in _REPEATED:
            source = repeated.sub(once, source)
    return source


def _regex(pattern: str) -> str:
    """A glob as a regular expression; raises nothing: a lone bracket stands for itself."""
    found: list[str] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if pattern.startswith("**/", position):
            # several in a row match the same, and each doubles the ways to do so
            if found[-1:] != ["(?:.*/)?"]:
                found.append("(?:.*/)?")
            position += 3
            continue
        if char == "*":
            found.append(".*")
            position += 2 if pattern.startswith("**", position) else 1
            continue
        if char == "?":
            found.append("[^/]")
        elif char == "[" and (end := pattern.find("]", position + 2)) > 0:
            inside = pattern[position + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            inside = "^" + inside[1:] if inside.startswith("!") else inside.replace("^", "\\^", 1)
            try:
                re.compile(f"[{inside}]")
            except re.error:  # such as a range that runs backwards
                found.append("\\[")
            else:
                found.append(f"[{inside}]")
                position = end
        else:
            found.append(re.escape(char))
        position += 1
    return "".join(found)


def _regex_of_base(base: str) -> str:
    return re.escape(_slashes(base).rstrip("/") + "/")


def _slashes(path: str) -> str:
    return path.replace(os.sep, "/") if os.sep != "/" else path


def _absolute(path: str, working_folder: str) -> str:
    return _slashes(os.path.normpath(os.path.join(working_folder, path)))


def _shown(path: str, absolute: str, here: str) -> str:
    """Return the path that users read: relative to the working folder where it is below it, else as they typed it."""
    if absolute == here:
        return "."
    if absolute.startswith(here.rstrip("/") + "/"):
        return absolute[len(here.rstrip("/")) + 1 :]
    return _slashes(os.path.normpath(path))
