"""From paths to the launch files of a run: what each file is, by name and content, and what it contains.

Nothing is checked here. A file that can't be read is returned with its problem. Only the beginning of a file decides
whether it is a launch file, so that large data files cost one short read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from distcheck.core.patterns import lazy

from .files import MAX_BYTES, kind_of, read_file
from .fragments import is_continued
from .model import LaunchFile, LaunchFiles, LookUp

#: Bytes that decide whether a JSON file, or one without a suffix, is a launch file. A DeepSpeed configuration shows its
#: keys in its first lines.
_BEGINNING = 65_536
_FAILED = "it can't be read: the analysis of it failed"
#: Longest chain of continued lines, so that a file of backslashes ends.
_MAX_LINES = 2_000
#: A line with only a comment; a scheduler's directive is none.
_COMMENT = lazy(r"\s*#(?!SBATCH\b|PBS\b|BSUB\b|!)")


class LaunchSource(NamedTuple):
    """A file that may be a launch file: the displayed path, relative to the working directory, and its bytes."""

    path: str
    #: at most this many bytes from its beginning; raises OSError
    read: Callable[[int], bytes]


#: Reads one file: :func:`read_source`, or what keeps its results.
Reader = Callable[[LaunchSource, bool, LookUp], LaunchFile | None]


def read_launch_files(
    sources: Sequence[LaunchSource],
    *,
    look_up: LookUp | None = None,
    include_markdown: bool = False,
    named: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
    read: Reader | None = None,
) -> LaunchFiles:
    """Return the launch files among some files, with their contents.

    :param sources: in the order of the report
    :param look_up: returns the bytes of a file that another one names (a sourced script), or None; by default from the
        working directory
    :param include_markdown: read documents as well; one that is among ``named`` is read in any case
    :param progress: called now and then with the number of finished files, and of all
    :param read: reads one file; :func:`read_source` by default
    """
    reader = read_source if read is None else read
    ask = look_up if look_up is not None else remembering(look_up_below(os.getcwd()))
    found: list[LaunchFile] = []
    for number, source in enumerate(sources):
        if progress is not None and number % 50 == 0:
            progress(number, len(sources))
        markdown = include_markdown or source.path in named
        try:
            file = reader(source, markdown, ask)
        except OSError as error:
            if _may_be_data(source.path) and source.path not in named:
                continue
            file = LaunchFile(source.path, "", problems=((f"it can't be read: {error.strerror or error}", 0, 0),))
        if file is not None:
            found.append(file)
    return LaunchFiles(tuple(found))


def read_one(path: str, data: bytes, look_up: LookUp, *, include_markdown: bool = True) -> LaunchFile | None:
    """Return the contents of a file from its bytes, or None if it is no launch file."""
    kind = kind_of(path, data, include_markdown=include_markdown)
    return None if kind is None else _read_kind(path, data, kind, look_up)


def read_source(source: LaunchSource, markdown: bool, look_up: LookUp) -> LaunchFile | None:
    """Return the contents of a file, or None if it is no launch file; raises OSError.

    :param markdown: a document is one
    """
    if _may_be_data(source.path):
        data = source.read(_BEGINNING)
        kind = kind_of(source.path, data, include_markdown=markdown)
        if kind is None:
            return None
        if len(data) < _BEGINNING:
            return _read_kind(source.path, data, kind, look_up)
    # one more byte shows that the file is larger
    data = source.read(MAX_BYTES + 1)
    kind = kind_of(source.path, data, include_markdown=markdown)
    if kind is None:
        return None
    return _read_kind(source.path, data, kind, look_up)


def _read_kind(path: str, data: bytes, kind: str, look_up: LookUp) -> LaunchFile:
    try:
        return read_file(path, data, kind, look_up)
    except Exception as error:  # noqa: BLE001 - one file must not fail the others: its problem is reported
        why = f"{_FAILED} ({type(error).__name__}: {error}); please report that to the authors of distcheck"
        return LaunchFile(path, kind, problems=((why, 0, 0),))


def _may_be_data(path: str) -> bool:
    """Return whether most files with such a name are no launch files, and may be large."""
    return path.endswith(".json") or "." not in path.rpartition("/")[2]


def look_up_below(folder: str, known: Mapping[str, bytes] | None = None, *, roots: Iterable[str] = ()) -> LookUp:
    """Return a function for the bytes of files that launch files name, relative to a folder or below it.

    Files of the machine (``/etc/profile.d/modules.sh``) are not read: the job runs on another one.

    :param known: bytes that replace a file's own, by path relative to the folder or absolute
    :param roots: other folders whose files may be named by absolute paths
    """
    here = os.path.abspath(folder)
    bounds = tuple(os.path.join(os.path.abspath(root), "") for root in (here, *roots))

    def look(path: str) -> bytes | None:
        full_path = os.path.normpath(os.path.join(here, path))
        if os.path.isabs(path) and not full_path.startswith(bounds):
            return None
        if known:
            for name in (os.path.relpath(full_path, here), full_path):
                if name.replace(os.sep, "/") in known:
                    return known[name.replace(os.sep, "/")]
        try:
            # a pipe or a device would block
            if not os.path.isfile(full_path) or os.path.getsize(full_path) > MAX_BYTES:
                return None
            with open(full_path, "rb") as file:
                return file.read()
        except (OSError, ValueError):  # removed meanwhile, no permission, a name with a null byte
            return None

    return look


def remembering(look_up: LookUp) -> LookUp:
    """Return the same function with a cache: a script that all others source is read once."""
    seen: dict[str, bytes | None] = {}

    def ask(path: str) -> bytes | None:
        if path not in seen:
            seen[path] = look_up(path)
        return seen[path]

    return ask


def has_failed(why: str) -> bool:
    """Return whether a problem of a file is a failure of its reader."""
    return why.startswith(_FAILED)


def is_whole(file: LaunchFile) -> bool:
    """Return whether all shell in a file could be read, and no analysis failed."""
    return file.why_no_shell is None and not any(has_failed(why) for why, _, _ in file.problems)


def has_contents(file: LaunchFile) -> bool:
    """Return whether a file contains anything that a probe can check."""
    return bool(file.sites or file.settings or file.allocation or file.pods or file.configurations or file.hosts)


def lines_around(file: LaunchFile, lines: Iterable[int | None]) -> frozenset[int]:
    """Return the lines whose comments apply to some lines of a file.

    These are the lines themselves, the other lines of a continued command, and the comment lines directly above. No
    comment can follow a backslash.
    """
    given = sorted({line for line in lines if line is not None and 1 <= line <= len(file.lines)})
    if not given:
        return frozenset()
    first, last = given[0], given[-1]
    while first > 1 and last - first < _MAX_LINES and is_continued(file.lines[first - 2]):
        first -= 1
    while last < len(file.lines) and last - first < _MAX_LINES and is_continued(file.lines[last - 1]):
        last += 1
    found = {*given, first, last}
    above = first - 1
    while above >= 1 and first - above < _MAX_LINES and _COMMENT.match(file.lines[above - 1]):
        found.add(above)
        above -= 1
    return frozenset(found)


def why_it_reads_worse(path: str, before: LaunchFile, data: bytes, look_up: LookUp) -> str | None:
    """Return what can't be read in the new bytes of a file and could be read in the old ones, or None."""
    after = _read_kind(path, data, before.kind, look_up)
    old = [why for why, _, _ in before.problems]
    for why, line, _ in after.problems:
        if why in old:
            old.remove(why)
        else:
            return f"line {line}: {why}" if line else why
    return None
