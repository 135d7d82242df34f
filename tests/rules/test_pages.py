"""Every rule that a command can see has its page, in one shape; pasted messages lead to their rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distcheck import rules
from distcheck.core.model import Rule, Severity
from distcheck.core.rule_page import parse_page, read_page
from distcheck.rules.error_messages import FOLDER, SECTIONS, find_by_message

#: The rules that a command of this version can report.
VISIBLE = [rule for rule in rules.ALL if {"env", "pickle", "lint", "launch", "log"} & set(rule.ways)]


@pytest.mark.parametrize("rule", VISIBLE, ids=lambda rule: rule.code)
def test_a_rule_that_can_be_seen_has_a_page(rule: Rule) -> None:
    page = read_page(rule.code)
    assert page is not None, f"{rule.code} has no page"
    assert page.rule == rule
    names = list(page.sections)
    assert names == [name for name in SECTIONS if name in names], "sections stand in the order of SECTIONS"
    assert not set(SECTIONS) - {"Error messages", "Limits", "References"} - set(names)
    assert all(page.sections.values()), "no section is empty"
    _, bad, good = re.split(r"^### (?:Bad|Good)\n", page.sections["Example"], flags=re.MULTILINE)
    assert "```" in bad
    assert "```" in good
    assert bad != good


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_a_page_belongs_to_a_rule(path: Path) -> None:
    page = parse_page(path.read_text(encoding="utf-8"))
    assert page.rule.code == path.stem
    assert rules.find(page.rule.code) == page.rule


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_the_messages_of_a_page_lead_to_it(path: Path) -> None:
    page = parse_page(path.read_text(encoding="utf-8"))
    for message in page.messages:
        found = [match.code for match in find_by_message(message.replace("…", "4711"), rules.ALL)]
        assert page.rule.code in found, f"{message!r} leads to {found}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable RANK expected, but not set",
            "DC101",
        ),
        ("RuntimeError: CUDA error: invalid device ordinal", "DC301"),
        (
            "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, "
            "code: -98, name: EADDRINUSE, message: address already in use",
            "DC401",
        ),
        ("Error while creating shared memory segment /dev/shm/nccl-qXfWbc (size 9637888)", "DC320"),
        ("OSError: [Errno 24] Too many open files", "DC321"),
        ("[W socket.cpp:601] gai error: -2 - Name or service not known", "DC404"),
    ],
)
def test_a_pasted_message_finds_its_rule(text: str, code: str) -> None:
    assert code in [match.code for match in find_by_message(text, rules.ALL)][:3]


def test_an_ordinary_text_finds_nothing() -> None:
    assert find_by_message("the quick brown fox jumps over the lazy dog", rules.ALL) == []


FRONT = "---\ncode: DC999\nname: a-rule\nseverities: error, info\nchecks: env, log\nsummary: It is so\n---\n"


def test_front_matter_holds_the_rule() -> None:
    page = parse_page(f"{FRONT}\n## What it detects\n\nThis.\n")
    levels = (Severity.ERROR, Severity.INFO)
    assert page.rule == Rule("DC999", "a-rule", Severity.ERROR, ("env", "log"), "It is so", levels)
    assert page.sections == {"What it detects": "This."}
    assert page.text == "# DC999 a-rule\n\nIt is so.\n\n## What it detects\n\nThis.\n"
    assert not parse_page(FRONT.replace("summary: It is so\n", "summary: It is so\ndefault: off\n")).rule.on_by_default


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("---\ncode", "code", "a page begins with front matter"),
        ("name: a-rule\n", "", "front matter has the lines"),
        ("name: a-rule\n", "name: a-rule\nmore: x\n", "front matter has the lines"),
        ("name: a-rule\nseverities: error, info\n", "severities: error\nname: a-rule\n", "front matter has the lines"),
        ("error, info", "error, fatal", "expected severities out of"),
        ("summary: It is so\n", "summary: It is so\ndefault: on\n", "expected severities out of"),
    ],
)
def test_wrong_front_matter_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_page(FRONT.replace(old, new))
