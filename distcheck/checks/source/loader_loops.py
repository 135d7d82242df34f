"""Loops over loaders: each is followed from the call that makes the loader to the loop that reads it.

A loop trains if a backward pass is reached from its body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from . import call_paths
from .call_paths import Function
from .link import reachable
from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .summary import Block
from .values import Kind, Value
from .vocabulary import words

#: Loaders whose first parameters are data set, batch size and shuffle, and that take a sampler by its name.
LOADERS = words(
    "torch.utils.data.DataLoader torch_geometric.loader.DataLoader torch_geometric.data.DataLoader "
    "torch_geometric.loader.dataloader.DataLoader monai.data.DataLoader "
    "torchdata.stateful_dataloader.StatefulDataLoader"
)
SAMPLER = "torch.utils.data.distributed.DistributedSampler"
ITERABLE = "torch.utils.data.IterableDataset"
SAMPLERS = frozenset(
    {
        SAMPLER,
        "torch.utils.data.RandomSampler",
        "torch.utils.data.SequentialSampler",
        "torch.utils.data.WeightedRandomSampler",
        "torch.utils.data.SubsetRandomSampler",
    }
)
#: Ways through values and calls are followed this far.
DEEPEST_FLOW = 5


class LoaderLoop(NamedTuple):
    """A ``for`` over a loader."""

    file: int
    scope: int
    block: int
    line: int
    end_line: int
    #: numbers of the loaders' calls: (file, event)
    loaders: frozenset[tuple[int, int]]
    trains: bool
    #: a backward pass is reached from its body; otherwise only names suggest that it trains
    certain: bool

    @property
    def function(self) -> Function:
        """The function that it stands in."""
        return self.file, self.scope


#: Methods that take a step of training.
_STEPS = re.compile(r"^(optimi[sz]e|train|fit|update|learn)|_step$|^step$|train_", re.I)


def loops_over_loaders(program: Program) -> list[LoaderLoop]:
    """Return all loops over loaders that can be followed and that train."""
    return [loop for loop in program.table(training_loops) if loop.trains]


def training_loops(program: Program) -> Iterator[LoaderLoop]:
    """Yield the loops that train, and what they walk through."""
    if not any(True for _ in program.calls_to(*LOADERS)):
        return
    lines: dict[int, list[int]] = {}
    passes: set[Function] = set()
    for call in program.calls_named("backward", "manual_backward"):
        lines.setdefault(call.file, []).append(call.line)
        passes.add((call.file, call.scope))
    passes = _callers_of(program, passes)
    entered = call_paths.tables(program).entered
    of_files = {file for file, _ in passes}
    for file in sorted(of_files):
        inside = {number for one, number in entered if one == file and not passes.isdisjoint(entered[one, number])}
        for number, scope, node, events in for_blocks(program, file):
            if any(node[4] <= line <= node[5] for line in lines.get(file, ())) or not inside.isdisjoint(events):
                yield from loops_at(program, file, scope, number, node, trains=True)
    yield from _named_like_training(program)


def _named_like_training(program: Program) -> Iterator[LoaderLoop]:
    """Loops over what is called a training loader, whose steps are taken where they can't be followed."""
    for file in sorted({call.file for call in program.calls_to(*LOADERS)}):
        terms = program.terms[file]
        for number, scope, node, events in for_blocks(program, file):
            head = program.lines(file)[node[4] - 1]
            if "train" in head.lower() and any(
                _STEPS.search(last_name(terms, terms[program.events[file][event][7]][1])) for event in events
            ):
                for loop in loops_at(program, file, scope, number, node, trains=True):
                    yield loop._replace(certain=False)


def _callers_of(program: Program, functions: set[Function]) -> set[Function]:
    """Functions, and all that may call them in the same process."""
    above: dict[Function, set[Function]] = {}
    for caller, called in call_paths.tables(program).callees.items():
        for function, weak, kind in called:
            if kind == "call" and not weak:
                above.setdefault(function, set()).add(caller)
    return reachable(functions, lambda function: above.get(function, ()))


def for_blocks(program: Program, file: int) -> Iterator[tuple[int, int, Block, list[int]]]:
    """Yield the ``for`` loops of a file: number of the block, scope, the block, and the numbers of its events."""
    blocks = program.blocks[file]
    owners: dict[int, int] = {}
    events: dict[int, list[int]] = {}
    for position, event in enumerate(program.events[file]):
        block = event[2]
        while block > 0:
            owners.setdefault(block, event[1])
            if event[0] == "call":
                events.setdefault(block, []).append(position)
            block = blocks[block][0]
    for number, scope in owners.items():
        node = blocks[number]
        if node[1] == "for":
            yield number, scope, node, events.get(number, [])


def loops_at(
    program: Program, file: int, scope: int, number: int, node: Block, *, trains: bool
) -> Iterator[LoaderLoop]:
    loaders = frozenset(loaders_in(program, program.evaluator.value(file, node[2])))
    if loaders:
        yield LoaderLoop(file, scope, number, node[4], node[5], loaders, trains, trains)


def calls_within(program: Program, file: int, scope: int, block: int) -> Iterator[SourceCall]:
    for row in program.rows_of(file, scope):
        if isinstance(row, SourceCall) and any(number == block for number, _ in row.blocks):
            yield row


def loaders_in(program: Program, value: Value, depth: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the calls of DataLoader that a value comes from, through ``enumerate``, ``tqdm`` and the like."""
    if depth > DEEPEST_FLOW:
        return
    for atom in value:
        if atom.kind not in (Kind.RESULT, Kind.METHOD, Kind.WRAPPED, Kind.BATCH):
            continue
        if atom.kind == Kind.RESULT and atom.const in LOADERS and atom.call is not None:
            yield atom.call
            continue
        for item in atom.items:
            yield from loaders_in(program, item, depth + 1)
        if atom.kind == Kind.WRAPPED and atom.const == "prepared":
            yield from loaders_in(program, Value(atom.of), depth + 1)
        if atom.kind == Kind.RESULT and atom.call is not None and not atom.items:
            call = SourceCall(program, *atom.call)
            for term in call.term[2][:3]:
                yield from loaders_in(program, call.term_value(term), depth + 1)


def repetition_of(program: Program, loop: LoaderLoop) -> SourceCall | EventRow | None:
    """Something in or before the loop that shows that it is walked through more than once; None where it is not."""
    first = next(
        (row for row in program.rows_of(*loop.function) if any(number == loop.block for number, _ in row.blocks)), None
    )
    return None if first is None else _repeats(program, first, loop.block, frozenset())


def _repeats(program: Program, row: EventRow, inner: int, seen: frozenset[Function]) -> EventRow | None:
    outer = []
    for number, node in row.blocks:
        if number == inner:
            break
        if node[1] in ("for", "while"):
            outer.append(node)
    if any(not _is_single_pass(program, row, node) for node in outer):
        return row
    function = (row.file, row.scope)
    if function in seen or len(seen) > DEEPEST_FLOW:
        return None
    for call in program.callers(function)[:20]:
        found = _repeats(program, call, -1, seen | {function})
        if found is not None:
            return found
    return None


def _is_single_pass(program: Program, row: EventRow, node: Block) -> bool:
    """Whether a loop is none over epochs: it runs once, as far as is known, or walks over things with loaders."""
    if node[1] != "for":
        return False
    value = row.term_value(node[2])
    for atom in value:
        if atom.kind == Kind.RESULT and atom.const == "range" and atom.items:
            last = atom.items[0] if len(atom.items) == 1 else atom.items[1]
            # an option whose default is one epoch
            return any(constant == 1 for constant in last.constants)
        if atom.kind in (Kind.LIST, Kind.TUPLE):
            return True
    return any(True for _ in loaders_in(program, value))


def is_given(call: SourceCall, position: int, name: str) -> bool:
    value = call.argument(position, name)
    return value is not None and value.constant is not None
