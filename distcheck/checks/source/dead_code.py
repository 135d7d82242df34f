"""Code that most likely never runs: functions that no code of a project uses.

What is called by its name only, or by code that was not read, can't be seen. So this never silences a finding.
"""

from __future__ import annotations

from .program import Program, cached
from .values import Kind


@cached
def _uses_of_names(program: Program, file: int) -> dict[str, list[int]]:
    """Return the terms of a file that are a name, an attribute or an import, by that name."""
    found: dict[str, list[int]] = {}
    # a package may import a name only to pass it on
    passes_on = program.index.files[file].path.endswith("__init__.py")
    for number, term in enumerate(program.terms[file]):
        if term[0] in ("a", "v"):
            found.setdefault(term[2], []).append(number)
        elif term[0] == "i" and not passes_on:
            found.setdefault(term[1].rpartition(".")[2], []).append(number)
    return found


def _is_of_others(program: Program, file: int, number: int) -> bool:
    """Return whether a name is an attribute of a module outside of the project: ``dist.all_gather``."""
    term = program.terms[file][number]
    return term[0] == "a" and program.evaluator.value(file, term[1]).only(Kind.NAMED)


@cached
def is_dead(program: Program, file: int, qualified: str, depth: int = 4) -> bool:
    """Return whether no code of the project uses a function or the class that it belongs to, nor its callers.

    A file that no other file imports may be used by code that was not read.

    :param qualified: its dotted name in the file; code of the module itself always runs
    """
    if not qualified or not depth or not program.index.importers(file):
        return False
    name = qualified.split(".", 1)[0]
    users: set[tuple[int, str]] = set()
    # only a file that imports this one, itself or through others, can mean this function by its name
    for other in sorted(program.evaluator.importers(file)):
        numbers = [
            one for one in _uses_of_names(program, other).get(name, ()) if not _is_of_others(program, other, one)
        ]
        if not numbers:
            continue
        if other != file:
            return False
        # itself, or a method of the class: Name(…), Name.apply(…)
        calls = [
            (callee, call)
            for call in program.calls_in([file])
            for callee in (call.term[1], call.receiver_term)
            if callee in numbers
        ]
        if len({callee for callee, _ in calls}) < len(numbers):
            return False  # it is a value, a base class or a decorator: anything may call it
        users.update((file, call.function.qualified or "") for _, call in calls)
    own = {user for _, user in users if user.split(".", 1)[0] != name}
    return all(is_dead(program, file, user, depth - 1) for user in own)
