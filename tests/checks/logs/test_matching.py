"""Both engines find the same lines and the same groups: in the examples of all rows, in real forms of text, in noise."""

from __future__ import annotations

import random
import re
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.logs import matching
from distcheck.checks.logs.matching import LONGEST_LINE, Matcher, pattern_key
from distcheck.checks.logs.patterns import (
    coarse,
    ends_within,
    for_python,
    required_literals,
    tokens_of,
    without_captures,
)
from distcheck.checks.logs.reading import signatures
from distcheck.core.signature import Kind, Signature
from distcheck.rules.signatures.literals import LITERALS

pytest.importorskip("re2")

ROWS = signatures()
ENGINES = {engine: Matcher(ROWS, engine=engine) for engine in ("re2", "re")}
EXAMPLES = [example for row in ROWS for example in row.examples]


def row(pattern: str, name: str = "x") -> Signature:
    return Signature(name, Kind.CAUSE, pattern, ())


def found(rows: list[Signature], text: bytes, engine: str) -> list[tuple[bytes, list[tuple[int, dict[str, str]]]]]:
    matcher = Matcher(rows, engine=engine)
    return [(text[start:end], matcher.fitting(text[start:end])) for start, end in matcher.spans(text)]


def both(rows: list[Signature], text: bytes) -> list[tuple[bytes, list[tuple[int, dict[str, str]]]]]:
    first, second = (found(rows, text, engine) for engine in ("re2", "re"))
    assert first == second
    return first


@pytest.mark.parametrize("engine", ENGINES)
def test_every_row_is_in_the_syntax_that_both_engines_read(engine: str) -> None:
    assert not ENGINES[engine].broken()


@pytest.mark.parametrize("signature", ROWS, ids=lambda one: one.name)
def test_a_row_keeps_to_the_rules(signature: Signature) -> None:
    pattern = signature.pattern
    tokens = list(tokens_of(pattern.removeprefix("(?i)")))
    for token in tokens:
        assert token.kind != "open" or token.raw in ("(", "(?:") or token.raw.startswith("(?P<"), token.raw
        assert token.kind != "other" or token.raw in (".", "\\d", "\\D", "\\w", "\\W", "\\S"), token.raw
        assert token.kind != "literal" or token.text != "\n"
        assert token.kind != "class" or ("[:" not in token.raw[1:] and ("\\n" not in token.raw or token.raw[1] == "^"))
    assert "{," not in pattern and not pattern.startswith(".*")
    # a quantifier or a class would take one of its bytes alone
    assert not re.search(r"[^\x00-\x7f][*+?{]|\[[^\]]*[^\x00-\x7f]", pattern)
    literals, _ = required_literals(pattern)
    assert literals, "no text is required"
    assert min(map(len, literals)) >= 4, literals


@pytest.mark.parametrize("signature", ROWS, ids=lambda one: one.name)
def test_a_row_fits_its_examples_with_equal_groups(signature: Signature) -> None:
    assert signature.examples
    number = ROWS.index(signature)
    literals, exact = required_literals(signature.pattern)
    for example in signature.examples:
        line = example.encode()
        fits = [dict(matcher.fitting(line)) for matcher in ENGINES.values()]
        assert fits[0] == fits[1]
        assert number in fits[0], example
        assert any(literal in (line if exact else line.lower()) for literal in literals)


def test_engines_agree_on_a_text_of_all_examples_among_noise() -> None:
    lines = [f"[rank{number % 8}]: step {number} loss 2.31".encode() for number in range(3000)]
    lines += [b"[rank3]: 2026-01-01 00:00:00 " + example.encode() for example in EXAMPLES]
    random.Random(1).shuffle(lines)
    text = b"\n".join(lines) + b"\n"
    first, second = (list(matcher.spans(text)) for matcher in ENGINES.values())
    assert first == second
    seen = {text[start:end] for start, end in first}
    assert all(any(example.encode() in line for line in seen) for example in EXAMPLES if "\n" not in example)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_engines_agree_on_damaged_examples(data: st.DataObject) -> None:
    example = data.draw(st.sampled_from(EXAMPLES)).encode()
    cut = data.draw(st.integers(0, len(example)))
    filler = data.draw(st.binary(max_size=8))
    line = (example[:cut] + filler + example[cut + data.draw(st.integers(0, 4)) :]).replace(b"\n", b" ")
    first, second = (matcher.fitting(line) for matcher in ENGINES.values())
    assert first == second
    text = line + b"\n"
    spans = [list(matcher.spans(text)) for matcher in ENGINES.values()]
    assert spans[0] == spans[1]
    assert bool(spans[0]) == bool(first)


PIECES = st.sampled_from(
    ["abcd", "port ", r"\d+", r"\d{1,5}", r"(?P<a>\w+)", r"(?:x|yy)?", r"\s", "[^']{0,300}", ".{0,40}", r"\b", "e+", r"\.",
     "(?:abcd|bcda)", r"(?P<b>[a-c]{2,3})?", "d?", r"[\s\d]*", "x*?", "(ab)", "|"]
)  # fmt: skip
LETTERS = st.text("abcdeABCDxy10' .\t\r\v\x85\xe9port", max_size=60)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=6), st.lists(LETTERS, max_size=8), st.booleans())
def test_engines_agree_on_any_pattern_and_text(pieces: list[str], lines: list[str], ignore_case: bool) -> None:
    # RE2 and re both refuse a repetition of nothing in some places, and that is not what is asked here
    pattern = ("(?i)" if ignore_case else "") + "".join(dict.fromkeys(pieces))
    text = "\n".join(lines).encode("latin-1") + b"\n"
    rows = [row(pattern)]
    if any(Matcher(rows, engine=engine).broken() for engine in ENGINES):
        return
    both(rows, text)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=6), st.lists(LETTERS, min_size=1, max_size=8), st.booleans())
def test_what_a_pattern_requires_and_its_coarse_form_hold_for_all_that_it_fits(
    pieces: list[str], lines: list[str], ignore_case: bool
) -> None:
    pattern = ("(?i)" if ignore_case else "") + "".join(dict.fromkeys(pieces))
    exact = re.compile(for_python(pattern).encode())
    loose = re.compile(for_python(coarse(pattern)).encode())
    literals, as_is = required_literals(pattern)
    for line in (line.encode("latin-1") for line in lines):
        if exact.search(line):
            assert loose.search(line)
            assert not literals or any(literal in (line if as_is else line.lower()) for literal in literals)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"port (?P<port>\d+) is taken", {b" is taken"}),
        (r"colou?r red", {b"r red"}),
        (r"abc|defg", {b"abc", b"defg"}),
        (r"(?:Disk quota exceeded|No space left)(?:: x)?", {b"Disk quota exceeded", b"No space left"}),
        (r"(?:long text that is optional)?ab", {b"ab"}),
        (r"a{2}b", {b"a"}),
        (r"x{0,3}yz", {b"yz"}),
        (r"\[rank\d+\]: \(a\)", {b"]: (a)"}),
        (r"(?i)Some Text", {b"some text"}),
        (r"\d+|\w+", set()),
    ],
)
def test_required_literals(pattern: str, expected: set[bytes]) -> None:
    assert required_literals(pattern)[0] == expected


def test_captures_are_taken_out_and_nothing_else() -> None:
    assert without_captures(r"(?i)(?P<a>x)\((y)[(](?:z)") == r"(?i:(?:x)\((?:y)[(](?:z))"


def test_a_line_is_given_once_and_a_class_does_not_run_over_its_end() -> None:
    rows = [row(r"begin[^x]{1,50}end"), row("begin of it")]
    assert [line for line, _ in both(rows, b"begin \n end\nbegin of it begin a end\n\nend\n")] == [
        b"begin of it begin a end"
    ]


def test_rows_without_a_say_are_not_looked_for() -> None:
    for engine in ENGINES:
        matcher = Matcher([row("first one"), row("second one")], engine=engine)
        text = b"first one\nsecond one\n"
        assert [text[a:b] for a, b in matcher.spans(text, without=frozenset({0}))] == [b"second one"]
        assert list(matcher.spans(text, without=frozenset({0, 1}))) == []
        assert [text[a:b] for a, b in matcher.spans(text, 10)] == [b"second one"]


def test_a_line_without_an_end_is_looked_at_in_pieces() -> None:
    rows = [row(r"needle (?P<number>\d+)")]
    text = b"x" * 100_000 + b" needle 7 " + b"y" * 100_000 + b" needle 8\n"
    result = both(rows, text)
    assert all(len(line) <= LONGEST_LINE for line, _ in result)
    assert {fits[0][1]["number"] for _, fits in result} == {"7", "8"}


def test_a_row_that_cannot_be_compiled_is_named_and_the_others_work() -> None:
    rows = [row("broken (", "bad"), row("sound text")]
    for engine in ENGINES:
        matcher = Matcher(rows, engine=engine)
        assert [one.name for one, _ in matcher.broken()] == ["bad"]
        assert [one.pattern for one, _ in matcher.identify(b"a sound text")] == ["sound text"]
        assert len(list(matcher.spans(b"a sound text\n"))) == 1


def test_no_rows_find_nothing() -> None:
    assert both([], b"anything\n") == []


def test_without_re2_the_other_engine_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert Matcher([row("some text")]).engine == "re"


def test_non_ascii_text_is_found_as_its_bytes() -> None:
    assert both([row("file ‘(?P<name>[^’]+?)’ is gone")], "file ‘ä.pt’ is gone\n".encode())[0][1] == [
        (0, {"name": "ä.pt"})
    ]


def test_the_module_imports_re2_only_when_it_is_used() -> None:
    source = Path(matching.__file__).read_text(encoding="utf-8")
    assert not re.search(r"^import re2", source, re.MULTILINE)


def test_another_module_by_the_name_of_re2_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Matcher(ROWS[:1]).engine == "re2"
    other = types.ModuleType("re2")
    other.__dict__.update(compile=re.compile, Set=object)
    monkeypatch.setitem(sys.modules, "re2", other)
    assert Matcher(ROWS[:1]).engine == "re"
    monkeypatch.setitem(sys.modules, "re2", None)
    assert Matcher(ROWS[:1]).engine == "re"


@pytest.mark.parametrize(
    ("text", "pattern", "within"),
    [
        ("[rank3]: RuntimeError: the store at node01 was cl", r"RuntimeError: the store at \w+ was closed", True),
        # the same words, and the text goes on
        ("RuntimeError: the store at node01 was clean", r"RuntimeError: the store at \w+ was closed", False),
        # an alternative, and no other
        ("the store of the group refused a ke", r"the store of the group refused a (?:key|value)", True),
        ("the store of the group refused a lo", r"the store of the group refused a (?:key|value)", False),
        # too few characters of the pattern
        ("the store of th", r"the store of the group refused", False),
        ("THE STORE OF THE GROUP refu", r"(?i)the store of the group refused", True),
        ("THE STORE OF THE GROUP refu", r"the store of the group refused", False),
        # what the pattern can do without is in other lines as well
        ("the watchdog of the group ended wi", r"(?:the watchdog of the group ended with )?a timeout", False),
    ],
)
def test_a_text_that_is_cut_off_within_a_pattern(text: str, pattern: str, within: bool) -> None:
    assert ends_within(text, pattern) is within


def test_the_table_holds_what_each_row_requires_and_nothing_else() -> None:
    """Otherwise an engine without RE2 passes over lines: run tools/make_rules.py."""
    patterns = {row.pattern.encode().decode("latin-1") for row in ROWS}
    made = {pattern_key(pattern): required_literals(pattern) for pattern in patterns}
    assert len(made) == len(patterns)
    assert {key: (frozenset(texts), exact) for key, (texts, exact) in LITERALS.items()} == made


def test_lines_that_differ_in_their_digits_have_their_own_values() -> None:
    """The places of the groups are found once for each shape: another line of it has other digits there."""
    for row in ROWS:
        for example in row.examples:
            ENGINES["re2"].fitting(example.encode())
            other = example.translate(str.maketrans("0123456789", "7913528640")).encode()
            assert dict(ENGINES["re2"].fitting(other)) == dict(ENGINES["re"].fitting(other)), row.pattern
