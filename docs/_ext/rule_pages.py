"""The pages of the rules for the documentation, as Markdown: what the package ships, and what stands around it.

Severity, the commands that see a rule, lines of logs that betray it and related rules come from the catalogue and the
signatures. Nothing of Sphinx is needed here, so that the quick tests can check every page.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable

from distcheck import rules
from distcheck.cli.main import COMMANDS
from distcheck.core.model import Rule
from distcheck.core.rule_page import read_page
from distcheck.rules.signatures import every
from tools.make_rules import FAMILIES

#: A kind of check, the command that makes it, and what it reads where the command alone does not show it.
WAYS = {
    "env": ("env", ""),
    "ranks": ("collective", "what the ranks see, side by side"),
    "live": ("collective", "the process group at work"),
    "lint": ("lint", "source"),
    "launch": ("lint", "launch files"),
    "pickle": ("pickle", ""),
    "log": ("log", ""),
    "rehearse": ("rehearse", ""),
    "watch": ("watch", ""),
    "stuck": ("stuck", ""),
}
#: So many lines of logs stand on a page; the index of error messages has all.
_MOST_LINES = 8


def family_of(code: str) -> str:
    """The document of a code's hundred: ``DC4xx``."""
    return f"{code[:3]}xx"


def pages() -> dict[str, str]:
    """All documents about rules by name: ``rules/DC4xx`` and ``rules/DC401``."""
    related = related_rules(rules.ALL)
    documents = {f"rules/DC{digit}xx": family_page(digit, title) for digit, title in FAMILIES.items()}
    for rule in rules.ALL:
        documents[f"rules/{rule.code}"] = rule_page(rule, related[rule.code])
    return documents


def family_page(digit: str, title: str) -> str:
    """One hundred of rules as a table, each row a link."""
    members = [rule for rule in rules.ALL if rule.code[2] == digit]
    rows = "\n".join(
        f"| [{rule.code}]({rule.code}.md) | [{rule.name}]({rule.code}.md) | {rule.severity.word} | {rule.summary} |"
        for rule in members
    )
    return (
        f"# DC{digit}xx {title}\n\n| code | name | severity | what it is about |\n| --- | --- | --- | --- |\n{rows}\n"
    )


def rule_page(rule: Rule, related: Iterable[Rule]) -> str:
    """One rule: its page as it is shipped, with a line about how it is seen, lines of logs, and related rules."""
    page = read_page(rule.code)
    # no entry of the side bar: 186 of them there cost more than all pages together, and the family's table has them
    description = json.dumps(f"{rule.code} {rule.name}: {rule.summary}.", ensure_ascii=False)
    head = (
        f"---\norphan: true\nmyst:\n  html_meta:\n    description: {description}\n---\n\n# {rule.code} {rule.name}\n\n"
    )
    facts = f"{{.rule-facts}}\n{_facts(rule)}\n\n"
    if page is not None and page.notes:
        facts += f"{page.notes} ([how](../precision.md))\n\n"
    if page is None:
        body = f"{rule.summary}.\n\n{facts}Nothing of this version reports it yet.\n\n"
    else:
        sections = dict(page.sections)
        references = sections.pop("References", None)
        body = f"{rule.summary}.\n\n{facts}" + "".join(f"## {name}\n\n{text}\n\n" for name, text in sections.items())
        body += _in_logs(rule)
        if references is not None:
            body += f"## References\n\n{references}\n\n"
    rows = "".join(f"- [{other.code} {other.name}]({other.code}.md): {other.summary}\n" for other in related)
    return head + body + (f"## Related rules\n\n{rows}" if rows else "")


def _facts(rule: Rule) -> str:
    """Family, severity, commands and how to see the page without a browser, in one line."""
    severity = " or ".join(f"**{level.word}**" for level in rule.severities)
    seen: dict[str, list[str]] = defaultdict(list)
    for way in rule.ways:
        command, what = WAYS[way]
        if command in COMMANDS:
            seen[command].append(what)
    commands = [
        f"[`distcheck {command}`](../cli/{command}.md)" + (f" ({', '.join(what)})" if any(what) else "")
        for command, what in seen.items()
    ]
    parts = [severity, f"seen by {', '.join(commands)}" if commands else "no command of this version sees it"]
    if not rule.on_by_default:
        parts.append(f"off by default: `--extend-select {rule.code}`")
    family = f"[{FAMILIES[rule.code[2]]}]({family_of(rule.code)}.md)"
    return " · ".join([family, *parts, f"`distcheck explain {rule.code}`"])


def _in_logs(rule: Rule) -> str:
    """Lines from which ``distcheck log`` knows the rule."""
    lines = [example for row in every() if row.codes[:1] == (rule.code,) for example in row.examples]
    if not lines:
        return ""
    shown = "\n".join(dict.fromkeys(line.strip("\r\n") for line in lines[:_MOST_LINES]))
    more = "" if len(lines) <= _MOST_LINES else " [The index of error messages](../errors.md) has more of them."
    return (
        f"## In a log\n\n[`distcheck log`](../cli/log.md) knows it from lines like these, and from what stands "
        f"around them.{more}\n\n{{.log-lines}}\n````text\n{shown}\n````\n\n"
    )


def related_rules(everything: Iterable[Rule]) -> dict[str, tuple[Rule, ...]]:
    """For each rule those that its page names, whose pages name it, or that a line of a log may as well mean."""
    by_code = {rule.code: rule for rule in everything}
    links: dict[str, set[str]] = {code: set() for code in by_code}
    for code in by_code:
        page = read_page(code)
        for other in re.findall(r"\bDC\d{3}\b", "" if page is None else page.text):
            # the pages about distcheck itself name rules as examples only
            if other in by_code and other != code and "DC9" not in (code[:3], other[:3]):
                links[code].add(other)
                links[other].add(code)
    for row in every():
        for code in row.codes:
            links[code].update(other for other in row.codes if other != code)
    return {code: tuple(by_code[other] for other in sorted(others)) for code, others in links.items()}
