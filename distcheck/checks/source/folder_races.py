"""Probes about folders that several ranks create at once, and which of them exist when a rank needs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Edit, Finding, Severity
from distcheck.core.rank_evidence import FOLDER_OPTION
from distcheck.core.registry import probe

from . import call_paths, path_values
from .device_uses import roots_of
from .option_paths import spellings_of
from .path_values import CallPath
from .program import FEW, EventRow, Program, SourceCall
from .several_ranks import signs
from .shared_writes import is_of_pathlib, only_of_this_process
from .source_text import last_name
from .term_queries import attributes_of, parts, same_path, uses_path
from .values import PARTIAL, Kind


@probe(rules.DC722)
def ranks_race_for_a_folder(program: Program) -> Iterator[Finding]:
    """A folder that all ranks create may be there already."""
    for call in program.calls_named("makedirs", "mkdir"):
        kind = _kind_of_folder_call(call)
        if kind is None or call.has_star or call.inside("try") or call.within("suppress"):
            continue
        path = call.receiver_term
        if kind != "Path.mkdir":
            path = call.argument_term(0, "name" if kind == "makedirs" else "path")
        call_path = call_paths.path_of_all_ranks(program, call, first_is_a_guard=True)
        trained = call_paths.path_past_a_trainer(program, call) if call_path is None else None
        call_path = call_path or trained
        if call_path is None or path < 0 or only_of_this_process(call_path, path):
            continue
        if any(program.dominates(earlier, call) for earlier in _made_before(program, call)):
            continue
        if exists_by_then(call_path, path):
            continue
        mild = trained is not None or _is_folder_of_a_parameter(call, path)
        yield from _race(program, call, kind, call_path, path, mild)


def _made_before(program: Program, call: SourceCall) -> Iterator[SourceCall]:
    """Calls by one rank only, in the same function, that create a folder, followed by a barrier for all."""
    rows = program.rows_of(call.file, call.scope)
    for row in rows:
        if row.number >= call.number:
            return
        if (
            isinstance(row, SourceCall)
            and row.is_to("torch.distributed.barrier")
            and row.own_reached_by.who not in PARTIAL
        ):
            made = [
                one
                for one in rows
                if isinstance(one, SourceCall)
                and one.number < row.number
                and one.method in ("makedirs", "mkdir")
                and one.own_reached_by.who in FEW
                and one.argument_term(0) == call.argument_term(0)
            ]
            if made:
                yield row


def exists_by_then(call_path: CallPath, path: int) -> bool:
    """Return whether every rank has created a folder, or something in it, before it comes to the row of a way."""
    program = call_path.row.program
    row: EventRow = call_path.row
    base, names = attributes_of(row.terms, path)
    for position in range(len(call_path.calls) + 1):
        for earlier in program.rows_of(row.file, row.scope):
            if earlier.number >= row.number:
                break
            made = folder_made(earlier) if isinstance(earlier, SourceCall) else -1
            if made >= 0 and program.dominates(earlier, row) and _is_in(row.terms, made, base, names):
                return True
        if position == len(call_path.calls):
            break
        found, given, _ = path_values.term_on(call_path, row, base, call_path.calls[position : position + 1])
        if (found, given) == (row, base):
            break
        base, more = attributes_of(found.terms, given)
        row, names = found, (*more, *names)
    return (row.file, row.scope) == call_path.root and _is_made_by_the_parent(row, base, names)


def _is_made_by_the_parent(row: EventRow, base: int, names: tuple[str, ...]) -> bool:
    """Return whether each process that starts ranks has made a folder before: that of an attribute, or of a constant.

    :param row: one of the function that the ranks start with
    """
    program, root = row.program, (row.file, row.scope)
    if names and row.terms[base][0] != "p":
        return False
    constant = None if names else row.term_value(base).constant
    sites = program.evaluator.callers.get(root, ())
    # a parent may also enter the function itself, as the only rank
    return any(site.kind != "call" for site in sites) and all(
        any(_makes(made, names, constant) for made in _calls_before(program, program.event_row(site.file, site.event)))
        for site in sites
    )


def _calls_before(program: Program, row: EventRow) -> Iterator[SourceCall]:
    """Yield the calls that stand before a row in its function, and those in functions that it has entered by then."""
    for call in program.rows_of(row.file, row.scope):
        if isinstance(call, SourceCall) and call.number < row.number:
            yield call
            if program.dominates(call, row):
                for function in program.functions(call):
                    for inner in sorted(call_paths.reached_from(program, function)):
                        yield from (one for one in program.rows_of(*inner) if isinstance(one, SourceCall))


def _makes(call: SourceCall, names: tuple[str, ...], constant: object) -> bool:
    """Return whether a call makes the folder of an attribute, or of a constant, wherever it was not there before."""
    made = folder_made(call)
    if made < 0 or any(
        node[1] == "if" and "exist" not in (text := call.term_text(node[2])) and "isdir" not in text
        for _, node in call.blocks
    ):
        return False
    if not names:
        return isinstance(constant, str) and call.term_value(made).constant == constant
    return attributes_of(call.terms, made)[1] == names or any(
        row.kind == "attribute" and row.payload[1] == names[-1] and same_path(call.terms, row.payload[2], made)
        for row in call.program.rows_of(call.file, call.scope)
    )


def _is_in(terms: list[tuple[Any, ...]], made: int, base: int, names: tuple[str, ...]) -> bool:
    """Return whether what is created is a folder, or lies in it: the base of a chain of attributes, and their names."""
    if not names:
        return uses_path(terms, made, base, True)
    own, given = attributes_of(terms, made)
    return given == names and same_path(terms, own, base)


def folder_made(call: SourceCall) -> int:
    """Return the term of the folder that a call makes sure of, -1 for any other call."""
    if call.method == "save_pretrained" and call.gives(0, "save_directory"):
        return call.argument_term(0, "save_directory")
    if call.is_to("os.makedirs"):
        return call.argument_term(0, "name")
    if call.method == "mkdir" and call.gives(None, "exist_ok") and not call.targets:
        return call.receiver_term
    return -1


def _kind_of_folder_call(call: SourceCall) -> str | None:
    """How a folder is created; None where it may be there already, or where it is no folder of this file system."""
    if call.is_to("os.makedirs"):
        return "makedirs" if call.constant(2, "exist_ok", False) is False else None
    if call.is_to("os.mkdir"):
        return "mkdir"
    if call.method != "mkdir" or ((call.positional or call.targets) and not is_of_pathlib(call)):
        return None
    if call.constant(2, "exist_ok", False) is not False:
        return None
    receiver = call.receiver
    if receiver.has(Kind.OBJECT, Kind.MODULE, Kind.NAMED, Kind.WRAPPED) or not call.receiver_text:
        return None
    return "Path.mkdir"


def _is_folder_of_a_parameter(call: SourceCall, path: int) -> bool:
    """Return whether a folder is that of a file that a caller names: most callers have created it by then."""
    parts = call.terms[path]
    return (
        parts[0] == "c"
        and last_name(call.terms, parts[1]) == "dirname"
        and len(parts[2]) == 1
        and call.terms[parts[2][0]][0] == "p"
    )


def _option_of_folder(call: SourceCall, path: int) -> dict[str, Any]:
    """Return the script and the spellings of the option that names a folder, if one script only gets there."""
    program, parts = call.program, call.terms[path]
    scripts = {file for file, _ in roots_of(program, call)}
    spellings = spellings_of(program, call.file, parts[2]) if parts[0] == "a" else ()
    if len(scripts) != 1 or not spellings:
        return {}
    return {FOLDER_OPTION: (program.index.files[scripts.pop()].path, spellings)}


def _race(
    program: Program, call: SourceCall, kind: str, call_path: CallPath, path: int, mild: bool
) -> Iterator[Finding]:
    edits = _exist_ok_edit(program, call, kind)
    shown = (
        call.receiver_text if kind == "Path.mkdir" else call.argument_text(0, "name") or call.argument_text(0, "path")
    )
    text = {
        "makedirs": f"os.makedirs({shown}, exist_ok=True)",
        "mkdir": f"os.makedirs({shown}, exist_ok=True), since os.mkdir has no exist_ok",
        "Path.mkdir": f"{shown}.mkdir(…, exist_ok=True)",
    }[kind]
    removed = _is_removed_before(call, path)
    if removed:
        message = f"every rank removes the folder {shown} and creates it here: each rank may remove that of another one"
    elif _is_tested(call, path):
        message = (
            f"every rank tests for the folder {shown} and creates it here: ranks that test at the same time raise "
            "FileExistsError"
        )
    else:
        message = f"every rank creates the folder {shown} here, and all but the first rank raise FileExistsError"
    yield call.found(
        rules.DC722,
        message,
        fix=text,
        edits=edits,
        safe=bool(edits),
        basis=(call_path.certainty,),
        severity=Severity.INFO if mild or removed or path_values.in_tests(call_path) else Severity.WARNING,
        flow=program.flow(call_path.steps),
        **_option_of_folder(call, path),
        **signs(call, call_path),
    )


def _is_tested(call: SourceCall, path: int) -> bool:
    """Return whether a test for the folder stands around the call that creates it: the last rank finds the folder."""
    return any(
        node[1] == "if" and any(same_path(call.terms, one, path) for one in _tested_paths(call, node[2]))
        for _, node in call.blocks
    )


def _tested_paths(call: SourceCall, test: int) -> Iterator[int]:
    """Yield the terms whose existence a condition tests."""
    for number in parts(call.program, call.file, test, ()):
        term = call.terms[number]
        if term[0] == "c" and last_name(call.terms, term[1]) in ("exists", "isdir", "is_dir"):
            yield term[2][0] if term[2] else call.terms[term[1]][1]


def _is_removed_before(call: SourceCall, path: int) -> bool:
    """Return whether the same function removes the folder before it creates it."""
    return any(
        isinstance(row, SourceCall)
        and row.number < call.number
        and row.is_to("shutil.rmtree")
        and same_path(call.terms, row.argument_term(0, "path"), path)
        for row in call.program.rows_of(call.file, call.scope)
    )


def _exist_ok_edit(program: Program, call: SourceCall, kind: str) -> tuple[Edit, ...]:
    """The edit that adds ``exist_ok=True``; none for ``os.mkdir``, which does not know it, in another spelling."""
    given = call.argument_span(2, "exist_ok")
    if given is not None:
        return (given.replaced_by("True"),)
    edit = program.argument_edit(call, "exist_ok=True")
    if edit is None:
        return ()
    if kind != "mkdir":
        return (edit,)
    span = call.span
    source = program.source(span)
    if not source.startswith("os.mkdir(") or call.keywords:
        return ()
    name = span._replace(column=span.column + len("os."), end_line=span.line, end_column=span.column + len("os.mkdir"))
    return (name.replaced_by("makedirs"), edit)
