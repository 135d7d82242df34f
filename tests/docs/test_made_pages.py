"""The pages that are made from the package: nothing of it is missing there, and each thing can be reached."""

from __future__ import annotations

import re

import click
import pytest

from distcheck import rules
from distcheck.cli import main
from distcheck.core import registry
from distcheck.core.model import Rule
from distcheck.core.rule_page import read_page
from distcheck.rules.signatures import every

from . import documents

import command_pages  # isort: skip - found through .documents
import error_index  # isort: skip
import fact_pages  # isort: skip
import rule_pages  # isort: skip

RULES = rule_pages.pages()
COMMANDS = command_pages.pages(documents.name_of(path) for path in documents.written())
ERRORS = error_index.error_page()


@pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: rule.code)
def test_every_rule_has_its_document(rule: Rule) -> None:
    text = RULES[f"rules/{rule.code}"]
    page = read_page(rule.code)
    assert documents.titles(text) == [f"{rule.code} {rule.name}"]
    facts = re.search(r"^\{\.rule-facts\}\n(.+)$", text, re.MULTILINE)
    assert facts is not None
    assert all(f"**{level.word}**" in facts[1] for level in rule.severities)
    seeing = {command_pages_way for command_pages_way, _ in map(rule_pages.WAYS.__getitem__, rule.ways)}
    assert all((f"`distcheck {command}`" in facts[1]) == (command in main.COMMANDS) for command in seeing)
    assert page is None or all(f"## {name}\n\n{body}\n" in text for name, body in page.sections.items())
    assert f"[{rule.code}]({rule.code}.md)" in RULES[f"rules/{rule_pages.family_of(rule.code)}"]


def test_every_way_of_being_seen_is_known() -> None:
    assert {way for rule in rules.ALL for way in rule.ways} <= set(rule_pages.WAYS)
    assert {command for command, _ in rule_pages.WAYS.values()} <= set(main.COMMANDS)


def test_a_name_never_hides_another_address_of_a_rule() -> None:
    taken = {*(rule.code for rule in rules.ALL), *(rule_pages.family_of(rule.code) for rule in rules.ALL)}
    names = [rule.name for rule in rules.ALL]
    assert not taken & set(names)
    assert len(set(names)) == len(names)


def test_related_rules_know_each_other() -> None:
    related = rule_pages.related_rules(rules.ALL)
    for code, others in related.items():
        assert code not in [other.code for other in others]
        for other in others:
            assert code in [back.code for back in related[other.code]]
    assert "DC301" in [other.code for other in related["DC201"]], "both may mean 'invalid device ordinal'"


def entry(text: str) -> str:
    """The entry of a message in the index, with its links."""
    start = ERRORS.find(f"\n- {error_index.code_span(text)}\n")
    assert start >= 0, f"{text!r} is not in the index"
    return ERRORS[start : ERRORS.find("\n- ", start + 1)]


@pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: rule.code)
def test_every_message_of_a_page_is_in_the_index_and_leads_there(rule: Rule) -> None:
    page = read_page(rule.code)
    for message in () if page is None else page.messages:
        shown = message.strip("`").strip() if message.startswith("`") else message
        assert f"(rules/{rule.code}.md)" in entry(shown)


def test_every_line_of_a_log_that_leads_to_rules_is_in_the_index() -> None:
    rows = [row for row in every() if row.codes]
    assert len(rows) > 300
    for row in rows:
        for example in row.examples:
            shown = entry(" ".join(example.split()))
            assert all(f"(rules/{code}.md)" in shown for code in row.codes)


def test_the_index_holds_each_text_once() -> None:
    entries = re.findall(r"^- (`.+`)$", ERRORS, re.MULTILINE)
    assert len(entries) == len(set(entries)) == len(error_index.messages())


@pytest.mark.parametrize("text", ["plain", "a `tick` inside", "`at its begin", "two `` of them"])
def test_any_text_can_stand_as_inline_code(text: str) -> None:
    shown = error_index.code_span(text)
    fence = re.match(r"`+", shown)
    assert fence is not None
    inner = shown[len(fence[0]) : -len(fence[0])]
    assert (inner[1:-1] if inner.startswith(" `") or inner.endswith("` ") else inner) == text
    assert fence[0] not in inner


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_has_a_page_with_all_its_options(name: str) -> None:
    command = main.group.get_command(click.Context(main.group), name)
    assert command is not None
    text = COMMANDS[f"cli/{name}"]
    assert documents.titles(text) == [f"distcheck {name}"]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert re.search(rf"^`[^`\n]*{re.escape(option.opts[-1])}\b", text, re.MULTILINE), option.name
    assert f"({name}.md)" in COMMANDS["cli/index"]


@pytest.mark.parametrize(
    ("name", "option", "variable"),
    [("env", "fail_on", "DISTCHECK_ENV_FAIL_ON"), ("log", "select", "DISTCHECK_LOG_SELECT"), ("lint", "fix", None)],
)
def test_the_variable_of_an_option_is_the_one_that_click_reads(name: str, option: str, variable: str | None) -> None:
    command = main.group.get_command(click.Context(main.group), name)
    assert command is not None
    assert any(one.name == option for one in command.params)
    shown = f"DISTCHECK_{name.upper()}_{option.upper()}"
    assert (f"Variable: `{shown}`" in COMMANDS[f"cli/{name}"]) == (variable is not None)


def test_every_symptom_stands_on_the_page_of_all_commands() -> None:
    for symptom, command in main.SYMPTOMS:
        assert f"| {symptom} | {error_index.code_span(command)} |" in COMMANDS["cli/index"]


def test_every_fact_that_a_probe_may_ask_for_is_told_with_its_fields() -> None:
    facts = fact_pages.facts()
    text = fact_pages.fact_page()
    asked = {one.type for probe in registry.probes() for one in registry.parameters(probe.function)}
    ours = {made for made in {*asked, *registry.readers()} if made.__module__.startswith("distcheck.")}
    assert set(facts) == ours
    for made in facts:
        part = text.split(f"\n### {made.__name__}\n", 1)[1].split("\n### ")[0]
        assert made.__doc__
        assert not [field for field in getattr(made, "_fields", ()) if f"\n- `{field}`: " not in part]
        assert not re.search(r":(class|func|meth|attr|mod):|ForwardRef|(?<!`)``(?!`)", part), made
