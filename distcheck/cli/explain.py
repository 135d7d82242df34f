"""``distcheck explain``: the page of a rule, by its code, its name, or the text of an error message.

A text is judged as ``distcheck log`` judges a log. What no log rule knows is searched on the pages.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import click

from distcheck.core.checker import load_plug_ins
from distcheck.core.model import Rule, page_url
from distcheck.core.rule_page import read_page
from distcheck.reporters import escape
from distcheck.rules import UnknownRule, find, known
from distcheck.rules.error_messages import find_by_message, is_part

from . import output

#: How many rules a pasted text may lead to.
_MOST_MATCHES = 3
#: Longer texts are logs: ``distcheck log`` reads them in bounded memory. In bytes.
_LONGEST_TEXT = 1 << 20


class Answer(NamedTuple):
    """What a text leads to."""

    rules: tuple[Rule, ...] = ()
    #: the message of each rule that the text fits; empty for a code or a name
    matched: tuple[str, ...] = ()
    #: what the line shows and what to do, if no rule is its cause
    verdict: str = ""


class NothingKnown(click.ClickException):
    """No rule knows a text: one line on standard error, and status 2."""

    exit_code = output.MISUSED


@click.command()
@click.argument("texts", metavar="CODE|NAME|'ERROR TEXT' …", nargs=-1, required=True)
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
def command(texts: tuple[str, ...], output_format: str) -> int:
    """Print what a rule detects, why it matters and how to fix it.

    A text that is neither a code nor a name is an error message:
    distcheck explain "environment variable RANK expected, but not set". It is judged as 'distcheck log' judges a log.
    A line that only follows from another failure is named as such. A lone - reads the text from standard input.
    """
    load_plug_ins()
    answers = [_look_up(sys.stdin.read(_LONGEST_TEXT) if text == "-" else text) for text in texts]
    output.to_stdout(_json(answers) if output_format == "json" else "\n".join(map(_full, answers)))
    return output.CLEAN


def _look_up(text: str) -> Answer:
    try:
        return Answer((find(text),))
    except UnknownRule as error:
        if re.fullmatch(r"\s*[A-Za-z]{2}\d+\s*|\s*[\w]+(?:-[\w]+)+\s*", text):
            raise click.UsageError(str(error)) from None
    answers = [_as_log(text)]
    if not answers[0].rules:
        # a terminal wraps long lines
        answers.append(_as_log(" ".join(text.split())))
    pages = _on_pages(text)
    for answer in (*answers, pages):
        if answer.rules and not answer.verdict:
            return _joined(answer, pages)
    verdict = next((answer for answer in answers if answer.verdict), None)
    if verdict is None:
        raise NothingKnown(
            f"no rule knows the message {escape(text.strip()[:60])!r}; paste the line that names the error, or run "
            "'distcheck log FILE' on the whole log"
        )
    return verdict


def _as_log(text: str) -> Answer:
    """Return what ``distcheck log`` finds in a text: the rules of the cause, or why there is none."""
    from distcheck.checks.logs.diagnose import diagnose, timeline_of
    from distcheck.checks.logs.model import LogSource
    from distcheck.checks.logs.reading import ERROR_LINE, SourceReader, matcher_of, signatures
    from distcheck.rules.signatures import Kind

    rows = signatures()
    reader = SourceReader(LogSource("text"), matcher_of(rows))
    reader.feed(text.encode("utf-8", "replace") + b"\n")
    timeline = timeline_of([reader.reading()])
    report = diagnose(timeline)
    story = report.story
    by_name = {row.name: row for row in rows}
    seen = sorted({(event.kind, event.signature) for event in timeline.events})
    codes = [code for kind, name in seen if kind <= Kind.FAILURE and name in by_name for code in by_name[name].codes]
    if story.get("code") is not None:
        return _of_rules([story["code"], *codes], story["first"]["text"])
    names = {name for _, name in seen}
    if story["outcome"] == "clean" or names == {ERROR_LINE}:
        return Answer()
    possible = [code for _, name in seen if name in by_name for code in by_name[name].codes]
    if story["outcome"] == "consequences":
        lines = [
            f"The text is a consequence, not the cause: {story['why']}.",
            "'distcheck log FILE' finds the rank that failed first in the logs of all ranks.",
        ]
    else:
        lines = [f"No rule describes this failure: {story['why']}."]
    lines.append(f"fix: {story['fix']['text']}")
    return _of_rules(possible, story["first"]["text"])._replace(verdict="\n".join(lines))


def _on_pages(text: str) -> Answer:
    """Return the rules whose pages or signatures hold a message that the text holds or is a part of."""
    from distcheck.rules.signatures import every as every_signature

    known_rules = known()
    matches = {match.code: match.message for match in find_by_message(text, known_rules.values())}
    if not matches:
        for row in every_signature():
            example = next((example for example in row.examples if is_part(text, example)), None)
            if example is not None:
                matches.update({code: example for code in row.codes if code not in matches})
    kept = list(matches)[:_MOST_MATCHES]
    return Answer(tuple(known_rules[code] for code in kept), tuple(matches[code] for code in kept))


def _of_rules(codes: Iterable[str], message: str) -> Answer:
    every = known()
    found = tuple(every[code] for code in dict.fromkeys(codes) if code in every)
    return Answer(found, (message,) * len(found))


def _joined(first: Answer, other: Answer) -> Answer:
    """Return the rules of both, those of the first before the others, each once."""
    pairs = dict(zip(reversed((*first.rules, *other.rules)), reversed((*first.matched, *other.matched)), strict=True))
    kept = list(dict.fromkeys((*first.rules, *other.rules)))[:_MOST_MATCHES]
    return Answer(tuple(kept), tuple(pairs[rule] for rule in kept))


def _full(answer: Answer) -> str:
    """Return the verdict or the pages, one after the other; several are listed before them."""
    listed = "".join(f"  {rule.code}  {rule.summary}\n" for rule in answer.rules)
    if answer.verdict:
        possible = f"\nIt can follow from:\n{listed}" if answer.rules else ""
        return f"{escape_lines(answer.verdict)}\n{possible}"
    head = f"{len(answer.rules)} rules fit; their pages follow:\n{listed}\n" if len(answer.rules) > 1 else ""
    matched = answer.matched or ("",) * len(answer.rules)
    return head + "\n".join(_page(rule, message) for rule, message in zip(answer.rules, matched, strict=True))


def escape_lines(text: str) -> str:
    """Return a text with visible control characters, except for its line breaks."""
    return "\n".join(map(escape, text.splitlines()))


def _page(rule: Rule, message: str) -> str:
    page = read_page(rule.code)
    lines = [f"The text fits {rule.code}: {escape(message)}\n"] if message else []
    lines.append(f"# {rule.code} {rule.name}\n\n{rule.summary}.\n" if page is None else page.text.rstrip() + "\n")
    ways = ", ".join(rule.ways)
    lines.append(f"Severity: {' or '.join(level.word for level in rule.severities)} · seen by: {ways}\n")
    return "\n".join(lines)


def _json(answers: list[Answer]) -> str:
    rows: list[dict[str, Any]] = []
    for answer in answers:
        if answer.verdict:
            rows.append({"code": None, "verdict": answer.verdict, "possible": [rule.code for rule in answer.rules]})
            continue
        matched = answer.matched or (None,) * len(answer.rules)
        rows.extend(_plain(rule, message) for rule, message in zip(answer.rules, matched, strict=True))
    return json.dumps(rows, indent=2) + "\n"


def _plain(rule: Rule, message: str | None) -> dict[str, Any]:
    page = read_page(rule.code)
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary,
        "severities": [level.word for level in rule.severities],
        "ways": list(rule.ways),
        "matched": message,
        "sections": {} if page is None else page.sections,
        "messages": [] if page is None else list(page.messages),
        "url": page_url(rule.code),
    }
