"""Numbers as GPU indices: the global rank (DC201), and ``-1`` or a text (DC215).

Where a device is named is the table of :mod:`.device_uses`; other uses of rank numbers are in :mod:`.rank_numbers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity, Where, grouped
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import vocabulary
from .device_uses import (
    BIND,
    GROUP,
    LOADED,
    MADE,
    MASKS,
    WRAPPED,
    DeviceUse,
    called_in,
    device_uses,
    fits_on_one_host,
    is_for_one_process,
    is_never_used,
    local_rank_here,
    name_here,
    roots_of,
)
from .environment_variables import writes
from .imports_of_os import import_edit, import_place
from .program import EventRow, Program, SourceCall
from .sentinels import UnsetRank, unset_rank
from .several_hosts import HostFinding, by_hosts, quiet
from .values import RANKS, Atom, Certainty, Kind, Value, Who
from .vocabulary import INIT_GROUP


@probe(rules.DC201)
def global_rank_names_a_device(program: Program) -> Iterator[Finding]:
    """No GPU is chosen by the number of this process in the whole job."""
    for found in program.table(global_ranks_as_devices):
        yield found.finding


def global_ranks_as_devices(program: Program) -> Iterator[HostFinding]:
    """Yield the GPUs that are chosen by the number of this process in the whole job."""
    seen: set[tuple[int, int]] = set()
    by_line = grouped(device_uses(program), lambda use: (use.row.file, use.row.line))
    for use in device_uses(program):
        row = use.row
        if (row.file, row.line) in seen or is_for_one_process(use):
            continue
        atom = global_rank_of(use.number)
        if atom is not None and row.reached_by.who not in (Who.MAIN, Who.SINGLE) and not fits_on_one_host(row):
            if use.way == MADE and is_never_used(row):
                continue
            seen.add((row.file, row.line))
            shown = _with_others(use, by_line[row.file, row.line])
            yield _global_rank(program, row, use.number, atom, shown, use.where(), by_line[row.file, row.line])
            continue
        index = use.number.get(Kind.LOCAL_RANK)
        if index is not None and index.const == "spawn" and use.way == BIND:
            init = _spawned_rank(program, row)
            if init is not None:
                seen.add((row.file, row.line))
                yield quiet(row, _single_host(program, row, index, init))
    for write in writes(program):
        atom = rank_in_text(write.value) if write.name in MASKS else None
        if atom is not None and global_rank_of(Value((atom,))) is not None and not fits_on_one_host(write.row):
            row = write.row
            yield _global_rank(program, row, Value((atom,)), atom, f"{row.text()} uses", row.where())


def _with_others(use: DeviceUse, on_line: list[DeviceUse]) -> str:
    """Return a use and its verb, with the other calls of its line that take the same rank: one finding names all."""
    others = [
        other.argument[1] or other.shown
        for other in on_line
        if other.row is not use.row and global_rank_of(other.number) is not None and not is_for_one_process(other)
    ]
    named = list(dict.fromkeys((use.shown, *others)))
    return f"{' and '.join(named)} use" if len(named) > 1 else f"{use.shown} uses"


def global_rank_of(index: Value) -> Atom | None:
    """Return the global rank in what an index may be; None where it may be the local one, too."""
    if index.has(Kind.LOCAL_RANK, Kind.NODE_RANK, Kind.GROUP_RANK, Kind.RANK_DEPENDENT):
        return None
    for atom in index:
        if atom.when.who == Who.SINGLE:
            continue
        if atom.kind == Kind.GLOBAL_RANK and atom.traced:
            return atom
        if atom.kind == Kind.RANK and atom.const == "option":
            return atom
        if atom.kind == Kind.ENV_TEXT and vocabulary.VARIABLES.get(atom.const) == Kind.GLOBAL_RANK:
            return None if any(one.kind in (Kind.ENV_TEXT, Kind.LOCAL_RANK) for one in atom.of) else atom
    return None


def rank_in_text(value: Value) -> Atom | None:
    """Return the rank that a text is made of."""
    for atom in value:
        if atom.kind == Kind.TEXT:
            inner = Value(atom.of)
            if atom.const == "{}" and (inner.rank is not None or inner.has(Kind.ENV_TEXT)):
                return inner.rank or inner.get(Kind.ENV_TEXT)
        if atom.kind == Kind.ENV_TEXT and vocabulary.VARIABLES.get(atom.const) in RANKS:
            return atom
    return None


def _global_rank(
    program: Program,
    row: EventRow,
    number: Value,
    atom: Atom,
    shown: str,
    where: Where,
    on_line: Sequence[DeviceUse] = (),
) -> HostFinding:
    """Return the finding.

    :param on_line: all uses of its line, which an edit replaces together
    """
    finding = rules.DC201.found(
        f"{shown} the global rank{_origin(atom)} as a GPU index; each host counts its GPUs from 0",
        where=where,
        fix=_use_local_rank(program, row, _local_rank(program, row, atom), on_line),
        evidence={"flow": program.flow(atom.flow)},
    )
    if program.is_test(row.file) or _spawned_rank(program, row) is not None:
        return quiet(row, finding)
    # an option that is called a rank and is used where a rank is expected is no mere guess
    basis = atom._replace(certainty=min(atom.certainty, Certainty.MERGED))
    others = Certainty.PROVEN if number.only(atom.kind, Kind.CONST) else Certainty.MERGED
    return by_hosts(row, rules.DC201, finding, (basis, others))


#: An argument that an edit may replace: a name, an attribute, a call without arguments.
_REPLACEABLE = lazy(r"[\w.]+(?:\(\))?")


def _use_local_rank(program: Program, row: EventRow, advice: str, on_line: Sequence[DeviceUse]) -> Fix:
    reads, place = "os.environ" in advice, import_place(program, row.file)
    adds_import = reads and place != 0
    text = f"use the local rank: {advice}{', after `import os`' if adds_import else ''}"
    # no launcher sets the variable where the script spawns its ranks
    possible = not (adds_import and place is None) and _spawned_rank(program, row) is None
    edits = _replacements(program, advice, on_line) if possible else []
    if edits and adds_import and place:
        edits.append(import_edit(row.path, place))
    risk = "the launcher must set that variable" if reads else "see that it holds the local rank on every path"
    return Fix(text, edits=tuple(edits), where="code", risk=risk if edits else None)


def _replacements(program: Program, advice: str, on_line: Sequence[DeviceUse]) -> list[Edit]:
    """Return the edits that replace the rank in each use; [] if one of them cannot be replaced as it stands."""
    expression = re.fullmatch("`([^`]+)`", advice)
    edits = []
    for use in on_line:
        if global_rank_of(use.number) is None or is_for_one_process(use):
            continue
        span = use.row.argument_span(*use.argument) if isinstance(use.row, SourceCall) else None
        if expression is None or span is None or use.in_text or not _REPLACEABLE.fullmatch(program.source(span)):
            return []
        edits.append(span.replaced_by(expression[1]))
    return edits


def _origin(atom: Atom) -> str:
    if atom.kind == Kind.ENV_TEXT or atom.const in vocabulary.VARIABLES:
        return f" (from {atom.const})"
    if atom.const == "sum":
        return " (node rank times processes a node, plus local rank)"
    if atom.const == "option":
        return " (an option of the command line)"
    return ""


def _local_rank(program: Program, row: EventRow, atom: Atom) -> str:
    """Return what to write instead, in the words of this code."""
    own = local_rank_here(row)
    if own is not None:
        return f"`{own}`"
    if atom.const == "SLURM_PROCID":
        return '`int(os.environ["SLURM_LOCALID"])`'
    if atom.const == "OMPI_COMM_WORLD_RANK":
        return '`int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])`'
    if program.imports_from(row.file, "accelerate"):
        return "`accelerator.local_process_index`, or `accelerator.device`"
    horovod = name_here(row, "horovod.torch")
    if horovod is not None:
        return f"`{horovod}.local_rank()`"
    if atom.const == "sum":
        for step in atom.flow:
            if "spawn" in step.text:
                return "the first argument of the spawned function, which counts the processes of this host"
    return '`int(os.environ["LOCAL_RANK"])`'


def _spawned_rank(program: Program, row: EventRow) -> SourceCall | None:
    """The call that makes a spawned index the rank of the job, where nothing else around a row starts a group."""
    inits = [
        call for call in called_in(program, program.component(row.file), INIT_GROUP) if not program.is_test(call.file)
    ]
    spawned = [call for call in inits if is_spawned(call)]
    if spawned and len(spawned) < len(inits):
        roots = roots_of(program, row)
        near = [call for call in inits if roots.intersection(roots_of(program, call))]
        spawned = [call for call in spawned if call in near] if all(is_spawned(call) for call in near) else []
    return spawned[0] if spawned else None


def is_spawned(init: SourceCall) -> bool:
    rank = init.argument(4, "rank")
    atom = rank.get(Kind.LOCAL_RANK) if rank is not None else None
    return atom is not None and atom.const == "spawn"


def _single_host(program: Program, row: EventRow, index: Atom, init: SourceCall) -> Finding:
    return row.found(
        rules.DC201,
        f"the spawned index is the device here and the rank of the job at {init.place}: right on one host only",
        fix="for several hosts, pass init_process_group the rank `node_rank * processes_per_node + index`; "
        "the device stays the index",
        severity=Severity.INFO,
        flow=program.flow(index.flow),
    )


@probe(rules.DC215)
def index_is_a_number(program: Program) -> Iterator[Finding]:
    """An index of a device is a number from 0 on: not the -1 of no launcher, not the text of a variable."""
    seen: set[tuple[int, int]] = set()
    for use in device_uses(program):
        row = use.row
        if (row.file, row.line) in seen or use.way in (LOADED, WRAPPED, GROUP):
            continue  # a group, and a model that is wrapped for one, have their launcher
        text = use.number.get(Kind.ENV_TEXT)
        if (
            text is not None
            and not use.in_text
            and vocabulary.VARIABLES.get(text.const) in RANKS
            and use.number.only(Kind.ENV_TEXT, Kind.CONST)
        ):
            seen.add((row.file, row.line))
            yield rules.DC215.found(
                f"{use.shown} uses {text.const} as a GPU index, but os.environ returns text: '0' is no device",
                where=use.where(),
                fix=Fix(f'make a number of it: int(os.environ["{text.const}"])', where="code"),
                evidence={"flow": program.flow(text.flow)},
            )
            continue
        unset = unset_rank(row, use.term, use.tests)
        if unset is None or _after_a_start(program, row, unset):
            continue
        seen.add((row.file, row.line))
        yield _sentinel(use, unset)


def _needs_a_launcher(program: Program, row: EventRow) -> bool:
    """Return whether what reaches a row creates a group in each run, from a launcher's variables.

    Plain Python fails there. Launchers set the variables, and most of them pass the option.
    """
    roots = roots_of(program, row)
    return any(
        not roots.isdisjoint(roots_of(program, start))
        and not start.gives(4, "rank")
        and all(
            node[1] in ("with", "try") or (node[1] == "if" and program.evaluator.is_main_guard(start.file, node[2]))
            for _, node in start.blocks
        )
        for start in program.calls_to(INIT_GROUP)
    )


def _after_a_start(program: Program, row: EventRow, unset: UnsetRank) -> bool:
    """Whether a group has started by then, which takes a launcher; launchers set the variable, but pass no option."""
    if unset.is_option:
        return False
    return any(
        program.dominates(start, row)
        for start in program.calls_to(*vocabulary.INIT)
        if (start.file, start.scope) == (row.file, row.scope)
    )


def _sentinel(use: DeviceUse, unset: UnsetRank) -> Finding:
    name = unset.variable
    harmless = use.way in (BIND, "context") and not use.in_text
    outcome = "does nothing for -1, so that GPU 0 stays the current one" if harmless else "fails for -1"
    return rules.DC215.found(
        f"{name} has the default -1, and nothing keeps it from {use.shown}, which {outcome}",
        where=use.where(),
        # one process on GPU 0 is what was meant; only a launcher that does not pass the option goes wrong
        severity=Severity.INFO
        if harmless or (unset.is_option and _needs_a_launcher(use.row.program, use.row))
        else use.row.level_in_tests,
        fix=Fix(
            f"use 0 as the default of {name} if one process uses the first GPU, or test for -1 first",
            where="code",
        ),
        evidence={"flow": [unset.row.as_step()]},
    )
