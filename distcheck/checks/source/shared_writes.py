"""Probes about files that all ranks write at once, checkpoints first.

Whether every rank reaches a line is decided by :mod:`.call_paths`; this module knows what the calls do to files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import ONLY_LAUNCHED
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_conditions, rank_dependence
from .path_values import CallPath
from .program import EventRow, Program, SourceCall, cached
from .several_ranks import signs
from .source_text import last_name
from .values import PARTIAL, Certainty, Kind, Value
from .vocabulary import COLLECTIVES, INIT


class _WriteCall(NamedTuple):
    """A call that writes a file: where its path stands among the arguments."""

    position: int
    keyword: str
    #: it writes a checkpoint: two writers at once leave it broken
    checkpoint: bool = False


WRITERS = {
    "torch.save": _WriteCall(1, "f", True),
    "torch.jit.save": _WriteCall(1, "f", True),
    "safetensors.torch.save_file": _WriteCall(1, "filename", True),
    "safetensors.torch.save_model": _WriteCall(1, "filename", True),
    "numpy.save": _WriteCall(0, "file"),
    "numpy.savez": _WriteCall(0, "file"),
    "numpy.savez_compressed": _WriteCall(0, "file"),
    "numpy.savetxt": _WriteCall(0, "fname"),
    "joblib.dump": _WriteCall(1, "filename"),
    "open": _WriteCall(0, "file"),
    "logging.FileHandler": _WriteCall(0, "filename"),
    "logging.basicConfig": _WriteCall(-1, "filename"),
    "logging.handlers.RotatingFileHandler": _WriteCall(0, "filename"),
    "logging.handlers.TimedRotatingFileHandler": _WriteCall(0, "filename"),
}
#: Methods that write a file, of a table or a figure, whatever their object is.
_WRITING_METHODS = {
    "to_csv": "path_or_buf", "to_excel": "excel_writer", "to_feather": "path", "to_parquet": "path",
    "to_pickle": "path", "savefig": "fname",
}  # fmt: skip
#: Where the mode of a file stands that is opened, and what it is where none is given.
_MODES: dict[str, tuple[int | None, str, str]] = {
    "open": (1, "mode", "r"),
    "logging.FileHandler": (1, "mode", "a"),
    "logging.basicConfig": (None, "filemode", "a"),
    "logging.handlers.RotatingFileHandler": (1, "mode", "a"),
}
_ACCELERATOR = "accelerate.Accelerator"
#: Modes of a file that is written from its beginning.
_WRITING = lazy(r"[wx][bt]?\+?$")
#: What is written to memory, or to a file that only this process has.
_IN_MEMORY = ("io.BytesIO", "BytesIO", "io.StringIO", "StringIO")


@probe(rules.DC720)
def every_rank_writes_one_file(program: Program) -> Iterator[Finding]:
    """A file whose path is the same on all ranks is written by one of them."""
    for call in program.calls_to(*WRITERS):
        writer = next(WRITERS[target] for target in call.targets if target in WRITERS)
        path = call.argument_term(writer.position, writer.keyword)
        if (
            path < 0
            or (call.is_to(*_MODES) and _mode(call) not in ("w", "x", "a"))
            or "devnull" in rank_dependence.names_in(call, path)
        ):
            continue
        yield from _unguarded_save(program, call, path, writer.checkpoint)
    for call in program.calls_named("write_text", "write_bytes", "open"):
        path = _path_object(call)
        if path >= 0:
            yield from _unguarded_save(program, call, path, False)
    for call in program.calls_named(*_WRITING_METHODS):
        path = call.argument_term(0, _WRITING_METHODS.get(call.method))
        if path < 0 or call.receiver_term < 0 or program.functions(call):
            continue
        # figures are mostly drawn of samples, whose names are in the path
        if call.method != "savefig" or rank_dependence.is_constant(call.term_value(path)):
            yield from _unguarded_save(program, call, path, False)
    for call in program.calls_named("save_pretrained"):
        path = call.argument_term(0, "save_directory")
        if path < 0 or call.gives(None, "is_main_process") or call.has_star:
            continue
        if not any(atom.kind in (Kind.WRAPPED,) and atom.const != "ddp" for atom in call.receiver):
            yield from _unguarded_save(program, call, path, True)


def _path_object(call: SourceCall) -> int:
    """Return the term of the path that a method of a path writes to: ``path.write_text(…)``, ``path.open("w")``."""
    callee = call.terms[call.term[1]]
    if callee[0] != "a" or (call.targets and not is_of_pathlib(call)):
        return -1
    if call.method == "open":
        mode = call.argument(0, "mode")
        if mode is None or not isinstance(mode.constant, str) or not _WRITING.match(mode.constant):
            return -1
    return int(callee[1])


def goes_where_ranks_start(program: Program, call_path: CallPath) -> bool:
    """Return whether a way goes through a function that makes the group or wraps the model: ranks certainly run there.

    Each call on the way to another function than the row's own must be found for certain. A function that has called a
    helper for the group before counts as well.
    """
    made = call_paths.tables(program)
    for position, row in enumerate((call_path.row, *call_path.calls)):
        if position and call_path.certainty != Certainty.PROVEN:
            return False
        function = (row.file, row.scope)
        if function in made.starting or function in made.wrapping or _group_made_before(program, row):
            return True
    return False


def _group_made_before(program: Program, row: EventRow) -> bool:
    """Return whether a call before a row, in its function, is of a helper that makes the group, itself or by another.

    A helper that does more with the ranks, as one that trains, is none.
    """
    made = call_paths.tables(program)
    for call in program.rows_of(row.file, row.scope):
        if call.number >= row.number:
            return False
        if not isinstance(call, SourceCall) or call.own_reached_by.who in PARTIAL:
            continue
        for helper in made.entered.get((call.file, call.number), ()):
            reached = call_paths.reached_from(program, helper)
            if not made.starting.isdisjoint(reached) and made.wrapping.isdisjoint(reached):
                return True
    return False


def _mode(call: SourceCall) -> str:
    """Return the first letter of the mode that a file is opened with; empty where it is not known."""
    position, name, default = next(_MODES[target] for target in call.targets if target in _MODES)
    mode = call.argument(position, name)
    if mode is None:
        return default
    return mode.constant[:1] if isinstance(mode.constant, str) else ""


def _unguarded_save(program: Program, call: SourceCall, path: int, checkpoint: bool) -> Iterator[Finding]:
    # where one rank goes first, the others mostly find what it has written
    call_path = call_paths.path_of_all_ranks(program, call, first_is_a_guard=True)
    trained = None if checkpoint or call_path is not None else call_paths.path_past_a_trainer(program, call)
    call_path = call_path or trained
    # too many programs of a trainer are only started as one process
    if call_path is None:
        trained = call_path = call_paths.path_past_lightning(program, call)
    launched = checkpoint and call_path is None and not _is_optional(call)
    if launched:
        trained = call_path = call_paths.path_past_a_trainer(program, call, own=True)
    if call_path is None or only_of_this_process(call_path, path) or _is_after_an_exception(call):
        return
    value = path_values.value_on(call_path, path)
    certain = call_path.certainty == Certainty.PROVEN and rank_dependence.is_constant(value)
    # lists of results, caches, notes are often written on ways that no job of several ranks takes: only what is certain
    starting = goes_where_ranks_start(program, call_path)
    if not (checkpoint or certain or starting or trained):
        return
    # an Accelerator guards what is saved by its own methods only
    starting = starting and (not checkpoint or any(one.file == call.file for one in program.calls_to(_ACCELERATOR)))
    severity = Severity.WARNING
    # a framework may guard what is saved through it, but no file that a program opens
    if (
        trained
        or path_values.in_tests(call_path)
        or (not starting and path_values.owned_by_a_framework(call_path))
        or _is_written_by_few(call)
    ):
        severity = Severity.INFO
    appends = call.is_to(*_MODES) and _mode(call) == "a"
    if appends:
        severity = Severity.INFO  # the lines of all ranks stand in it, and none is lost
    name = name_of_call(call)
    reason = next(
        (
            f"`{call.term_text(node[2])}` also passes without its rank check"
            for _, node in call.blocks
            if node[1] == "if" and node[3] and rank_conditions.passes_by_a_count(call, node[2])
        ),
        f"no rank check guards {name}()",
    )
    shown = call.argument_text(_position_of(call, path), _keyword_of(call, path)) or call.term_text(path)
    evidence = signs(call, call_path)
    if launched:
        evidence[ONLY_LAUNCHED] = True
    yield call.found(
        rules.DC720,
        f"every rank {'appends to' if appends else 'writes'} {_path_text(value, shown)} here: {reason}",
        fix=_let_one_write(call_path, name),
        severity=severity,
        basis=(call_path.certainty,),
        path=shown,
        flow=program.flow(call_path.steps),
        **evidence,
    )


def _is_after_an_exception(call: SourceCall) -> bool:
    """Return whether a call only runs after an exception: in its handler, or after a ``try`` whose body returns."""
    if call.inside("except"):
        return True
    around = dict(call.blocks)
    for row in call.program.rows_of(call.file, call.scope):
        if row.number >= call.number:
            break
        # the end of the body runs where it has not returned before
        blocks = [one for one in row.blocks if not one[1][1].startswith("exit:")] if row.kind == "return" else []
        if (
            blocks
            and blocks[-1][1][1] == "try"
            and blocks[-1][0] not in around
            and all(number in around for number, _ in blocks[:-1])
            and not any(node[1] == "finally" for number, node in around.items() if number > blocks[-1][0])
        ):
            return True
    return False


def _is_optional(call: SourceCall) -> bool:
    """Return whether a switch of an object of options decides in its function: ``if args.lora``."""
    return any(node[1] == "if" and node[3] and call.terms[node[2]][0] == "a" for _, node in call.blocks)


def _is_written_by_few(call: SourceCall) -> bool:
    """Return whether each use of an opened file is under a rank check: the others only open it."""
    handles = {call.event[7], *(number for number, term in enumerate(call.terms) if term == ("w", call.event[7]))}
    uses = [
        row
        for row in call.program.rows_of(call.file, call.scope)
        if isinstance(row, SourceCall) and row.number > call.number and not handles.isdisjoint(_handed_to(row))
    ]
    return bool(uses) and all(row.own_reached_by.who in PARTIAL for row in uses)


def _handed_to(call: SourceCall) -> Iterator[int]:
    """Yield the terms that a call uses directly: its arguments, and the object whose method it is."""
    if call.receiver_term >= 0:
        yield call.receiver_term
    yield from call.argument_terms


def _let_one_write(call_path: CallPath, name: str) -> str:
    what = _what_to_guard(call_path, name)
    if _is_before_the_group(call_path):
        return (
            f"let one rank write: `if os.environ.get('RANK', '0') == '0':` around {what}, after `import os`. The "
            "process group is created later. Or put the rank into the path"
        )
    return (
        f"let one rank write: `if dist.get_rank() == 0:` around {what}, and dist.barrier() after it on all ranks if "
        "others read the file; or put the rank into the path"
    )


def _what_to_guard(call_path: CallPath, name: str) -> str:
    if not call_path.calls or _needs_all_ranks(call_path.row.program, (call_path.row.file, call_path.row.scope)):
        return f"{name}()"
    outer = call_path.calls[0]
    return f"{name}(), or around the call of {outer.method}() at {outer.place}"


@cached
def _needs_all_ranks(program: Program, function: tuple[int, int]) -> bool:
    """Return whether what runs from a function on creates the group, wraps a model or calls a collective."""
    made, reached = call_paths.tables(program), call_paths.reached_from(program, function)
    return not reached.isdisjoint(made.starting | made.wrapping) or any(
        (call.file, call.scope) in reached for call in program.calls_to(*COLLECTIVES)
    )


def _is_before_the_group(call_path: CallPath) -> bool:
    """Return whether the way leads to the row before the process group is created."""
    program, later = call_path.row.program, False
    for row in (call_path.row, *call_path.calls):
        for call in program.rows_of(row.file, row.scope):
            if isinstance(call, SourceCall) and call.number != row.number and _creates_group(program, call):
                if call.number < row.number:
                    return False
                later = True
    return later


def _creates_group(program: Program, call: SourceCall) -> bool:
    entered = call_paths.tables(program).entered.get((call.file, call.number), ())
    return call.is_to(*INIT) or any(call_paths.starts_a_group(program, function) for function in entered)


def _path_text(value: Value, shown: str) -> str:
    constant = value.constant
    if isinstance(constant, str) and constant:
        return f'"{constant}"'
    return f"the same file ({shown})" if shown else "the same file"


def only_of_this_process(call_path: CallPath, path: int, *, by_data: bool = True) -> bool:
    """Return whether a path, as given on this way, is one of this rank's own, or no path at all."""
    return any(
        rank_dependence.differs(row, term, by_data=by_data)
        or _is_in_memory(row.term_value(term))
        or _is_selected_by_rank(row.program, row.file, term, 0)
        for row, term in given_on(call_path, path)
    )


def given_on(call_path: CallPath, path: int) -> Iterator[tuple[EventRow, int]]:
    """Yield the term of a path and, for parameters, those that each call of the way gives."""
    row, term, calls = call_path.row, path, call_path.calls
    while True:
        yield row, term
        new, given, rest = path_values.term_on(call_path, row, term, calls[:1])
        if (new, given) == (row, term):
            return
        row, term, calls = new, given, (*rest, *calls[1:])


_DEEPEST = 5


@cached
def _is_selected_by_rank(program: Program, file: int, term: int, depth: int) -> bool:
    """Return whether a term is made of what the rank selects, ``mapping[rank]``: through names, attributes, callers."""
    if depth > _DEEPEST:
        return False
    terms = program.terms[file]
    for number in program.subterms(file, term):
        part = terms[number]
        if part[0] == "s" and terms[part[2]][0] != "k":
            index = program.evaluator.value(file, part[2])
            if index.rank is not None or index.has(Kind.RANK_DEPENDENT):
                return True
        if part[0] == "a":
            base = program.evaluator.value(file, part[1])
            if base.only(Kind.OBJECT) and len({atom.const for atom in base}) == 1:
                for site in program.evaluator.stores.get((*base.atoms[0].const, part[2]), ())[:_DEEPEST]:
                    store = program.event_row(*site)
                    if _is_selected_by_rank(program, store.file, store.payload[2], depth + 1):
                        return True
        if part[0] == "p":
            for caller in program.evaluator.callers.get((file, part[1]), ())[:_DEEPEST]:
                call = SourceCall(program, caller.file, caller.event)
                given = path_values.passed_term(program, call, (file, part[1]), part[2])
                if given is not None and _is_selected_by_rank(program, *given, depth + 1):
                    return True
    return False


def _is_in_memory(value: Value) -> bool:
    return any(atom.kind in (Kind.RESULT, Kind.NAMED) and atom.const in _IN_MEMORY for atom in value)


def _position_of(call: SourceCall, term: int) -> int | None:
    return call.term[2].index(term) if term in call.term[2] else None


def _keyword_of(call: SourceCall, term: int) -> str | None:
    return next((name for name, value in call.term[3] if value == term), None)


def name_of_call(call: SourceCall) -> str:
    """Return what a call looks like in the source: ``torch.save``."""
    terms = call.terms
    text = call.term_text(call.term[1])
    return text if len(text) < 40 and "…" not in text else last_name(terms, call.term[1])


def is_of_pathlib(call: SourceCall) -> bool:
    """Return whether a call is of a path object of :mod:`pathlib`."""
    return any(target.startswith("pathlib.") for target in call.targets)
