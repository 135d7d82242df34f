"""The verdicts about pickles and checkpoints as a table: which file may be loaded, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distcheck.core.model import Report, size_text
from distcheck.reporters.pickle_verdicts import EACH, WORDS

from .parts import badge, folded, marked_table, prose, section, text

_KINDS = {
    "dangerous": "error",
    "malformed": "error",
    "incomplete": "odd",
    "needs-allow-listing": "warning",
    "safe": "good",
}
_CAPTION = "Each file, worst first"
_HEADS = ("file", "verdict", "what loading it does", "format", "size")


def verdicts(report: Report) -> Iterator[str]:
    """A row for each file, worst first; where there are many, those that are safe are folded."""
    files: Sequence[Mapping[str, Any]] = report.subject["verdicts"]
    if not files:
        return
    yield from section("verdicts", "Verdicts", _tables(files))


def _tables(files: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    safe = [file for file in files if file["verdict"] == "safe"]
    apart = len(files) > EACH and len(safe) > 1
    shown = [file for file in files if file["verdict"] != "safe"] if apart else files
    if shown:
        yield from marked_table(_CAPTION, _HEADS, map(_row, shown), flush_left=range(4))
    if apart:
        yield folded(
            f"{len(safe):,} safe files", "".join(marked_table(_CAPTION, _HEADS, map(_row, safe), flush_left=range(4)))
        )


def _row(file: Mapping[str, Any]) -> tuple[str, ...]:
    # "dangerous: …" and "malformed: …" begin with the verdict, which has its own column
    verdict = file["verdict"]
    sentence = str(file["sentence"])
    parts = [prose(sentence.removeprefix(f"{verdict}: ") if _KINDS[verdict] == "error" else sentence)]
    if file["confirmation"] is not None:
        answer = f": {file['confirmation']}" if file["confirmation"] else " agrees"
        parts.append(f'<span class="soft">torch.load{text(answer)}</span>')
    parts += [f'<span class="soft">not checked: {text(item)}</span>' for item in file["unopened"]]
    return (
        text(file["path"]),
        badge(WORDS[verdict], _KINDS[verdict]),
        "<br>".join(parts),
        text(file["format"]),
        text(size_text(file["size_bytes"])),
    )
