"""What pages are made of: escaped text, tables, folded parts, commands to copy.

Whatever comes from a report goes through :func:`text`, :func:`lines` or :func:`prose`; the other functions take markup
where their parameter is one, and values elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape as escape_html

from distcheck.core.model import page_url
from distcheck.core.patterns import lazy
from distcheck.reporters import escape, rank_grid, text_parts

#: In a sentence: a piece of code, as messages and fixes mark it, or an option, which must not be broken at its hyphens.
_SPECIAL = lazy(r"(?<!`)`(?! )([^`\n]+)(?<! )`(?!`)|(?<![\w-])(--[A-Za-z][\w-]*)")
#: Codes whose pages are in our documentation; those of plug-ins are described elsewhere.
_OURS = lazy(r"DC[0-9]{3}")
#: Longest value that a page shows, in characters; JSON has all of it.
LONGEST = 2000


def text(value: object) -> str:
    """A value as text of the page: nothing in it is markup, and control characters are visible."""
    return escape_html(escape(str(value)))


def lines(value: str) -> str:
    """A text of several lines, for ``pre``."""
    return "\n".join(text(line) for line in value.splitlines())


def prose(value: object) -> str:
    """A sentence, with what stands between backquotes set as code."""
    return _SPECIAL.sub(
        lambda found: f"<code>{found[1]}</code>" if found[1] else f'<span class="option">{found[2]}</span>', text(value)
    )


def cut(value: str) -> str:
    """A value as long as a page has room for."""
    return text_parts.cut(value, LONGEST)


def code_link(code: str) -> str:
    """The code of a rule, leading to its page."""
    if _OURS.fullmatch(code) is None:
        return text(code)
    return f'<a class="rule" href="{text(page_url(code))}">{text(code)}</a>'


def badge(word: str, kind: str) -> str:
    """A word on the colour of its kind: ``error``, ``warning``, ``info``, ``good`` or ``odd``."""
    return f'<span class="badge {kind}">{text(word)}</span>'


def count_text(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``; ``info`` has no plural."""
    return f"{number:,} {noun}{'s' * (number != 1 and noun != 'info')}"


def section(identifier: str, title: str, body: Iterable[str], *, count: int | None = None) -> Iterator[str]:
    """Yield a section with a heading.

    :param body: markup
    :param count: a number after the title
    """
    number = "" if count is None else f' <span class="count">{count:,}</span>'
    yield f'<section aria-labelledby="{identifier}"><h2 id="{identifier}">{title}{number}</h2>'
    yield from body
    yield "</section>"


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    """Return a list of names and values, both markup; empty without rows."""
    body = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    return f"<dl>{body}</dl>" if body else ""


def command(value: str) -> str:
    """Return a command or code with a button that copies it."""
    return (
        f'<div class="command"><pre><code>{lines(value)}</code></pre>'
        '<button class="copy" type="button" hidden>Copy</button></div>'
    )


def folded(summary: str, body: str, *, opened: bool = False) -> str:
    """Return folded markup, which is open on paper."""
    return f"<details{' open' if opened else ''}><summary>{summary}</summary>{body}</details>"


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], *, flush_left: Collection[int] = ()
) -> Iterator[str]:
    """A table of values whose first column names its rows.

    :param flush_left: columns that hold text, which may be broken; all others hold numbers
    """
    marked_rows = ([text("-" if cell is None else cell) for cell in row] for row in rows)
    yield from marked_table(caption, heads, marked_rows, flush_left=flush_left)


def marked_table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, flush_left: Collection[int] = ()
) -> Iterator[str]:
    """:func:`table` with cells that are markup."""
    kinds = [' class="text"' if number in flush_left else "" for number in range(len(heads))]
    head = "".join(f'<th{kind} scope="col">{text(name)}</th>' for kind, name in zip(kinds, heads, strict=True))
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds[1:], rest, strict=True))
        body.append(f'<tr><th{kinds[0]} scope="row">{first}</th>{cells}</tr>')
    start = '<table class="prose">' if flush_left else "<table>"
    yield wide(
        caption,
        f"{start}<caption>{text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>",
    )


def rank_table(rows: Sequence[rank_grid.Row]) -> Iterator[str]:
    """Yield the grid of ranks by host: nothing without rows."""
    if rows:
        cells = [(text(row.host), " ".join(map(_rank, row.ranks))) for row in rows]
        yield from marked_table(rank_grid.title(rows), ("host", "ranks"), cells, flush_left=(0, 1))


def _rank(cell: tuple[int, str]) -> str:
    rank, mark = cell
    shown = text(f"{rank}{mark}")
    return f'<span class="rank">{f"<mark>{shown}</mark>" if mark in (rank_grid.AFFECTED, "A") else shown}</span>'


def wide(name: str, markup: str) -> str:
    """What scrolls by itself where it is wider than the page, also by keyboard."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{text(name)}">{markup}</div>'
