"""The configuration of a project and of a site, with the file that each setting comes from.

``[tool.distcheck]`` in pyproject.toml, ``[distcheck]`` in setup.cfg or tox.ini (the nearest upwards from the working
directory), and the site's ``/etc/distcheck.toml``. How a setting is used is not defined here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy

from .configuration_files import PROJECT_FILES as PROJECT_FILES
from .configuration_files import SITE_FILE as SITE_FILE
from .configuration_files import project_files
from .model import Unavailable
from .registry import fact
from .world import World

#: Settings that are lists of rules, names or patterns; those of the site and of the project add up.
LISTS = ("select", "extend-select", "ignore", "must-check", "known-variables", "exclude", "extend-exclude")
#: Settings that are tables from a pattern to a list of rules; ``pattern:CODE`` for each pair.
TABLES = ("per-file-ignores",)
#: Settings that are one word.
WORDS = ("fail-on", "baseline", "cache-dir", "node-facts")
#: Settings that are on or off.
FLAGS = ("preview", "force-exclude", "respect-gitignore", "include-markdown")
_ALL = (*LISTS, *TABLES, *WORDS, *FLAGS)
#: Characters that no name, path or pattern has; a list of a .cfg file may have several lines.
_CONTROL = lazy(r"[\x00-\x08\x0b-\x1f\x7f]")
#: Characters of a value in a message.
_LONGEST_SHOWN = 80
_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class ConfigurationError(ValueError):
    """A file can't be read or holds an unknown setting. The message names the file and what was expected."""


class ConfigurationEntry(NamedTuple):
    """One setting, and the file that it comes from."""

    name: str
    values: tuple[str, ...]
    origin: str


class Configuration(NamedTuple):
    """All settings, the project's before the site's."""

    entries: tuple[ConfigurationEntry, ...] = ()

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of a list, the site's and the project's together."""
        return tuple(dict.fromkeys(value for entry in self.entries if entry.name == name for value in entry.values))

    def word(self, name: str) -> str | None:
        """Return the value of a single word; the project's wins over the site's."""
        return next((entry.values[0] for entry in self.entries if entry.name == name and entry.values), None)

    def flag(self, name: str) -> bool | None:
        """Return whether a setting is on; None if no file sets it."""
        word = self.word(name)
        return None if word is None else word == "true"

    def placed(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return the values of a list, each with the folder of its file, to which patterns are relative."""
        return tuple(
            (value, os.path.dirname(entry.origin))
            for entry in self.entries
            if entry.name == name
            for value in entry.values
        )

    def origin(self, name: str) -> str:
        """Return the files that set it, joined by commas."""
        return ", ".join(entry.origin for entry in self.entries if entry.name == name)


@fact(of_this_host=False)
def read_configuration(world: World) -> Configuration:
    """Return the settings of the project's nearest file and of the site's."""
    try:
        return load(world)
    except ConfigurationError as error:
        raise Unavailable(str(error)) from error


def load(world: World, path: str | None = None) -> Configuration:
    """Return the configuration that applies here.

    :param path: this file instead of the project's nearest one
    :raises ConfigurationError: an unreadable file, an unknown setting, or a value of the wrong type
    """
    entries: list[ConfigurationEntry] = []
    if path is not None:
        text = _read(world, path)
        if text is None:
            raise ConfigurationError(f"{path}: it can't be read; name a .toml, .cfg or .ini file")
        entries.extend(_entries(path, text, required=True))
    else:
        entries.extend(_nearest(world))
    site = _read(world, SITE_FILE)
    if site is not None:
        entries.extend(_entries(SITE_FILE, site, required=True))
    return Configuration(tuple(entries))


def _nearest(world: World) -> list[ConfigurationEntry]:
    try:
        folder = world.working_folder
    except OSError:
        return []
    for path in project_files(folder, world.exists):
        text = _read(world, path)
        found = [] if text is None else list(_entries(path, text, required=False))
        if found:
            return found
    return []


def _read(world: World, path: str) -> str | None:
    try:
        return world.read_text(path) if world.is_file(path) else None
    except (OSError, ValueError):
        return None


def _entries(path: str, text: str, *, required: bool) -> Iterator[ConfigurationEntry]:
    """Yield the settings of one file. Without ``required``, a file that does not name distcheck is skipped."""
    if not required and "distcheck" not in text:
        return
    name = os.path.basename(path)
    table = _ini(path, text) if name.endswith((".cfg", ".ini")) else _toml(path, name, text)
    for key, value in table.items():
        yield ConfigurationEntry(_known(path, key), _values(path, key, value), path)


def parse_settings(name: str, text: str) -> dict[str, Any]:
    """Return the tables of a .toml, .cfg or .ini file; raises ValueError (TOML) or configparser.Error."""
    if name.endswith((".cfg", ".ini")):
        import configparser

        parser = configparser.ConfigParser(interpolation=None, default_section="")
        parser.read_string(text)
        return {section: dict(parser.items(section)) for section in parser.sections()}
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text.removeprefix("\ufeff"))


def _toml(path: str, name: str, text: str) -> Mapping[str, Any]:
    try:
        plain = parse_settings(name, text)
    except ValueError as error:
        raise ConfigurationError(f"{path}: it is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: its values are nested too deeply") from None
    tool = plain.get("tool", {})
    inside = name == "pyproject.toml" or (isinstance(tool, dict) and "distcheck" in tool)
    found = (tool.get("distcheck", {}) if isinstance(tool, dict) else {}) if inside else plain
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: tool.distcheck is not a table; write [tool.distcheck] and settings below it")
    return found


def _ini(path: str, text: str) -> Mapping[str, Any]:
    import configparser

    try:
        plain = parse_settings(path, text)
    except configparser.Error as error:
        raise ConfigurationError(f"{path}: {str(error).splitlines()[0]}") from None
    return {key: value.replace("\n", ",") for key, value in plain.get("distcheck", {}).items()}


def _known(path: str, key: str) -> str:
    name = key.replace("_", "-")
    if name in _ALL:
        return name
    import difflib

    close = difflib.get_close_matches(name, _ALL, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(_ALL)}"
    raise ConfigurationError(f"{path}: no setting is called {key!r}; {hint}")


def _values(path: str, key: str, value: Any) -> tuple[str, ...]:
    name = key.replace("_", "-")
    if name in FLAGS:
        word = ("true" if value else "false") if isinstance(value, bool) else ""
        word = value.strip().lower() if isinstance(value, str) else word
        if word not in (*_ON, *_OFF):
            raise ConfigurationError(f"{path}: {key!r} is {_shown(value)}; expected true or false")
        return ("true" if word in _ON else "false",)
    if name in TABLES:
        return _pairs_of(path, key, value)
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(text, str) and _CONTROL.search(text) for text in texts):
        raise ConfigurationError(f"{path}: {key!r} is {_shown(value)}; a control character stands in it")
    if isinstance(value, str) and name in WORDS:
        return (value.strip(),) if value.strip() else ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list) and name in WORDS:
        raise ConfigurationError(f"{path}: {key!r} is a list; expected one word")
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise ConfigurationError(f"{path}: {key!r} is {_shown(value)}; expected a text or a list of texts")


def _shown(value: Any) -> str:
    """Return a value in one line. Python makes no decimal text of a number of thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        text = "a number of thousands of digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _pairs_of(path: str, key: str, value: Any) -> tuple[str, ...]:
    """Return ``pattern:CODE`` for each pair of a table, or of a text in Flake8's form."""
    if isinstance(value, str):
        try:
            return pattern_pairs(value)
        except ValueError as error:
            raise ConfigurationError(f"{path}: {key!r}: {error}") from None
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{path}: {key!r} is {_shown(value)}; expected a table from patterns to lists of rules"
        )
    pairs: list[str] = []
    for pattern, codes in value.items():
        if isinstance(codes, str):
            codes = codes.split(",")
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise ConfigurationError(f"{path}: {key!r}: {pattern!r} is {_shown(codes)}; expected a list of rules")
        pairs.extend(f"{pattern}:{code.strip()}" for code in codes if code.strip())
    return tuple(pairs)


def pattern_pairs(text: str) -> tuple[str, ...]:
    """Return ``"tests/*:DC720,DC721 x.py:DC2"`` as ``pattern:CODE`` pairs; raises ValueError for a code alone."""
    pairs: list[str] = []
    pattern = ""
    for part in filter(None, (part.strip() for part in text.replace("\n", ",").split(","))):
        head, colon, code = part.rpartition(":")
        if colon:
            pattern, part = head.strip(), code.strip()
        if not pattern:
            raise ValueError(f"{part!r} has no pattern; write 'tests/*:{part}'")
        if part:
            pairs.append(f"{pattern}:{part}")
    return tuple(pairs)
