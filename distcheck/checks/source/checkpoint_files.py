"""Files of checkpoints by their names: what the project saves under the name that it loads, and if it saves any."""

from __future__ import annotations

import re

from . import call_paths
from .device_uses import called_in
from .program import EventRow, Program, SourceCall
from .term_queries import origins
from .values import Kind

OF_PATHS = frozenset(["join", "dirname", "abspath", "realpath", "expanduser", "Path", "resolve", "str", "joinpath"])
#: Keys of what counts the steps of a training.
_COUNTERS = re.compile(r"(?:\w+_)?(?:epochs?|steps?|iter(?:ation)?s?|batch|seed)")
#: Calls that only read a file.
_READERS = frozenset(["load", "load_state_dict", *OF_PATHS])
_TESTS_A_FILE = re.compile(r"\b(?:isfile|exists|is_file)\b")


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
