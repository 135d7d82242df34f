"""Every field of a fact is filled by the package. A probe that reads a field which no reader fills finds nothing."""

from __future__ import annotations

import ast
import contextlib
import functools
import typing
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from distcheck.core import registry
from distcheck.core.checker import Checker

from .test_coverage_of_rules import PROBE_MODULES

PACKAGE = Path(__file__).parents[1] / "distcheck"


def facts_of_probes() -> set[type]:
    """The facts that probes ask for, and the types of their fields."""
    for modules in PROBE_MODULES.values():
        Checker(modules=modules, plug_ins=False)
    found: set[type] = set()
    waiting: list[object] = [
        parameter.type for probe in registry.probes() for parameter in registry.parameters(probe.function)
    ]
    while waiting:
        kind = waiting.pop()
        waiting.extend(typing.get_args(kind))
        if kind in found or not (isinstance(kind, type) and hasattr(kind, "_fields")):
            continue
        if kind.__module__.startswith("distcheck."):
            found.add(kind)
            # a type that is imported for the type checker only has no name when the program runs
            with contextlib.suppress(NameError):
                waiting.extend(typing.get_type_hints(kind).values())
    return found


#: Modules in a rank, next to the hooks of a rehearsal, that note rows.
OF_RANKS = ("loader_watcher", "samplers")


class Filled(NamedTuple):
    """What the package gives to fields."""

    #: calls by the last part of the name that is called
    calls: dict[str, list[ast.Call]]
    #: the texts of the modules that replace a field
    replaced: dict[str, set[str]]
    #: the types that a row of a rehearsal's event log fills, and the names that hooks note there
    of_rows: set[str]
    noted: set[str]


@functools.cache
def filled_by_the_package() -> Filled:
    given = Filled(defaultdict(list), defaultdict(set), set(), {"rank", "place", "function", "at_s", "step"})
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                called = str(getattr(node.func, "attr", getattr(node.func, "id", "")))
                given.calls[called].append(node)
                for keyword in node.keywords if called in ("_replace", "partial") else ():
                    given.replaced[keyword.arg or "**"].add(text)
                if called == "fill" and node.args:
                    given.of_rows.add(getattr(node.args[0], "id", ""))
                    given.noted.update(keyword.arg for keyword in node.keywords if keyword.arg)
                elif called in ("note", "_note"):
                    given.noted.update(keyword.arg for keyword in node.keywords if keyword.arg)
            elif isinstance(node, ast.Dict) and (path.parent.name == "hooks" or path.stem in OF_RANKS):
                given.noted.update(key.value for key in node.keys if isinstance(key, ast.Constant))
    return given


def unfilled(kinds: set[type]) -> dict[str, list[str]]:
    """The fields of each type that no call of the package gives a value, neither of the type nor of ``_replace``.

    What is made of keywords or values that a program holds (``**``, ``*``) may have any field. A row of a rehearsal's event
    log fills a type with what hooks note.
    """
    given = filled_by_the_package()
    found = {}
    for kind in kinds:
        fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
        here = given.calls[kind.__name__]
        if any(isinstance(part, ast.Starred) for call in here for part in call.args):
            continue
        if any(keyword.arg is None for call in here for keyword in call.keywords):
            continue
        filled = {keyword.arg for call in here for keyword in call.keywords}
        filled.update(*(fields[: len(call.args)] for call in here))
        if kind.__name__ in given.of_rows:
            filled.update(given.noted)
        filled.update(name for name in fields if any(kind.__name__ in text for text in given.replaced[name]))
        if missing := [name for name in fields if name not in filled]:
            found[f"{kind.__module__}.{kind.__name__}"] = missing
    return found


def test_every_field_of_a_fact_is_filled() -> None:
    kinds = facts_of_probes()
    assert len(kinds) > 100
    assert unfilled(kinds) == {}


def test_a_field_that_nobody_fills_is_found() -> None:
    class Software(typing.NamedTuple):
        """It has the name of a fact of ours, and one field more."""

        python: str
        never_filled: str = ""

    assert unfilled({Software}) == {f"{__name__}.Software": ["never_filled"]}
