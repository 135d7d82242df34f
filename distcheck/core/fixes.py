"""Apply the edits of fixes to the bytes of source files. All other bytes stay the same.

The caller chooses the fixes. A fix is applied whole or not at all. A fix that overlaps another waits for the next
round. A file that would no longer compile is not changed. For files that are not Python, the caller decides whether
they can still be read.
"""

from __future__ import annotations

import ast
import codecs
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from distcheck.core.patterns import lazy

from .files import write_whole
from .model import Edit, Fix

#: The line endings of Python; a form feed or U+2028 is none.
_LINE_END = lazy(r"\r\n|\r|\n")
#: The line endings of any other text: only Python accepts a lone carriage return.
_OTHER_LINE_END = lazy(r"\r\n|\n")
#: Return what is wrong with the new bytes of a path, or None.
Verify = Callable[[str, bytes], "str | None"]
#: The declaration of an encoding in the first two lines (PEP 263).
_COOKIE = lazy(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


class SkippedFile(NamedTuple):
    """A file that was not changed, and why."""

    path: str
    why: str


class Edited(NamedTuple):
    """The result of applying fixes: the new bytes of the files that change, and what was not applied."""

    files: Mapping[str, bytes] = {}
    #: the fixes that were applied
    done: tuple[Fix, ...] = ()
    #: the fixes that overlap an applied one: for another round
    postponed: tuple[Fix, ...] = ()
    refused: tuple[SkippedFile, ...] = ()


class _FileText(NamedTuple):
    """The text of a file, and what is needed to write it again."""

    text: str
    #: where each line starts, and where its end of line starts
    lines: tuple[tuple[int, int], ...]
    encoding: str
    bom: bytes
    newline: str


class _Span(NamedTuple):
    """An edit as offsets into a text."""

    start: int
    end: int
    text: str


def apply_fixes(
    fixes: Iterable[Fix], files: Mapping[str, bytes], *, others: Mapping[str, Verify] | None = None
) -> Edited:
    """Apply as many fixes as fit together.

    :param files: the bytes of the files that may be changed; a fix of another file is dropped
    :param others: those files that are not Python but UTF-8, each with a function that verifies its new bytes
    """
    others = {} if others is None else others
    texts: dict[str, _FileText] = {}
    refused: dict[str, SkippedFile] = {}
    wanted: list[tuple[Fix, dict[str, list[_Span]]]] = []
    for fix in fixes:
        spans: dict[str, list[_Span]] = {}
        for edit in fix.edits:
            if edit.path not in files or edit.path in refused:
                break
            if edit.path not in texts:
                try:
                    texts[edit.path] = _read(files[edit.path], python=edit.path not in others)
                except (UnicodeError, LookupError) as error:
                    refused[edit.path] = SkippedFile(edit.path, f"it can't be read as text: {error}")
                    break
            span = _span(edit, texts[edit.path])
            if span is None:
                refused[edit.path] = SkippedFile(edit.path, f"an edit is outside of it, at {edit.line}:{edit.column}")
                break
            spans.setdefault(edit.path, []).append(span)
        else:
            if spans:
                wanted.append((fix, spans))
    while True:
        done, postponed, taken = _compatible(wanted)
        changed: dict[str, bytes] = {}
        broken: set[str] = set()
        for path, all_spans in taken.items():
            try:
                data = _written(texts[path], all_spans)
            except UnicodeError as error:
                refused[path] = SkippedFile(path, f"a fix does not fit its encoding: {error}")
                broken.add(path)
                continue
            if path in others:
                why = others[path](path, data)
                problem = f"it could no longer be read: {why}"
            else:
                why = why_it_does_not_compile(data)
                problem = f"it would no longer compile: {why}"
            if why is None:
                changed[path] = data
            else:
                refused[path] = SkippedFile(path, problem)
                broken.add(path)
        if not broken:
            kept = {path: data for path, data in changed.items() if data != files[path]}
            return Edited(kept, tuple(done), tuple(postponed), tuple(refused.values()))
        # a fix must not change one file if another of its files stays unchanged
        wanted = [(fix, spans) for fix, spans in wanted if not broken & set(spans)]


def why_it_does_not_compile(data: bytes) -> str | None:
    """Return the error of Python's parser, or None if it accepts the source."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return None


def unified_diff(path: str, old: bytes, new: bytes, *, python: bool = True) -> str:
    """Return the difference in the format of ``patch``; empty if there is none."""
    import difflib

    before, after = (_diff_lines(_read(data, python=python)) for data in (old, new))
    lines = []
    for line in difflib.unified_diff(before, after, path, path):
        lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def write_atomically(path: str, data: bytes) -> None:
    """Write a file whole or not at all, and keep its mode; a link stays a link. Raises OSError."""
    if not os.access(os.path.realpath(path), os.W_OK):
        # replacing it would only need write access to the folder
        raise PermissionError(13, "Permission denied", path)
    write_whole(path, data)


def _compatible(
    wanted: Sequence[tuple[Fix, dict[str, list[_Span]]]],
) -> tuple[list[Fix], list[Fix], dict[str, list[_Span]]]:
    """Return the fixes that don't overlap, in order, and those that do; equal edits count once."""
    done: list[Fix] = []
    postponed: list[Fix] = []
    taken: dict[str, list[_Span]] = {}
    for fix, spans in wanted:
        fits = True
        for path, own in spans.items():
            others = [other for other in taken.get(path, ()) if other not in own]
            fits = fits and not any(_overlap(span, other) for span in own for other in others)
            fits = fits and not any(
                _overlap(first, second)
                for position, first in enumerate(own)
                for second in own[position + 1 :]
                if first != second
            )
        if not fits:
            postponed.append(fix)
            continue
        done.append(fix)
        for path, own in spans.items():
            known = taken.setdefault(path, [])
            known.extend(span for span in dict.fromkeys(own) if span not in known)
    return done, postponed, taken


def _overlap(first: _Span, second: _Span) -> bool:
    """Return whether two edits overlap; so do insertions at the same location."""
    if first.start == first.end or second.start == second.end:
        return first.start <= second.end and second.start <= first.end
    return first.start < second.end and second.start < first.end


def _read(data: bytes, *, python: bool = True) -> _FileText:
    """Decode as Python does, or as UTF-8 if the file is not Python; raises UnicodeError or LookupError."""
    if python:
        bom, encoding = _encoding_of(data)
    else:
        # a byte-order mark takes a column there, as in the reader of that file
        bom, encoding = b"", "utf-8"
    text = data[len(bom) :].decode(encoding)
    lines = []
    start = 0
    ends: dict[str, int] = {}
    for match in (_LINE_END if python else _OTHER_LINE_END).finditer(text):
        lines.append((start, match.start()))
        start = match.end()
        ends[match[0]] = ends.get(match[0], 0) + 1
    lines.append((start, len(text)))
    return _FileText(text, tuple(lines), encoding, bom, max(ends, key=lambda end: ends[end]) if ends else "\n")


def _encoding_of(data: bytes) -> tuple[bytes, str]:
    """The mark of the order of bytes in front, and the encoding that the first two lines declare."""
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    for line in data[len(bom) :].splitlines()[:2]:
        cookie = _COOKIE.match(line)
        if cookie is not None:
            return bom, codecs.lookup(cookie[1].decode("ascii")).name
        if line.strip() and not line.lstrip().startswith(b"#"):
            break
    return bom, "utf-8"


def _span(edit: Edit, text: _FileText) -> _Span | None:
    """Where an edit stands; None where it is outside of the text."""
    offsets = []
    for line, column in ((edit.line, edit.column), (edit.end_line, edit.end_column)):
        if (line, column) == (len(text.lines) + 1, 1):  # behind a last line without an end
            offsets.append(len(text.text))
            continue
        if not 1 <= line <= len(text.lines):
            return None
        start, end = text.lines[line - 1]
        if not 1 <= column <= end - start + 1:
            return None
        offsets.append(start + column - 1)
    if offsets[1] < offsets[0]:
        return None
    return _Span(offsets[0], offsets[1], _LINE_END.sub(lambda _: text.newline, edit.text))


def _written(text: _FileText, spans: Iterable[_Span]) -> bytes:
    parts = []
    position = 0
    for span in sorted(spans):
        parts.append(text.text[position : span.start])
        parts.append(span.text)
        position = span.end
    parts.append(text.text[position:])
    return text.bom + "".join(parts).encode(text.encoding)


def _diff_lines(text: _FileText) -> list[str]:
    starts = [start for start, _ in text.lines]
    ends = [*starts[1:], len(text.text)]
    return [text.text[start:end] for start, end in zip(starts, ends, strict=True) if end > start]
