"""Files that one rank writes and all use, with nothing between that makes the others wait."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from . import vocabulary
from .collective_sequences import Sequences, flow_of, guarded_calls, sequences_of
from .folder_races import exists_by_then
from .path_values import CallPath
from .program import Program, SourceCall
from .source_text import last_name
from .term_queries import uses_path
from .values import FEW, PARTIAL, Kind, Who
from .vocabulary import word_set

#: Functions that write a file, and where its path stands.
_WRITERS = {
    "torch.save": (1, "f"), "numpy.save": (0, "file"), "numpy.savez": (0, "file"),
    "safetensors.torch.save_file": (1, "filename"),
    "joblib.dump": (1, "filename"),
}  # fmt: skip
#: Functions that read one.
_READERS = {
    "torch.load": (0, "f"), "numpy.load": (0, "file"), "safetensors.torch.load_file": (0, "filename"),
    "joblib.load": (0, "filename"),
    "os.listdir": (0, "path"), "pandas.read_csv": (0, "filepath_or_buffer"), "os.path.getsize": (0, "filename"),
}  # fmt: skip
#: Functions that need a folder, not a file in it.
_LISTERS = ("os.listdir",)
_MAKERS = {"os.makedirs": (0, "name"), "os.mkdir": (0, "path")}
_WRITING_METHODS = frozenset(["write_text", "write_bytes"])
_READING_METHODS = word_set("read_text read_bytes iterdir")
#: Contexts that make nothing wait.
_PLAIN_CONTEXTS = word_set(
    "open no_grad inference_mode autocast suppress catch_warnings set_grad_enabled device record_function"
)
_WAITING = frozenset(["sleep", "exists", "is_file", "isfile", "is_dir", "isdir"])


@probe(rules.DC724)
def others_wait_for_the_writer(program: Program) -> Iterator[Finding]:
    """Between what one rank writes and what all read stands something that makes the others wait."""
    sequences = sequences_of(program)
    done: set[tuple[int, int]] = set()
    for writer, guards in guarded_calls(program):
        guard = guards[-1]
        if len(guards) != 1 or guard.who.who not in FEW or guard.kind != "if" or not guard.polarity:
            continue
        made = _written(program, writer)
        if made is None or _in_a_waiting_context(program, writer, guard.block):
            continue
        path, folder = made
        if folder and exists_by_then(CallPath(writer, (), (writer.file, writer.scope), 0), path):
            continue
        reader = _reader(program, sequences, writer, guard.block, path, folder)
        if reader is None or (reader.file, reader.number) in done:
            continue
        done.add((reader.file, reader.number))
        what = "the folder" if folder else "the file"
        yield reader.found(
            rules.DC724,
            f"`{reader.text()}` uses {what} that {_who(guard.who.who)} makes in {writer.line_name}, and nothing makes "
            "the other ranks wait for it",
            fix=f"create the folder on every rank: move `{writer.text()}` out of the branch (with exist_ok=True), or "
            f"put a barrier between {writer.line_name} and {reader.line_name}"
            if folder
            else f"put a barrier for all ranks between {writer.line_name} and {reader.line_name}",
            basis=(guard.who,),
            severity=reader.milder_in_tests(rules.DC724),
            flow=[
                *flow_of(program, writer.file, guard.term),
                writer.as_step(),
                reader.as_step(),
            ],
        )


def _who(who: str) -> str:
    return who if who in (Who.LOCAL_MAIN, Who.ONE) else Who.MAIN


def _written(program: Program, call: SourceCall) -> tuple[int, bool] | None:
    """Return the term of the path that a call writes, and whether that is a folder."""
    for target in call.targets:
        if target in _WRITERS:
            return _term(call, *_WRITERS[target]), False
        if target in _MAKERS:
            return _term(call, *_MAKERS[target]), True
        if target in ("open", "io.open"):
            return (_term(call, 0, "file"), False) if _mode(call, 1)[:1] in ("w", "x") else None
    if program.functions(call):
        return None
    if call.receiver_term < 0:
        return None
    if call.method in _WRITING_METHODS or (call.method == "open" and _mode(call, 0)[:1] in ("w", "x")):
        return call.receiver_term, False
    if call.method == "mkdir":
        return call.receiver_term, True
    return None


def _read(program: Program, call: SourceCall, folder: bool) -> int:
    """Return the term of the path that a call needs to be there; -1 for any other call."""
    for target in call.targets:
        if target in _READERS:
            # a file that is read from the folder was there before, and so was the folder
            return _term(call, *_READERS[target]) if not folder or target in _LISTERS else -1
        if target in ("open", "io.open"):
            reads = _mode(call, 1)[:1] in ("r", "")
            return _term(call, 0, "file") if reads is not folder else -1
        if folder and target in _WRITERS:
            return _term(call, *_WRITERS[target])
    if program.functions(call):
        return -1
    if call.method in (_WRITING_METHODS | {"iterdir"} if folder else _READING_METHODS):
        return call.receiver_term
    if call.method == "open" and not call.targets and (_mode(call, 0)[:1] in ("r", "")) is not folder:
        return call.receiver_term
    return -1


def _term(call: SourceCall, position: int, name: str) -> int:
    return call.argument_term(position, name)


def _mode(call: SourceCall, position: int) -> str:
    constant = call.constant(position, "mode", "")
    return constant if isinstance(constant, str) else "?"


def _reader(
    program: Program, sequences: Sequences, writer: SourceCall, branch: int, path: int, folder: bool
) -> SourceCall | None:
    """Return the first call behind the branch by which all ranks need the file, unless something makes them wait."""
    terms = program.terms[writer.file]
    own = terms[path] if path >= 0 else ("-",)
    if own[0] == "-" or (own[0] == "k" and own[2] in (None, ".")):
        return None
    loops = [number for number, _ in writer.loops]
    for row in program.rows_of(writer.file, writer.scope):
        if row.number <= writer.number:
            continue
        if [number for number, _ in row.loops][: len(loops)] != loops:
            # what stands behind the loop comes after many steps
            return None
        if row.kind in ("yield",):
            return None
        if any(number == branch for number, _ in row.blocks):
            continue
        if not isinstance(row, SourceCall):
            continue
        term = _read(program, row, folder)
        if term >= 0 and uses_path(terms, term, path, folder):
            reached = row.own_reached_by.who
            if reached in PARTIAL or reached == Who.SINGLE or row.inside("except") or program.excludes(writer, row):
                continue
            if folder and exists_by_then(CallPath(row, (), (row.file, row.scope), 0), path):
                continue
            return row
        if _makes_wait(program, sequences, row):
            return None
    return None


def _makes_wait(program: Program, sequences: Sequences, row: SourceCall) -> bool:
    """Return whether other ranks may wait here: a collective, a message, polling, a wrapped model, something unseen."""
    if sequences.collective_site(row) is not None or sequences.is_unseen(row) or row.method in _WAITING:
        return True
    if any(target in vocabulary.COLLECTIVES or target in vocabulary.POINT_TO_POINT for target in row.targets):
        return True
    if row.method.lower() in vocabulary.MAIN_FIRST or any(target in vocabulary.WRAPPERS for target in row.targets):
        return True
    if row.method == "prepare" and row.receiver.named("accelerate.Accelerator"):
        # wraps models: their parameters are sent from rank 0 to the others
        return True
    return row.callee.has(Kind.WRAPPED) or any(sequences.has_any(function) for function in program.functions(row))


def _in_a_waiting_context(program: Program, writer: SourceCall, branch: int) -> bool:
    """Return whether a ``with`` around the branch may itself make the others wait at its end."""
    terms = program.terms[writer.file]
    return any(
        node[1] == "with" and number < branch and last_name(terms, node[2]) not in _PLAIN_CONTEXTS
        for number, node in writer.blocks
    )
