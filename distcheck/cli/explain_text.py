"""What ``distcheck explain`` prints: the page of a rule, by its code, its name, or the text of an error message.

A text is judged as ``distcheck log`` judges a log. What no log rule knows is searched on the pages. The module does not
import click, and imports others only for texts that need them.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from distcheck.core.checker import load_plug_ins
from distcheck.core.model import Rule, page_url
from distcheck.core.patterns import lazy
from distcheck.core.redaction import mask_all, mask_forms
from distcheck.core.rule_page import read_page
from distcheck.core.signature import Signature
from distcheck.reporters import escape
from distcheck.rules import find, known, look_up
from distcheck.rules.error_messages import find_by_message, is_part
from distcheck.rules.shorthand import shorthand

if TYPE_CHECKING:
    from distcheck.checks.logs.known_causes import KnownCause
    from distcheck.checks.logs.matching import Matcher

#: How many rules a pasted text may lead to.
_MOST_MATCHES = 3
#: Longer texts are logs: ``distcheck log`` reads them in bounded memory. In bytes.
_LONGEST_TEXT = 1 << 20
#: In characters.
_SHORT_TEXT = 4000
_CONSEQUENCE = "The text is a consequence, not the cause"
_NO_RULE = "No rule describes this failure"
_LOG_OF_ALL = "let 'distcheck log FILE' find the cause in the logs of all ranks"
_SHORTHAND = "These words fit several messages, and decide none."
_WHOLE_LINE = "paste the line that names the error, or run 'distcheck log FILE' on the whole log"
_NOTICE = f"The text is a notice: such a line alone ends no job.\nfix: if the job failed, {_LOG_OF_ALL}"
_UNDECIDED = f"The text shows that something failed, and not why.\nfix: read the lines around it, or {_LOG_OF_ALL}"
#: What word processors and web pages make of the ASCII characters of a message.
_ASCII = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\xa0": " ", "\u200b": None})
_DASH = lazy(r"(?<!\S)[–—](?=[a-z])")
#: The last line of a traceback: it ends a process, whatever it is about.
_EXCEPTION = lazy(r"\b[A-Z]\w*(?:Error|Exception):\s")
#: A line that its logger wrote at the level INFO or DEBUG: torch's C++ code, glog, or Python's logging.
_OF_A_LOW_LEVEL = lazy(
    r"\s*(?:\[rank\d+\]: ?)?(?:\[[ID](?:\d{3,4} [\d:.]+)? [\w./]+\.cpp:\d+\]|I\d{4} [\d:.]+ +\d+ \S+:\d+\]"
    r"|(?:INFO|DEBUG):)"
)
_SPEAKS_OF_A_FAILURE = lazy(r"(?i)error|exception|fail|\bfault|abort|kill|died|timed? ?out|terminat")
#: What stands for the rest of a shortened line.
_ELLIPSIS = ("…", "...")
#: What is meant as a code or a name, also where it is none.
_CODE_OR_NAME = lazy(r"\s*(?:[A-Za-z]{2}\d+|\w+(?:-\w+)+)\s*")
#: Marks of a quotation or a frame before a line.
_QUOTED = lazy(r"^[^\S\n]*(?:[>|│][^\S\n]?)+", re.MULTILINE)


class Answer(NamedTuple):
    """What a text leads to."""

    rules: tuple[Rule, ...] = ()
    #: the message of each rule that the text fits; empty for a code or a name
    matched: tuple[str, ...] = ()
    #: what the line shows and what to do, if no rule is its cause
    verdict: str = ""
    #: what ``distcheck log`` reports for the first rule: its message, and the fix for this case
    why: str = ""
    fix: str = ""


class UnknownText(Exception):  # noqa: N818 - what the user typed, not a failure of ours
    """No rule knows a text. The message is one line for the user."""


def answered(texts: Iterable[str], output_format: str = "full") -> str:
    """Return what ``distcheck explain`` prints for codes, names and texts of error messages.

    :raises UnknownRule: if a text looks like a code or a name, and is none
    :raises UnknownText: if no rule and no known cause fits another text
    """
    load_plug_ins()
    found = [explain_text(sys.stdin.read(_LONGEST_TEXT) if text == "-" else text) for text in texts]
    answers = mask_all(found)
    return _json(answers) if output_format == "json" else "\n".join(map(_full, answers))


def explain_text(text: str) -> Answer:
    """Return the rules of a code, a name or the text of an error message.

    :raises UnknownRule: if it looks like a code or a name, and is none
    :raises UnknownText: if no rule and no known cause fits
    """
    rule = find(text) if _CODE_OR_NAME.fullmatch(text) else look_up(text)
    if rule is not None:
        return Answer((rule,))
    verdict = Answer()
    for spelling in _spellings(text):
        answer = _as_log(spelling)
        if answer.rules and not answer.verdict:
            return _joined(answer, _on_pages(spelling))
        if _certainty(answer.verdict) > _certainty(verdict.verdict):
            verdict = answer
    pages = next((answer for answer in map(_on_pages, _spellings(text)) if answer.rules or answer.verdict), Answer())
    if pages.rules and (
        verdict.verdict in ("", _NOTICE)
        # no log shows these
        or (verdict.verdict == _UNDECIDED and not any("log" in rule.ways for rule in pages.rules))
    ):
        return pages
    if verdict.verdict == _NOTICE and _EXCEPTION.search(text):
        verdict = verdict._replace(verdict=_UNDECIDED)
    if verdict.verdict:
        return _joined(verdict, pages)
    if pages.verdict:
        return pages
    words = shorthand(text)
    if words is not None:
        return _of_rules(words.codes, "")._replace(verdict=f"{_SHORTHAND}\n{words.search_for}\nfix: {_WHOLE_LINE}")
    if _OF_A_LOW_LEVEL.match(text) and not _SPEAKS_OF_A_FAILURE.search(text):
        return Answer(verdict=_NOTICE)
    # masked before it is cut: the rest of a credential would have no form
    shown = mask_forms(text.strip())[:60]
    raise UnknownText(f"no rule knows the message {escape(shown)!r}; {_WHOLE_LINE}")


def _certainty(verdict: str) -> int:
    """Return how much a verdict shows: that a cause has no rule, that there is another one, less, or nothing."""
    if verdict.startswith((_NO_RULE, _CONSEQUENCE)):
        return 3 + verdict.startswith(_NO_RULE)
    return ("", _NOTICE, _UNDECIDED).index(verdict)


def _spellings(text: str) -> Iterator[str]:
    """Return a pasted text as it is, then without what a web page, a quotation or a terminal made of it."""
    from distcheck.checks.logs.prefixes import ESCAPES
    from distcheck.checks.logs.tracebacks import raised_by

    plain = unicodedata.normalize("NFKC", _unescaped(ESCAPES.sub("", text))).translate(_ASCII)
    if "%20" in plain:
        from urllib.parse import unquote

        plain = unquote(plain)
    plain = _QUOTED.sub("", _DASH.sub("--", plain))
    # terminals wrap long lines between words, or anywhere
    lines = plain.splitlines()
    yield from dict.fromkeys(filter(None, (text, plain, " ".join(plain.split()), "".join(lines), raised_by(plain))))


def _unescaped(text: str) -> str:
    """Return a text without what HTML makes of its characters."""
    if "&" not in text:
        return text
    import html

    return html.unescape(text)


def _as_log(text: str) -> Answer:
    """Return what ``distcheck log`` finds in a text: the rules of the cause, or why there is none."""
    from distcheck.checks.logs.diagnose import diagnose, timeline_of
    from distcheck.checks.logs.known_causes import KNOWN_CAUSES
    from distcheck.checks.logs.leading_rows import ERROR_LINE
    from distcheck.checks.logs.model import LogSource
    from distcheck.checks.logs.reading import SourceReader, matcher_of, signatures
    from distcheck.rules.signatures import Kind

    rows = signatures()
    reader = SourceReader(LogSource("text"), (_matcher_of_short_texts if len(text) < _SHORT_TEXT else matcher_of)(rows))
    reader.feed(text.encode("utf-8", "replace") + b"\n")
    timeline = timeline_of([reader.reading()])
    report = diagnose(timeline)
    story = report.story
    seen = sorted({(event.kind, event.signature) for event in timeline.events})
    names = [name for _, name in seen]
    if story.get("code") is not None:
        codes = [story["code"], *_codes_of(rows, [name for kind, name in seen if kind <= Kind.FAILURE])]
        return _of_rules(codes, story["first"]["text"])._replace(why=story["why"], fix=_fix_of(story))
    if story["outcome"] == "clean" or names == [ERROR_LINE]:
        known = next((KNOWN_CAUSES[name] for name in names if name in KNOWN_CAUSES), None)
        if known is not None:
            return Answer(verdict=_of_known(known))
        notices = _codes_of(rows, [name for kind, name in seen if kind is Kind.NOTICE])
        return _of_rules(notices, text.strip())._replace(verdict=_NOTICE) if notices else Answer()
    if story["outcome"] == "consequences":
        verdict = (
            f"{_CONSEQUENCE}: {story['why']}.\n"
            "'distcheck log FILE' finds the rank that failed first in the logs of all ranks.\n"
            f"fix: {_fix_of(story)}"
        )
    elif story["name"] is not None or story["first"]["signature"] == "ended":
        why = story["first"]["text"] if story["name"] is None else story["why"]
        verdict = f"{_NO_RULE}: {why}.\nfix: {_fix_of(story)}"
    else:
        verdict = _UNDECIDED
    return _of_rules(_codes_of(rows, names), story["first"]["text"])._replace(verdict=verdict)


@functools.lru_cache(maxsize=1)
def _matcher_of_short_texts(rows: tuple[Signature, ...]) -> Matcher:
    """Return a matcher without RE2: compiling all patterns for it takes longer than a short text."""
    from distcheck.checks.logs.matching import Matcher

    return Matcher(rows, engine="re")


def _codes_of(rows: Iterable[Signature], names: Iterable[str]) -> list[str]:
    """Return the rules that signatures may lead to, in the order of their names."""
    codes = {row.name: row.codes for row in rows}
    return [code for name in names for code in codes.get(name, ())]


def _fix_of(story: Mapping[str, Any]) -> str:
    text, command = story["fix"]["text"], story["fix"]["command"]
    return f"{text}\n     {command}" if command else str(text)


def _on_pages(text: str) -> Answer:
    """Return the rules whose pages or signatures hold a message that the text holds, is a part of, or ends within."""
    from distcheck.checks.logs.patterns import ends_within
    from distcheck.rules.signatures import every as every_signature

    known_rules = known()
    matches = {match.code: match.message for match in find_by_message(text, known_rules.values())}
    rows: dict[str, tuple[Signature, str]] = {}
    for row in every_signature():
        example = next((example for example in row.examples if is_part(text, example)), None)
        if example is not None:
            rows.setdefault(row.name, (row, example))
    cut_off = not matches and not rows and len(text) < _SHORT_TEXT
    if cut_off:
        rest = text.rstrip()
        for ellipsis in _ELLIPSIS:
            rest = rest.removesuffix(ellipsis).rstrip()
        rows = {row.name: (row, row.examples[0]) for row in every_signature() if ends_within(rest, row.pattern)}
    if not matches and len(rows) <= _MOST_MATCHES:
        # a part of more is in any log
        matches = {code: example for row, example in rows.values() for code in row.codes}
    kept = list(matches)[:_MOST_MATCHES]
    answer = Answer(tuple(known_rules[code] for code in kept), tuple(matches[code] for code in kept))
    verdicts = {_of_a_part(row) for row, _ in rows.values()}
    if len(verdicts) == 1 and len(rows) <= _MOST_MATCHES:
        answer = answer._replace(verdict=verdicts.pop())
    if cut_off and len(rows) > 1 and answer.rules and not answer.verdict:
        # it may go on as each of them
        answer = answer._replace(verdict=_UNDECIDED)
    return answer


def _of_known(cause: KnownCause) -> str:
    return f"{_NO_RULE}: {cause.meaning}.\nfix: {cause.hint}"


def _of_a_part(row: Signature) -> str:
    """Return what a part of a line means if that is no rule, or an empty text."""
    from distcheck.checks.logs.known_causes import KNOWN_CAUSES
    from distcheck.rules.signatures import Kind

    known = KNOWN_CAUSES.get(row.name)
    if known is not None and not row.codes:
        return _of_known(known)
    if Kind.TIMEOUT <= row.kind <= Kind.TABLE and (not row.codes or row.kind is Kind.LOST):
        return f"{_CONSEQUENCE}: another line shows what failed first.\nfix: {_LOG_OF_ALL}"
    return ""


def _of_rules(codes: Iterable[str], message: str) -> Answer:
    every = known()
    found = tuple(every[code] for code in dict.fromkeys(codes) if code in every)
    return Answer(found, (message,) * len(found))


def _joined(first: Answer, other: Answer) -> Answer:
    """Return the rules of both, those of the first before the others, each once."""
    pairs = dict(zip(reversed((*first.rules, *other.rules)), reversed((*first.matched, *other.matched)), strict=True))
    kept = list(dict.fromkeys((*first.rules, *other.rules)))[:_MOST_MATCHES]
    return first._replace(rules=tuple(kept), matched=tuple(pairs[rule] for rule in kept))


def _full(answer: Answer) -> str:
    """Return the verdict or the pages, one after the other; several are listed before them."""
    listed = "".join(f"  {rule.code}  {rule.summary}\n" for rule in answer.rules)
    if answer.verdict:
        possible = f"\nIt can follow from:\n{listed}" if answer.rules else ""
        return f"{escape_lines(answer.verdict)}\n{possible}"
    head = f"{len(answer.rules)} rules fit; their pages follow:\n{listed}\n" if len(answer.rules) > 1 else ""
    case = f"{escape(answer.why)}\nfix: {escape_lines(answer.fix)}\n" if answer.why else ""
    cases = (case, *[""] * len(answer.rules))
    matched = answer.matched or ("",) * len(answer.rules)
    return head + "\n".join(map(_page, answer.rules, matched, cases))


def escape_lines(text: str) -> str:
    """Return a text with visible control characters, except for its line breaks."""
    return "\n".join(map(escape, text.splitlines()))


def _page(rule: Rule, message: str, case: str) -> str:
    page = read_page(rule.code)
    lines = [f"The text fits {rule.code}: {escape(message)}\n{case}"] if message else []
    lines.append(f"# {rule.code} {rule.name}\n\n{rule.summary}.\n" if page is None else page.text.rstrip() + "\n")
    ways = ", ".join(rule.ways)
    lines.append(f"Severity: {' or '.join(level.word for level in rule.severities)} · seen by: {ways}\n")
    return "\n".join(lines)


def _json(answers: list[Answer]) -> str:
    import json

    rows: list[dict[str, Any]] = []
    for answer in answers:
        if answer.verdict:
            rows.append({"code": None, "verdict": answer.verdict, "possible": [rule.code for rule in answer.rules]})
            continue
        matched = answer.matched or (None,) * len(answer.rules)
        pages = [_plain(rule, message) for rule, message in zip(answer.rules, matched, strict=True)]
        # what the text itself shows is about the first rule
        pages[0].update(why=answer.why or None, fix=answer.fix or None)
        rows.extend(pages)
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
        "why": None,
        "fix": None,
        "sections": {} if page is None else page.sections,
        "messages": [] if page is None else list(page.messages),
        "url": page_url(rule.code),
    }
