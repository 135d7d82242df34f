"""Files of checkpoints by their names: what the project saves under the name that it loads, and if it saves any."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distcheck.core.patterns import lazy

from . import call_paths
from .device_uses import called_in
from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .term_queries import origins
from .values import Kind

OF_PATHS = frozenset(["join", "dirname", "abspath", "realpath", "expanduser", "Path", "resolve", "str", "joinpath"])
#: Keys of what counts the steps of a training.
_COUNTERS = lazy(r"(?:\w+_)?(?:epochs?|steps?|iter(?:ation)?s?|batch|seed)")
#: Calls that only read a file.
_READERS = frozenset(["load", "load_state_dict", *OF_PATHS])
_TESTS_A_FILE = lazy(r"\b(?:isfile|exists|is_file)\b")


def file_names(program: Program, row: EventRow, path: int) -> set[str]:
    """Return the texts in a path that end like the name of a file: ``model.pth``, ``-%d.data.pt``.

    What callers give for a parameter counts as well.
    """
    if path < 0:
        return set()
    numbers = {(row.file, number) for number in program.subterms(row.file, path)}
    for _, number in tuple(numbers):
        if row.terms[number][0] == "p":
            for file, given in origins(program, row.file, number):
                numbers |= {(file, inner) for inner in program.subterms(file, given)}
    parts = (program.terms[file][number] for file, number in numbers)
    texts = (str(part[2]).replace("\\", "/").rsplit("/", 1)[-1] for part in parts if part[:2] == ("k", "str"))
    return {text for text in texts if re.search(r"\w.*\.\w+$", text)}


def holds_counters(program: Program, call: SourceCall) -> bool:
    """Return whether all that the project saves under the name of a file are counters, by their keys or values."""
    names = file_names(program, call, call.argument_term(0, "f"))
    saved = [
        (save, save.terms[save.argument_term(0, "obj")])
        for save in program.calls_named("save")
        if save.gives(0, "obj") and not names.isdisjoint(file_names(program, save, save.argument_term(1, "f")))
    ]
    return bool(saved) and all(
        all(_COUNTERS.fullmatch(str(save.term_value(key).constant)) for key in obj[1])
        if obj[0] == "d"
        else obj[0] in ("l", "t") and all(save.term_value(item).only(Kind.CONST, Kind.UNIFORM) for item in obj[1])
        for save, obj in saved
    )


def has_other_keys(program: Program, call: SourceCall) -> bool:
    """Return whether the state in a file has a key that no dict of the project has, though the project saves files.

    Weights that others publish have such keys: ``load_state_dict(torch.load(path)["model"])``.
    """
    terms = program.terms[call.file]

    def is_loaded(number: int) -> bool:
        return number >= 0 and terms[number][0] == "c" and terms[number][5] == call.number

    def is_text(number: int) -> bool:
        return number >= 0 and terms[number][:2] == ("k", "str")

    keys = {str(terms[part[2]][2]) for part in terms if part[0] == "s" and is_loaded(part[1]) and is_text(part[2])}
    may_lack_them = any(part[0] == "=" and any(map(is_loaded, part[2:4])) for part in terms)
    if not keys or may_lack_them or not any(True for _ in program.calls_to("torch.save")):
        return False
    if any(program.framework(file) for file in program.component(call.file)):
        return False
    return keys.isdisjoint(program.table(_keys_of_dicts))


def _keys_of_dicts(program: Program) -> Iterator[str]:
    """Yield the texts that are keys of dicts, or that the project stores values under."""
    for file in range(len(program.index.files)):
        terms = program.terms[file]
        for part in terms:
            keys: tuple[int, ...] = part[1] if part[0] in ("d", "{}") else ()
            yield from (str(terms[key][2]) for key in keys if key >= 0 and terms[key][:2] == ("k", "str"))
            if part[0] == "c" and last_name(terms, part[1]) in ("dict", "update"):
                yield from (name for name, _ in part[3])
    for row in program.rows("store"):
        key: tuple[Any, ...] = row.terms[row.payload[1]] if row.payload[1] >= 0 else ("-",)
        if key[:2] == ("k", "str"):
            yield str(key[2])


def is_never_there(program: Program, call: SourceCall) -> bool:
    """Return whether a file is loaded if there is one, and no code that runs together with this has its name."""
    names = file_names(program, call, call.argument_term(0, "f"))
    tested = {
        name
        for _, node in call.blocks
        if node[1] == "if" and node[3] and _TESTS_A_FILE.search(call.term_text(node[2]))
        for name in file_names(program, call, node[2])
    }
    files = call_paths.related(program, call.file)
    if names.isdisjoint(tested) or called_in(program, files, *call_paths.TRAINERS):
        return False
    return not any(
        not names.isdisjoint(file_names(program, one, term))
        for one in program.calls_in(files)
        if one.method not in _READERS and not _TESTS_A_FILE.search(one.method)
        for term in one.argument_terms
    )
