"""``distcheck explain``: the page of a rule, by its code, its name, or the text of an error message."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import click

from distcheck.core.checker import load_plug_ins
from distcheck.core.model import Rule, page_url
from distcheck.core.rule_page import read_page
from distcheck.rules import UnknownRule, find, known
from distcheck.rules.error_messages import Match, find_by_message

from . import output

#: How many rules a pasted text may lead to, and how many where the last of these fit it as well as those before.
_MOST_MATCHES, _MOST_EQUAL = 3, 6


@click.command()
@click.argument("texts", metavar="CODE|NAME|'ERROR TEXT' …", nargs=-1, required=True)
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
def command(texts: tuple[str, ...], output_format: str) -> int:
    """Print what a rule detects, why it matters and how to fix it.

    A text that is neither a code nor a name is searched among the error messages that the rules know:
    distcheck explain "environment variable RANK expected, but not set". A lone - reads it from standard input.
    """
    load_plug_ins()
    pages: list[tuple[Rule, Match | None]] = []
    for text in texts:
        pages.extend(_look_up(sys.stdin.read() if text == "-" else text))
    output.to_stdout(_json(pages) if output_format == "json" else _several(pages))
    return output.CLEAN


def _look_up(text: str) -> list[tuple[Rule, Match | None]]:
    try:
        return [(find(text), None)]
    except UnknownRule as error:
        if re.fullmatch(r"\s*[A-Za-z]{2}\d+\s*|\s*[\w]+(?:-[\w]+)+\s*", text):
            raise click.UsageError(str(error)) from None
    rules = known()
    matches = find_by_message(text, rules.values())
    if not matches:
        raise click.UsageError(
            f"no rule knows the message {text.strip()[:60]!r}; "
            "paste the line that names the error, or see 'distcheck rules'"
        )
    last = matches[:_MOST_MATCHES][-1].score
    kept = [match for number, match in enumerate(matches) if number < _MOST_MATCHES or match.score == last]
    return [(rules[match.code], match) for match in kept[:_MOST_EQUAL]]


def _several(pages: list[tuple[Rule, Match | None]]) -> str:
    """The pages one below the other; where a text leads to more than one, which they are stands before them."""
    text = "\n\n".join(_full(*page) for page in pages) + "\n"
    if len(pages) == 1 or all(match is None for _, match in pages):
        return text
    listed = "".join(f"  {rule.code}  {rule.summary}\n" for rule, _ in pages)
    return f"{len(pages)} rules fit; their pages follow:\n{listed}\n{text}"


def _full(rule: Rule, match: Match | None) -> str:
    page = read_page(rule.code)
    lines = []
    if match is not None:
        lines.append(f"The text fits {rule.code}: {match.message}\n")
    if page is None:
        lines.append(f"# {rule.code} {rule.name}\n\n{rule.summary}.\n")
    else:
        lines.append(page.text.rstrip() + "\n")
    ways = ", ".join(rule.ways)
    lines.append(f"Severity: {' or '.join(level.word for level in rule.severities)} · seen by: {ways}")
    return "\n".join(lines)


def _json(pages: list[tuple[Rule, Match | None]]) -> str:
    return json.dumps([_plain(*page) for page in pages], indent=2) + "\n"


def _plain(rule: Rule, match: Match | None) -> dict[str, Any]:
    page = read_page(rule.code)
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary,
        "severities": [level.word for level in rule.severities],
        "ways": list(rule.ways),
        "matched": None if match is None else match.message,
        "sections": {} if page is None else page.sections,
        "messages": [] if page is None else list(page.messages),
        "url": page_url(rule.code),
    }
