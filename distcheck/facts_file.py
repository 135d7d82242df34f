"""Facts as JSON and back: what one machine looked like, kept in a file and judged on another.

The codec follows the annotations of the facts' own types, so that a fact needs no code of its own here.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from .model import NotApplicable, Unavailable, to_plain

#: Version of the file; it grows when a fact changes in a way that an older reader would misread.
FACTS_SCHEMA_VERSION = 1


class FactsFileError(ValueError):
    """The file can't be used; the message says why and what to do."""


class FactsFile(NamedTuple):
    """What a facts file holds."""

    tool_version: str
    saved_at: str
    facts: Mapping[type, object]


def dump_facts(facts: Mapping[type, object], *, tool_version: str, saved_at: str) -> str:
    """Facts as the text of a facts file."""
    return (
        json.dumps(
            {
                "schema_version": FACTS_SCHEMA_VERSION,
                "kind": "distcheck facts",
                "tool": {"name": "distcheck", "version": tool_version},
                "saved_at": saved_at,
                "facts": {made.__name__: to_plain(value) for made, value in facts.items()},
            },
            indent=1,
            ensure_ascii=True,
        )
        + "\n"
    )


def load_facts(text: str, known: Mapping[str, type]) -> FactsFile:
    """Read the text of a facts file.

    :param known: the types of fact by their names; facts of other names are left out
    :raises FactsFileError: damaged, of another kind, or of another schema version
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FactsFileError(
            f"it is no JSON ({error}); expected a file that 'distcheck env --save-facts' wrote"
        ) from None
    if not isinstance(plain, dict) or plain.get("kind") != "distcheck facts":
        raise FactsFileError("it is JSON, but no facts file; expected a file that 'distcheck env --save-facts' wrote")
    version = plain.get("schema_version")
    tool = plain.get("tool")
    tool_version = str(tool.get("version", "?")) if isinstance(tool, dict) else "?"
    if version != FACTS_SCHEMA_VERSION:
        newer = isinstance(version, int) and version > FACTS_SCHEMA_VERSION
        advice = "judge it with that distcheck, or newer" if newer else "save the facts again with this distcheck"
        raise FactsFileError(
            f"its schema version is {version!r} (written by distcheck {tool_version}), "
            f"this distcheck reads version {FACTS_SCHEMA_VERSION}; {advice}"
        )
    stored = plain.get("facts")
    if not isinstance(stored, dict):
        raise FactsFileError("its 'facts' are missing or damaged; save the facts again")
    facts: dict[type, object] = {}
    for name, value in stored.items():
        made = known.get(name)
        if made is None:
            continue
        try:
            facts[made] = from_plain(made, value)
        except (TypeError, ValueError, KeyError) as error:
            raise FactsFileError(f"its fact {name!r} is damaged: {error}") from None
    return FactsFile(tool_version, str(plain.get("saved_at", "")), facts)


def from_plain(made: Any, value: Any) -> Any:
    """The reverse of :func:`distcheck.model.to_plain` for a value of a given type; raises TypeError or ValueError."""
    if isinstance(value, dict) and set(value) == {"unavailable"}:
        return Unavailable(str(value["unavailable"]))
    if isinstance(value, dict) and set(value) == {"not_applicable"}:
        return NotApplicable(str(value["not_applicable"]))
    origin = typing.get_origin(made)
    arguments = typing.get_args(made)
    if made is Any or made is object:
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        failures = []
        for argument in arguments:
            if argument is type(None):
                continue
            try:
                return from_plain(argument, value)
            except (TypeError, ValueError) as error:
                failures.append(str(error))
        raise TypeError("; ".join(failures))
    if origin in (tuple, list, frozenset, set):
        if not isinstance(value, list):
            raise TypeError(f"expected a list, found {value!r:.60}")
        if origin is tuple and arguments[-1:] != (Ellipsis,):
            if len(arguments) != len(value):
                raise TypeError(f"expected {len(arguments)} values, found {len(value)}")
            return tuple(from_plain(argument, part) for argument, part in zip(arguments, value, strict=True))
        return origin(from_plain(arguments[0], part) for part in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, found {value!r:.60}")
        return {from_plain_key(arguments[0], key): from_plain(arguments[1], part) for key, part in value.items()}
    if isinstance(made, type) and hasattr(made, "_fields"):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object for {made.__name__}, found {value!r:.60}")
        hints = typing.get_type_hints(made)
        return made(**{name: from_plain(hints[name], part) for name, part in value.items() if name in hints})
    if made is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if made is int and isinstance(value, bool):
        raise TypeError("expected a number, found a truth value")
    if isinstance(made, type) and not isinstance(value, made):
        raise TypeError(f"expected {made.__name__}, found {value!r:.60}")
    return value


def from_plain_key(made: Any, key: str) -> Any:
    """A key of a JSON object as the type that the mapping has: text or a number."""
    return int(key) if made is int else key


def redacted(text: str) -> str:
    """The text of a facts file with host names, user names and addresses replaced, each always by the same word.

    Addresses stay in their networks (two that shared a /24 share one afterwards), so that rules about networks
    still see what they saw.
    """
    import re

    plain = json.loads(text)
    replaced: dict[str, str] = {}
    for name in _names(plain.get("facts", {})):
        base = name.split(".")[0]
        for part in (name, base):
            if part and part not in replaced and not re.fullmatch(r"localhost.*|[\d.:]+", part):
                replaced[part] = f"host-{len(replaced) + 1}"
    for part in sorted(replaced, key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(part)}(?![\w-])", replaced[part], text)
    text = re.sub(r"(/(?:home|Users|u|users)/)[^/\"\s:,]+", r"\1user", text)
    text = re.sub(r'("user": )"(?!root")[^"]*"', r'\1"user"', text)
    networks: dict[str, int] = {}

    def replace_v4(match: re.Match[str]) -> str:
        network, last = match[0].rsplit(".", 1)
        if network.split(".")[0] in ("0", "127", "255", "169") or network.startswith("172.17"):
            return match[0]
        return f"198.18.{networks.setdefault(network, len(networks) + 1)}.{last}"

    text = re.sub(r"(?<![\d.\w-])(?:\d{1,3}\.){3}\d{1,3}(?![\d.\w-])(?=[^\"]*\")", replace_v4, text)
    return re.sub(r"\b(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}\b", _replace_v6, text)


def _replace_v6(match: typing.Any) -> str:
    """IPv6 addresses and GIDs keep their first and last group: the kind of address is seen in the first."""
    groups = match[0].split(":")
    return ":".join([groups[0], *("0" * len(group) for group in groups[1:-1]), groups[-1]])


def _names(facts: Mapping[str, Any]) -> list[str]:
    """The names of hosts in saved facts."""
    found = []
    for fact in facts.values():
        for key, value in fact.items() if isinstance(fact, dict) else ():
            if key in ("full_name", "master_addr", "host") and isinstance(value, str):
                found.append(value)
            elif key == "name" and isinstance(value, dict) and isinstance(value.get("name"), str):
                found.append(value["name"])
    return found
