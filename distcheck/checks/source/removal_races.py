"""Files and folders that every rank removes, renames, or copies a tree to (DC722)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_dependence
from .program import Program, SourceCall
from .several_ranks import signs
from .shared_writes import given_on, goes_where_ranks_start, only_of_this_process
from .term_queries import parts


class _Change(NamedTuple):
    """What a call does to a path that only one rank can do."""

    position: int
    keyword: str
    text: str
    error: str
    #: arguments by which the call forgives what another rank has done
    forgives: tuple[str, ...] = ()


_GONE = "FileNotFoundError"
_CHANGES = {
    "shutil.rmtree": _Change(0, "path", "removes", _GONE, ("ignore_errors", "onerror", "onexc")),
    "os.remove": _Change(0, "path", "removes", _GONE),
    "os.unlink": _Change(0, "path", "removes", _GONE),
    "os.rmdir": _Change(0, "path", "removes", _GONE),
    "os.rename": _Change(0, "src", "renames", _GONE),
    "os.replace": _Change(0, "src", "renames", _GONE),
    "shutil.move": _Change(0, "src", "moves", _GONE),
    "shutil.copytree": _Change(1, "dst", "copies a tree to", "FileExistsError", ("dirs_exist_ok",)),
}


@probe(rules.DC722)
def ranks_race_to_remove(program: Program) -> Iterator[Finding]:
    """One rank removes what all ranks share."""
    for call in program.calls_to(*_CHANGES):
        change = next(_CHANGES[target] for target in call.targets if target in _CHANGES)
        path = call.argument_term(change.position, change.keyword)
        if path < 0 or call.has_star or call.inside("try") or call.inside("except") or call.within("suppress"):
            continue
        if any(call.gives(None, name) for name in change.forgives) or (
            call.is_to("shutil.rmtree") and call.gives(1, "ignore_errors")
        ):
            continue
        call_path = call_paths.path_of_all_ranks(program, call, first_is_a_guard=True)
        if call_path is None or only_of_this_process(call_path, path) or not goes_where_ranks_start(program, call_path):
            continue
        if _is_found_by_a_function(call_path, path):
            continue
        shown = call.argument_text(change.position, change.keyword) or call.term_text(path)
        yield call.found(
            rules.DC722,
            f"every rank {change.text} {shown} here, and all but the first rank raise {change.error}",
            fix="let one rank do it: `if dist.get_rank() == 0:`, then dist.barrier() on all ranks",
            basis=(call_path.certainty,),
            severity=Severity.INFO if path_values.in_tests(call_path) else Severity.WARNING,
            flow=program.flow(call_path.steps),
            **signs(call, call_path),
        )


def _is_found_by_a_function(call_path: path_values.CallPath, path: int) -> bool:
    """Return whether a path, as given on this way, is made of what a function of the project returns, or yields.

    The function may select a path for each rank. An attribute of what it returns is an option.
    """
    program = call_path.row.program
    return any(
        program.terms[row.file][number][0] == "c"
        and program.functions(SourceCall(program, row.file, program.terms[row.file][number][5]))
        and not rank_dependence.is_constant(program.evaluator.value(row.file, number))
        for row, term in given_on(call_path, path)
        for number in parts(program, row.file, term, ("a",))
    )
