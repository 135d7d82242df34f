"""Tests and loops of the shell: the result of a known test, and what a loop iterates over."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distcheck.core.patterns import lazy

from .shell_words import Words

HOSTS = lazy(r"(?i)host|node|machine|server|\bip\b|_ip|ip_|addr|worker")
RANKS = lazy(r"(?i)rank|node|gpu|device|local|proc|worker|machine|^(?:i|j|k|n|r|g|id|idx|index)$")
#: Limit of nested tests.
_MAX_TEST_DEPTH = 20
_TESTS = lazy(
    r"(?:!\s*)*(?:\[|test\b|\(\(|grep\b|egrep\b|command\s+-[vV]|which\b|type\b|hash\b|true\b|false\b|"
    r"nvidia-smi\b|pgrep\b|scontrol\s+show\b|diff\b|cmp\b|declare\s+-[fF])"
)
#: A remote command, and how many characters of it are searched for the host's name.
_REMOTE = lazy(r"\b(?:ssh|rsh|pdsh)(?=[\s\\])")
_MAX_HOST_DISTANCE = 300
_OPTIONS = (
    r"(?:[\s\\]+-[\w-]+(?:[\s\\]+(?!-)[\"']?[^\s\"'|;]+[\"']?)?"
    r"|[\s\\]+[\"']?\$\{?\w*(?:OPT|ARG|FLAG)\w*(?:\[[@*]\])?\}?[\"']?){0,8}[\s\\]+"
)
_ASSIGNED = lazy(r"\b(\w+)=")
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
}


def verdict_of(words: Words, node: Any, deep: int = 0) -> bool | None:
    """Return the result of a test, or None if unknown."""
    if deep > _MAX_TEST_DEPTH:
        return None
    kind = node.type
    children = node.children
    if kind == "negated_command" and len(children) == 2:
        inner = verdict_of(words, children[1], deep + 1)
        return None if inner is None else not inner
    if kind == "command":
        text = words.text[node.start_byte : node.end_byte]
        return {"true": True, ":": True, "false": False}.get(text)
    if kind in ("test_command", "parenthesized_expression") and len(children) == 3:
        return verdict_of(words, children[1], deep + 1)
    if kind == "compound_statement" and len(children) == 3 and children[0].type == "((":
        number = words.arithmetic(words.text[children[1].start_byte : children[1].end_byte])
        return None if number is None else number != 0
    if kind == "unary_expression" and len(children) == 2:
        if children[0].type == "!":
            inner = verdict_of(words, children[1], deep + 1)
            return None if inner is None else not inner
        operator = words.text[children[0].start_byte : children[0].end_byte]
        if operator not in ("-z", "-n"):
            return None
        text_known = words.known(children[1])
        return None if text_known is None else bool(text_known) == (operator == "-n")
    if kind == "binary_expression" and len(children) == 3:
        return _compared(
            words, children[0], words.text[children[1].start_byte : children[1].end_byte], children[2], deep
        )
    return None


def _compared(words: Words, left: Any, operator: str, right: Any, deep: int) -> bool | None:
    if operator in ("&&", "||"):
        sides = [verdict_of(words, left, deep + 1), verdict_of(words, right, deep + 1)]
        if (operator == "||") in sides:
            return operator == "||"
        return None if None in sides else operator == "&&"
    one, other = words.known(left), words.known(right)
    if one is None or other is None:
        return None
    if operator in ("=", "=="):
        return None if right.type == "extglob_pattern" else one == other
    if operator == "!=":
        return None if right.type == "extglob_pattern" else one != other
    if operator in _COMPARISONS and re.fullmatch(r"-?\d{1,12}", one) and re.fullmatch(r"-?\d{1,12}", other):
        return _COMPARISONS[operator](int(one), int(other))
    return None


def is_test(node: Any, text: str) -> bool:
    """Return whether a command only tests something."""
    return _TESTS.match(text, node.start_byte, node.end_byte) is not None


def what_is_repeated(variable: str, values: Sequence[str], written: str, body: str) -> str:
    """Return whether a loop iterates over ``hosts``, ``ranks``, or something else (``loop``)."""
    if names_a_host(variable, body):
        return "hosts"
    if "scontrol show hostname" in written or re.search(
        r"(?i)\$\{?!?\w*(?:hosts|nodelist|nodes|machines|servers|ips)\b", written
    ):
        return "hosts"
    numbers = bool(values) and all(re.fullmatch(r"\d+", value) for value in values)
    if values and not numbers and HOSTS.search(variable):
        return "hosts"
    in_order = numbers and [int(value) for value in values] == list(range(int(values[0]), int(values[0]) + len(values)))
    counted = in_order or re.match(r"\s*(?:\$\(|`)\s*seq\b|\{\d+\.\.", written) is not None
    return "ranks" if counted and RANKS.search(variable) else "loop"


def names_a_host(variable: str, body: str) -> bool:
    """Return whether a loop's variable selects the host of its body: directly, as an index, or by a copy.

    An argument of the remote command (a seed, a rate) selects no host.
    """
    if not variable:
        return False
    value = r"[\"']?[\w.@${}-]{0,60}\$\{?(?:\w{1,60}\[[\"']?\$?\{?)?"
    copy = re.compile(rf"(?:[\"']?\$\([^)\n]{{0,100}})?{value}{re.escape(variable)}\b")
    found = (
        match for match in _ASSIGNED.finditer(body) if copy.match(body, match.end(), match.end() + _MAX_HOST_DISTANCE)
    )
    names = "|".join(sorted({re.escape(variable), *(match[1] for match in found)}))
    host = re.compile(rf"{_OPTIONS}{value}(?:{names})\b")
    return any(host.match(body, match.end(), match.end() + _MAX_HOST_DISTANCE) for match in _REMOTE.finditer(body))
