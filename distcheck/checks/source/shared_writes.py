"""What all ranks write, load, create, log or fetch at once: checkpoints, folders, runs of trackers, downloads.

Whether a line is reached by every rank is decided by :mod:`.ways`; this module knows what the calls do to files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity, Where
from distcheck.core.rank_evidence import FOLDER_OPTION, ONLY_LAUNCHED
from distcheck.core.registry import probe

from . import call_paths
from .call_paths import CallPath
from .checkpoint_files import OF_PATHS, file_names, holds_counters, is_never_there
from .collective_sequences import sequences_of
from .device_uses import roots_of
from .option_paths import spellings_of
from .program import FEW, EventRow, Program, SourceCall, cached
from .several_ranks import signs
from .source_text import last_name
from .term_queries import attributes_of, origins, same_path, uses_path
from .values import PARTIAL, Certainty, Kind, Value, Who
from .vocabulary import COLLECTIVES, INIT, SPAWNS

# saving


class _WriteCall(NamedTuple):
    """A call that writes a file: where its path stands among the arguments."""

    position: int
    keyword: str
    #: it writes a checkpoint: two writers at once leave it broken
    checkpoint: bool = False


_WRITERS = {
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
}
_ACCELERATOR = "accelerate.Accelerator"
#: Modes of a file that is written from its beginning.
_WRITING = re.compile(r"[wx][bt]?\+?$")
#: What is written to memory, or to a file that only this process has.
_IN_MEMORY = ("io.BytesIO", "BytesIO", "io.StringIO", "StringIO")


@probe(rules.DC720)
def every_rank_writes_one_file(program: Program) -> Iterator[Finding]:
    """A file whose path is the same on all ranks is written by one of them."""
    for call in program.calls_to(*_WRITERS):
        writer = next(_WRITERS[target] for target in call.targets if target in _WRITERS)
        path = call.argument_term(writer.position, writer.keyword)
        if (
            path < 0
            or (call.is_to(*_MODES) and _mode(call) not in ("w", "x", "a"))
            or "devnull" in call_paths.names_in(call, path)
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
        if call.method != "savefig" or call_paths.is_constant(call.term_value(path)):
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
    if callee[0] != "a" or (call.targets and not _of_pathlib(call)):
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
    launched = checkpoint and call_path is None and not _is_optional(call)
    if launched:
        trained = call_path = call_paths.path_past_a_trainer(program, call, own=True)
    if call_path is None or only_of_this_process(call_path, path) or call.inside("except"):
        return
    value = call_paths.value_on(call_path, path)
    certain = call_path.certainty == Certainty.PROVEN and call_paths.is_constant(value)
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
        or call_paths.in_tests(call_path)
        or (not starting and call_paths.owned_by_a_framework(call_path))
        or _is_written_by_few(call)
    ):
        severity = Severity.INFO
    appends = call.is_to(*_MODES) and _mode(call) == "a"
    if appends:
        severity = Severity.INFO  # the lines of all ranks stand in it, and none is lost
    name = _called(call)
    reason = next(
        (
            f"`{call.term_text(node[2])}` also passes without its rank check"
            for _, node in call.blocks
            if node[1] == "if" and node[3] and call_paths.passes_by_a_count(call, node[2])
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
        call_paths.differs(row, term, by_data=by_data)
        or _is_in_memory(row.term_value(term))
        or _is_selected_by_rank(row.program, row.file, term, 0)
        for row, term in given_on(call_path, path)
    )


def given_on(call_path: CallPath, path: int) -> Iterator[tuple[EventRow, int]]:
    """Yield the term of a path and, for parameters, those that each call of the way gives."""
    row, term, calls = call_path.row, path, call_path.calls
    while True:
        yield row, term
        new, given, rest = call_paths.term_on(call_path, row, term, calls[:1])
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
                given = call_paths.passed_term(program, call, (file, part[1]), part[2])
                if given is not None and _is_selected_by_rank(program, *given, depth + 1):
                    return True
    return False


def _is_in_memory(value: Value) -> bool:
    return any(atom.kind in (Kind.RESULT, Kind.NAMED) and atom.const in _IN_MEMORY for atom in value)


def _position_of(call: SourceCall, term: int) -> int | None:
    return call.term[2].index(term) if term in call.term[2] else None


def _keyword_of(call: SourceCall, term: int) -> str | None:
    return next((name for name, value in call.term[3] if value == term), None)


def _called(call: SourceCall) -> str:
    """Return what a call looks like in the source: ``torch.save``."""
    terms = call.terms
    text = call.term_text(call.term[1])
    return text if len(text) < 40 and "…" not in text else last_name(terms, call.term[1])


# logging

_TRACKERS = {
    "wandb.init": "wandb.init",
    "trackio.init": "trackio.init",
    "swanlab.init": "swanlab.init",
    "mlflow.start_run": "mlflow.start_run",
    "comet_ml.Experiment": "comet_ml.Experiment",
    "comet_ml.start": "comet_ml.start",
    "neptune.init_run": "neptune.init_run",
    "neptune.init": "neptune.init",
    "clearml.Task.init": "Task.init",
    "aim.Run": "aim.Run",
    "torch.utils.tensorboard.SummaryWriter": "SummaryWriter",
    "tensorboardX.SummaryWriter": "SummaryWriter",
}
#: Arguments for several processes; those with one id share one run.
_FOR_SEVERAL = ("group", "id", "settings", "resume_id", "experiment_key", "system_tracking_interval")
_SWITCHES = ("WANDB_MODE", "WANDB_DISABLED", "WANDB_SILENT", "NEPTUNE_MODE", "COMET_MODE", "SWANLAB_MODE")


@probe(rules.DC721)
def every_rank_logs(program: Program) -> Iterator[Finding]:
    """One rank starts the tracker and prints, or each prints its rank."""
    for call in program.calls_to(*_TRACKERS):
        if call.has_star or any(call.gives(None, name) for name in _FOR_SEVERAL) or _is_switched_off(call):
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        if call_path is None or _names_its_rank(call, call_path) or _switched_by_variable(program, call):
            continue
        name = next(_TRACKERS[target] for target in call.targets if target in _TRACKERS)
        loud = not (call_paths.owned_by_a_framework(call_path) or call_paths.in_tests(call_path))
        text = f"every rank starts {name}() here, so a job has as many runs as ranks"
        if name == "SummaryWriter" and any(call.gives(0, argument) for argument in ("log_dir", "logdir")):
            # the default is a folder of each host and second; in one folder TensorBoard shows one run
            loud = False
            text = "every rank starts SummaryWriter() here in one folder, and TensorBoard mixes their events"
        yield call.found(
            rules.DC721,
            text,
            fix=_tracker_fix(call, name),
            basis=(call_path.certainty,),
            severity=Severity.WARNING if loud else Severity.INFO,
            flow=program.flow(call_path.steps),
            **signs(call, call_path),
        )
    yield from _prints(program)


#: Progress bars, which are lines of output in each turn.
_BARS = ("tqdm.tqdm", "tqdm", "tqdm.auto.tqdm", "tqdm.std.tqdm", "tqdm.autonotebook.tqdm", "tqdm.trange",
         "tqdm.auto.trange", "rich.progress.track")  # fmt: skip


def _prints(program: Program) -> Iterator[Finding]:
    """Yield one finding for what each function prints on all ranks: first in a loop, else anywhere."""
    made = call_paths.tables(program)
    # where a group or a trainer is made or a model wrapped; elsewhere it is too little to follow its callers for
    files = {file for file, _ in made.starting | made.wrapping | made.training}
    outputs = [
        call for call in program.calls_named("print", files=files) if call.argument_terms and call.is_to("print")
    ]
    bars = [call for call in program.calls_to(*_BARS) if call.file in files and not call.gives(None, "disable")]
    seen: set[tuple[int, int]] = set()
    for call in sorted([*outputs, *bars], key=lambda call: (call.file, not call.loops, call.number)):
        if (call.file, call.scope) in seen or call.has_star or call.inside("except"):
            continue
        if call.method == "print" and (call.gives(None, "file") or _prints_are_replaced(program, call.file)):
            continue
        call_path = call_paths.path_of_all_ranks(program, call) or call_paths.path_past_a_trainer(program, call)
        if call_path is None or call_paths.in_tests(call_path) or _names_its_rank(call, call_path):
            continue
        seen.add((call.file, call.scope))
        text, fix = (
            "every rank prints this",
            "print on one rank: `if dist.get_rank() == 0:`, or name the rank in the text",
        )
        if call.method != "print":
            text = "every rank shows a progress bar of its own"
            fix = f"switch it off elsewhere: {call.method}(…, disable=dist.get_rank() != 0)"
        elif call.loops:
            text += " in each iteration"
        yield call.found(rules.DC721, text, fix=fix, severity=Severity.INFO, flow=program.flow(call_path.steps))


def _tracker_fix(call: SourceCall, name: str) -> str:
    if name == "wandb.init":
        return 'switch it off elsewhere: wandb.init(…, mode="online" if dist.get_rank() == 0 else "disabled")'
    target = call.use.removeprefix("assign:") if call.use.startswith("assign:") else ""
    if target:
        return f"make it on one rank only: `{target} = {name}(…) if dist.get_rank() == 0 else None`"
    return f"call {name}() on one rank only: `if dist.get_rank() == 0:`"


def _is_switched_off(call: SourceCall) -> bool:
    mode = call.argument(None, "mode")
    return mode is not None and (mode.constant in ("disabled", "offline") or _differs_in(call, "mode"))


def _differs_in(call: SourceCall, keyword: str) -> bool:
    return call_paths.differs(call, call.argument_term(None, keyword))


def _names_its_rank(call: SourceCall, call_path: CallPath) -> bool:
    terms = call.argument_terms
    return any(only_of_this_process(call_path, term, by_data=False) for term in terms)


def _switched_by_variable(program: Program, call: SourceCall) -> bool:
    """Return whether a variable that switches trackers off is set for some ranks only."""
    files = call_paths.related(program, call.file)
    return any(file in files for file in program.table(_switching))


def _switching(program: Program) -> Iterator[int]:
    for row in program.rows("store"):
        constants = row.term_value(row.payload[1]).constants if row.own_reached_by.who in PARTIAL else ()
        if any(constant in _SWITCHES for constant in constants):
            yield row.file


def _prints_are_replaced(program: Program, file: int) -> bool:
    files = call_paths.related(program, file)
    return any(one in files for one in program.table(_replacing))


def _replacing(program: Program) -> Iterator[int]:
    """Yield the files that put something in the place of ``print``."""
    for (_, name), stores in program.evaluator.outside.items():
        if name == "print":
            yield from (file for file, _ in stores)
    for file in range(len(program.index.files)):
        if any("print" in scope.bindings for scope in program.index.scopes[file]):
            yield file


# folders


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
        found, given, _ = call_paths.term_on(call_path, row, base, call_path.calls[position : position + 1])
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
    if call.method != "mkdir" or ((call.positional or call.targets) and not _of_pathlib(call)):
        return None
    if call.constant(2, "exist_ok", False) is not False:
        return None
    receiver = call.receiver
    if receiver.has(Kind.OBJECT, Kind.MODULE, Kind.NAMED, Kind.WRAPPED) or not call.receiver_text:
        return None
    return "Path.mkdir"


def _of_pathlib(call: SourceCall) -> bool:
    return any(target.startswith("pathlib.") for target in call.targets)


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
    yield call.found(
        rules.DC722,
        f"every rank creates the folder {shown} here, and all but the first rank raise FileExistsError",
        fix=text,
        edits=edits,
        safe=bool(edits),
        basis=(call_path.certainty,),
        severity=Severity.INFO if mild or call_paths.in_tests(call_path) else Severity.WARNING,
        flow=program.flow(call_path.steps),
        **_option_of_folder(call, path),
        **signs(call, call_path),
    )


def _exist_ok_edit(program: Program, call: SourceCall, kind: str) -> tuple[Edit, ...]:
    """The edit that adds ``exist_ok=True``; none for ``os.mkdir``, which does not know it, in another spelling."""
    given = call.argument_span(2, "exist_ok")
    if given is not None:
        return (given.replaced("True"),)
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
    return (name.replaced("makedirs"), edit)


# loading

#: Names of what holds weights, and of what holds data.
_OF_WEIGHTS = re.compile(
    r"ckpt|check_?point|resume|weight|pretrain|model|snapshot|state_?dict|\.pth|network|backbone|finetune|init_from",
    re.I,
)
_OF_DATA = re.compile(
    r"data|feature|label|token|embed|target|cache|split|index|indices|vocab|stats|prompt|latent|sample"
    r"|predictions|proposals|annotations",
    re.I,
)
#: Names of what was never a file.
_MEMORY = re.compile(r"buf|bytes|serialized|stream|blob|payload|memory|BytesIO|\bio\b", re.I)
_RECEIVERS = ("load_state_dict", "load_model_state_dict", "set_model_state_dict")


@probe(rules.DC723)
def checkpoints_go_where_they_were(program: Program) -> Iterator[Finding]:
    """A checkpoint that several ranks load is brought to a device of their own."""
    used, plain = _fed_to_models(program)
    for call in program.calls_to("torch.load"):
        given = call.argument_term(1, "map_location")
        # what is handed on may be None by default; who calls decides
        handed_on = given >= 0 and call.terms[given] != ("k", "none", None)
        if call.has_star or (handed_on and not _is_none_for_all(program, call, given)):
            continue
        if (
            call.gives(None, "mmap")
            or not call.gives(0, "f")
            or _MEMORY.search(call_paths.names_in(call, call.argument_term(0, "f")))
        ):
            continue
        if (call.file, call.number) in plain or not _loads_weights(call, used) or _is_published(program, call):
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        if handed_on and (call_path is None or call_paths.in_tests(call_path)):
            # tests are one process: others that call it are not in sight
            call_path = call_paths.path_from_outside(program, call) or call_path
        trained = call_paths.path_past_a_trainer(program, call) if call_path is None else None
        call_path = call_path or trained
        if call_path is None or only_of_this_process(call_path, call.argument_term(0, "f")):
            continue
        if _never_on_gpus(program, call_path) or _written_from_the_host(program, call):
            continue
        if holds_counters(program, call) or is_never_there(program, call):
            continue
        edit = None if handed_on else _map_location_edit(program, call)
        yield call.found(
            rules.DC723,
            "every rank loads this checkpoint onto the GPU that it was saved from: GPU 0 where rank 0 has saved it",
            fix=f'give {call.term_text(given)} the default "cpu": load_state_dict() copies the tensors to where the '
            "parameters are"
            if handed_on
            else 'add map_location="cpu": load_state_dict() copies the tensors to where the parameters are',
            edits=(edit,) if edit is not None else (),
            safe=False,
            risk="tensors of the checkpoint that are used directly, without load_state_dict(), are on the CPU then",
            basis=(call_path.certainty,),
            severity=Severity.INFO if trained or call_paths.in_tests(call_path) else Severity.WARNING,
            flow=program.flow(call_path.steps),
            **signs(call, call_path),
        )


def _is_none_for_all(program: Program, call: SourceCall, term: int) -> bool:
    """Return whether an argument is a parameter that is None by default, and that no caller in the project gives."""
    parts = call.terms[term]
    if parts[0] != "p" or parts[1] != call.scope:
        return False
    default = next((given for name, given, _ in call.function.parameters if name == parts[2]), -1)
    if default < 0 or call.terms[default] != ("k", "none", None):
        return False
    function = (call.file, call.scope)
    sites = program.evaluator.likely_callers(function)
    return not any(_may_pass(program, SourceCall(program, *site[:2]), call, parts[2]) for site in sites)


def _may_pass(program: Program, caller: SourceCall, call: SourceCall, name: str) -> bool:
    """Return whether a caller may give something else than None for a parameter."""
    if caller.has_star or caller.is_to(*_STARTERS):
        return True
    passed = call_paths.passed_term(program, caller, (call.file, call.scope), name)
    return passed is not None and caller.terms[passed[1]] != ("k", "none", None)


#: What starts a function with arguments that stand elsewhere.
_STARTERS = (*SPAWNS, "torch.multiprocessing.Process")


def _map_location_edit(program: Program, call: SourceCall) -> Edit | None:
    given = call.argument_span(1, "map_location")
    return given.replaced('"cpu"') if given is not None else program.argument_edit(call, 'map_location="cpu"')


#: What returns the path of a file that it fetched: weights that others publish hold tensors of the CPU.
_FETCHED = frozenset(
    ["hf_hub_download", "snapshot_download", "cached_download", "cached_file", "cached_path", "try_to_load_from_cache",
     "get_file", "maybe_download", "download_and_cache", "check_file_exist_or_download"]
)  # fmt: skip
#: A folder of weights that others publish, unless the project saves into one.
_OF_OTHERS = re.compile(r"(^|/)pre_?trained[\w-]*/", re.I)
#: Names of files that a run writes.
_OF_RUNS = re.compile(
    r"check_?point|ckpt|resume|snapshot|last|latest|best|final|epoch|step|iter|optim"
    r"|^(pytorch_)?(model|weights?|net|network|state|state_dict)(\.\w+)*$",
    re.I,
)


def _is_published(program: Program, call: SourceCall) -> bool:
    """Return whether a file holds weights that others publish: it was fetched, or has a fixed name that no code saves.

    So it does where an option may also hold the name of a model: ``args.unet_model_name_or_path``, and in a folder of
    pretrained weights into which no code saves. A name that a run gives to its checkpoints does not count.
    """
    path = call.argument_term(0, "f")
    if path < 0:
        return False
    numbers = list(program.subterms(call.file, path))
    terms = call.terms
    if terms[path][0] in ("a", "p", "v") and last_name(terms, path).endswith("name_or_path"):
        return True
    called = [SourceCall(program, call.file, terms[number][5]) for number in numbers if terms[number][0] == "c"]
    if any(one.method in _FETCHED for one in called):
        return True
    texts = [terms[number][2] for number in numbers if terms[number][:2] == ("k", "str")]
    if any(map(_OF_OTHERS.search, texts)) and not any(
        _OF_OTHERS.search(str(save.terms[number][2]))
        for save in program.calls_to(*_WRITERS)
        for term in save.argument_terms
        for number in program.subterms(save.file, term)
        if save.terms[number][:2] == ("k", "str")
    ):
        return True
    if not all(_is_fixed(call, number) for number in numbers):
        return False
    names = {text.replace("\\", "/").rsplit("/", 1)[-1] for text in texts}
    # a bare name is in the folder where the script was started, as what runs write
    elsewhere = any("/" in text for text in texts) or any(
        terms[number] == ("i", "__file__") or terms[number][2:3] == ("__file__",) for number in numbers
    )
    if not names or not elsewhere or any(_OF_RUNS.search(name) for name in names):
        return False
    return not any(
        program.terms[save.file][number][0] == "k"
        and str(program.terms[save.file][number][2]).replace("\\", "/").rsplit("/", 1)[-1] in names
        for save in program.calls_to(*_WRITERS)
        for term in save.argument_terms
        for number in program.subterms(save.file, term)
    )


def _is_fixed(call: SourceCall, number: int) -> bool:
    """Return whether a part of a path is the same in each run: a text, the folder of the code, a function of paths."""
    part = call.terms[number]
    if part[0] in ("k", "o", "f", "i", "t"):
        return True
    if part[0] == "v":
        return part[2] == "__file__" or bool(call.program.bound(call.file, part))
    if part[0] == "c":
        return last_name(call.terms, part[1]) in OF_PATHS
    return part[0] == "a" and (part[2] in OF_PATHS or part[2] in ("path", "parent"))


#: Names of what has a state without tensors on a GPU: numbers of steps, the scale of a loss, random generators.
_WITHOUT_TENSORS = re.compile(r"sched|warm_?up|(^|_)scaler?($|_)|grad_?scal|rng|generator|sampler|early_?stop", re.I)


def _fed_to_models(program: Program) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the calls of torch.load whose result, or a part of it, becomes a model's or an optimizer's state.

    And those whose result only becomes the state of a scheduler or the like, which has no tensors on a GPU.
    """
    found: set[tuple[int, int]] = set()
    plain: set[tuple[int, int]] = set()
    for call in program.calls_named(*_RECEIVERS):
        kind = plain if _has_no_tensors(call) else found
        for term in call.argument_terms:
            kind |= _loads_in(call, term, 0)
    return found, plain - found


def _has_no_tensors(call: SourceCall) -> bool:
    """Return whether a state is that of a scheduler, or of something else without tensors on a GPU."""
    receiver = call.receiver
    if any(str(atom.const).startswith("torch.optim.lr_scheduler.") for atom in receiver if atom.kind == Kind.RESULT):
        return True
    return bool(_WITHOUT_TENSORS.search(call.receiver_text.rsplit(".", 1)[-1]))


def _loads_in(row: EventRow, term: int, depth: int) -> set[tuple[int, int]]:
    """Return the calls of torch.load that a term is made of."""
    if term < 0 or depth > 10:
        return set()
    found = {
        atom.call
        for atom in row.term_value(term)
        if atom.kind == Kind.RESULT and atom.const == "torch.load" and atom.call is not None
    }
    parts = row.terms[term]
    for inner in call_paths.operands(parts):
        found |= _loads_in(row, inner, depth + 1)
    return found


def _loads_weights(call: SourceCall, used: set[tuple[int, int]]) -> bool:
    """Whether what is loaded are weights: they end in a model, or path and name mean weights and nothing means data."""
    if (call.file, call.number) in used:
        return True
    name = call.use.removeprefix("assign:") if call.use.startswith("assign:") else ""
    owner = call.program.evaluator.owner_of(call.file, call.scope)
    words = f"{name} {call_paths.names_in(call, call.argument_term(0, 'f'))} {call.function.name.replace('model', '')}"
    if owner >= 0:
        one = call.program.index.classes[call.file][owner]
        if call.program.evaluator.derives(
            (call.file, owner), "torch.utils.data.Dataset", "torch.utils.data.IterableDataset"
        ) or re.search(r"data", one.name, re.I):
            return False
    return bool(_OF_WEIGHTS.search(words)) and not _OF_DATA.search(words)


def _never_on_gpus(program: Program, call_path: CallPath) -> bool:
    """Return whether all process groups of the program are for CPUs."""
    files = call_paths.related(program, call_path.root[0])
    backends = [
        call.constant(0, "backend")
        for call in program.calls_to("torch.distributed.init_process_group")
        if call.file in files
    ]
    return bool(backends) and all(backend in ("gloo", "mpi") for backend in backends)


def _written_from_the_host(program: Program, call: SourceCall) -> bool:
    """Return whether the project writes that file from tensors that it has moved to the CPU: the same class, by all of
    its saves, or whatever writes to the same path or to a file of the same name.
    """
    owner = program.evaluator.owner_of(call.file, call.scope)
    saves = [
        save
        for save in program.calls_to("torch.save")
        if owner >= 0 and (save.file, program.evaluator.owner_of(save.file, save.scope)) == (call.file, owner)
    ]
    if saves and all(_is_on_the_host(program, save) for save in saves):
        return True
    path = call.argument(0, "f")
    paths = set() if path is None else set(path.constants)
    names = file_names(program, call, call.argument_term(0, "f"))
    every = list(program.calls_to("torch.save"))
    if not names and not paths and every and all(_is_on_the_host(program, save) for save in every):
        return True
    for save in every:
        target = save.argument(1, "f")
        same_path = target is not None and not paths.isdisjoint(target.constants)
        if not same_path and names.isdisjoint(file_names(program, save, save.argument_term(1, "f"))):
            continue
        if _is_on_the_host(program, save) or _moved_before(program, save):
            return True
    return False


def _moved_before(program: Program, save: SourceCall) -> bool:
    """Return whether a function moves a module to the CPU before it saves: ``model.cpu()`` changes the module."""
    return any(
        moved.file == save.file and moved.scope == save.scope and moved.number < save.number and moved.use == "drop"
        for moved in program.calls_named("cpu")
    )


#: Functions that move tensors to the CPU, of torch and of projects: ``cpu``, ``_to_cpu``, ``weights_to_cpu``.
_TO_CPU = re.compile(r"(^|_)cpu($|_)")


def _is_on_the_host(program: Program, save: SourceCall) -> bool:
    """Return whether what is saved was moved to the CPU: as a whole, or one item after the other."""
    saved = save.argument_term(0, "obj")
    return any(_mentions_cpu(program, save.file, part, 0) for part in _weights_in(program, save, saved)) or any(
        row.kind == "store"
        and row.number < save.number
        and _mentions_cpu(program, row.file, row.payload[2], _DEEPEST_TERM - 1)
        and any(same_path(row.terms, part, row.payload[0]) for part in program.subterms(save.file, saved))
        for row in program.rows_of(save.file, save.scope)
    )


def _weights_in(program: Program, save: SourceCall, saved: int) -> list[int]:
    """Return what of a dict are states of modules, next to metrics and the like; all of it if nothing is."""
    parts = save.terms[saved] if saved >= 0 else ("-",)
    states = [
        value
        for value in (parts[2] if parts[0] == "d" else ())
        if any(
            save.terms[number][0] == "a" and save.terms[number][2] == "state_dict"
            for number in program.subterms(save.file, value, names=False)
        )
    ]
    return states or [saved]


#: So deep a moved tensor is searched in what is saved.
_DEEPEST_TERM = 8


def _mentions_cpu(program: Program, file: int, term: int, depth: int) -> bool:
    if term < 0 or depth > _DEEPEST_TERM:
        return False
    terms = program.terms[file]
    parts = terms[term]
    if parts[:2] == ("k", "str") and parts[2] == "cpu":
        return True
    if parts[0] == "c" and _TO_CPU.search(last_name(terms, parts[1])):
        return True
    if parts[0] == "p":
        given = [origin for origin in origins(program, file, term) if origin != (file, term)]
        return bool(given) and all(_mentions_cpu(program, *origin, depth + 1) for origin in given)
    return any(_mentions_cpu(program, file, inner, depth + 1) for inner in call_paths.operands(parts))


# downloads

#: What fetches into one cache for all, each file by a name of its own first: nothing breaks, but each rank fetches it.
_FETCHES_APART = {
    "torch.hub.load_state_dict_from_url": (1, "model_dir"),
    "torch.utils.model_zoo.load_url": (1, "model_dir"),
    "torch.hub.download_url_to_file": (1, "dst"),
}
_FETCHES = {
    **_FETCHES_APART,
    "torch.hub.load": (0, "repo_or_dir"),
    "urllib.request.urlretrieve": (1, "filename"),
    "torchvision.datasets.utils.download_url": (1, "root"),
    "torchvision.datasets.utils.download_and_extract_archive": (1, "download_root"),
    "gdown.download": (1, "output"),
    "gdown.download_folder": (1, "output"),
    "wget.download": (1, "out"),
}
_DATA_SET_NAMES = (
    "CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "SVHN", "STL10", "VOCDetection",
    "VOCSegmentation", "CelebA", "Food101", "Flowers102", "OxfordIIITPet", "StanfordCars", "Caltech101", "Caltech256",
    "Omniglot", "SBDataset", "SBU", "USPS", "Places365", "DTD", "GTSRB", "Country211", "EuroSAT", "PCAM",
    "FGVCAircraft", "RenderedSST2", "SUN397", "Imagenette", "INaturalist", "LFWPeople", "PhotoTour", "HMDB51",
    "UCF101", "MovingMNIST", "Kinetics", "LIBRISPEECH", "SPEECHCOMMANDS", "YESNO", "LJSPEECH", "LIBRITTS", "VCTK_092",
    "GTZAN", "LibriMix", "TEDLIUM", "CMUARCTIC", "DR_VCTK", "LibriLightLimited",
)  # fmt: skip
_DATA_SETS = ("torchvision.datasets.", "torchaudio.datasets.", "torchtext.datasets.")


def _downloads(program: Program) -> Iterator[tuple[SourceCall, int]]:
    """Calls that fetch something, and the term of its destination."""
    for call in program.calls_to(*_FETCHES):
        if call.is_to("torch.hub.load") and call.constant(None, "source") == "local":
            continue
        position, keyword = next(_FETCHES[target] for target in call.targets if target in _FETCHES)
        yield call, call.argument_term(position, keyword)
    for call in program.calls_named(*_DATA_SET_NAMES):
        if call.gives(None, "download") and any(target.startswith(_DATA_SETS) for target in call.targets):
            yield call, call.argument_term(0, "root")


@probe(rules.DC725)
def every_rank_downloads(program: Program) -> Iterator[Finding]:
    """One process of each host downloads, and the others wait for it."""
    # a second call of one function finds what the first one has fetched
    reported: set[tuple[int, int, str, str]] = set()
    for call, path in _downloads(program):
        source = "" if call.gives(None, "download") else call.term_text(call.argument_term(0))
        fetched = (call.file, call.scope, _called(call), source)
        if fetched in reported:
            continue
        call_path = next(_real_downloads(program, call), None)
        if call_path is None or (path >= 0 and only_of_this_process(call_path, path)) or call.inside("except"):
            continue
        if _others_waited(program, call_path):
            continue
        reported.add(fetched)
        shown = _called(call)
        loud = not call_paths.in_tests(call_path) and not call.is_to(*_FETCHES_APART)
        yield rules.DC725.found(
            f"every rank downloads to the same path here ({shown})",
            where=_flag_place(program, call),
            fix=Fix(_download_fix(call, shown), where="code"),
            evidence={"flow": program.flow(call_path.steps), **signs(call, call_path)},
            severity=Severity.WARNING if loud else Severity.INFO,
        )


def _flag_place(program: Program, call: SourceCall) -> Where:
    """Return the location of a download: its flag, where it has one."""
    span = call.argument_span(None, "download")
    if span is None or span.line == call.line:
        return call.where()
    return program.where(call.file, span, call.function.qualified or None)


def _download_fix(call: SourceCall, shown: str) -> str:
    if call.gives(None, "download"):
        return (
            f"let one rank of each host call {shown}(…, download=True), then dist.barrier() on all ranks, then "
            f"{shown}(…, download=False) everywhere"
        )
    return f"let one rank of each host call {shown}(), and dist.barrier() after it on all ranks"


def _real_downloads(program: Program, call: SourceCall) -> Iterator[CallPath]:
    """Yield the ways of all ranks on which the call does fetch: not with download=False."""
    flag = call.argument_term(None, "download")
    for call_path in call_paths.paths_of_all_ranks(program, call, first_is_a_guard=True):
        if flag >= 0 and call_paths.value_on(call_path, flag).constant is not True:
            continue
        yield call_path


def _others_waited(program: Program, call_path: CallPath) -> bool:
    """Whether, in a function on the way, the first rank came first: barriers around it, or it was fetched before."""
    for row in (call_path.row, *call_path.calls):
        before = [
            one
            for one in program.rows_of(row.file, row.scope)
            if isinstance(one, SourceCall) and one.number < row.number
        ]
        for one in before:
            who = one.own_reached_by.who
            if who in (Who.OTHERS, Who.LOCAL_OTHERS) and _is_barrier(program, one):
                return True
            if who in FEW and _followed_by_a_barrier(program, one, before):
                return True
    return False


_BARRIERS = frozenset(["barrier", "wait_for_everyone", "rendezvous", "synchronize"])


def _followed_by_a_barrier(program: Program, one: SourceCall, calls: Iterable[SourceCall]) -> bool:
    return any(
        later.number > one.number and later.own_reached_by.who not in PARTIAL and _is_barrier(program, later)
        for later in calls
    )


def _is_barrier(program: Program, call: SourceCall) -> bool:
    collective = sequences_of(program).collective_site(call)
    if collective is not None and not _BARRIERS.isdisjoint(collective.operations):
        return True
    return call.method in _BARRIERS and not call.is_to("torch.cuda.synchronize")
