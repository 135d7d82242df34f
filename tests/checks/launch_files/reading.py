"""Reads a text as a launch file and shows what stands at its spans, for the tests of the readers."""

from __future__ import annotations

from collections.abc import Mapping

from distcheck.checks.launch_files.files import kind_of, read_file
from distcheck.checks.launch_files.model import FileSetting, LaunchFile
from distcheck.core.spans import Span


def read(path: str, text: str | bytes, others: Mapping[str, str] = {}) -> LaunchFile:
    """The file as it is read, by its name and content, beside others that it may name."""
    data = text if isinstance(text, bytes) else text.encode()
    kind = kind_of(path, data, include_markdown=True)
    assert kind is not None
    known = {name: content.encode() for name, content in others.items()}
    return read_file(path, data, kind, known.get)


def shown(text: str, span: Span) -> str:
    """What stands in a text at a span."""
    lines = text.split("\n")
    if span.line == span.end_line:
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]
    first, last = lines[span.line - 1][span.column - 1 :], lines[span.end_line - 1][: span.end_column - 1]
    return "\n".join([first, *lines[span.line : span.end_line - 1], last])


def commands(file: LaunchFile) -> list[str]:
    """The launch lines as they are understood."""
    return [" ".join(word.text for word in site.words) for site in file.sites]


def values(settings: Mapping[str, FileSetting]) -> dict[str, str | None]:
    return {name: setting.value for name, setting in settings.items()}


def check_places(text: str, file: LaunchFile) -> None:
    """Words that are as they stand in the file stand where their spans say, and variables as well."""
    for site in file.sites:
        for word in site.words:
            if word.span.line == word.span.end_line:
                assert shown(text, word.span) == word.written
    for setting in file.settings:
        assert shown(text, setting.name_span) == setting.name
        if setting.value_span is not None and setting.value_span.line == setting.value_span.end_line:
            assert shown(text, setting.value_span) == setting.written
        assert setting.name in shown(text, setting.span)
