"""Loops over loaders: each is followed from the call that makes the loader to the loop that reads it.

A loop trains if a backward pass is reached from its body.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy

from . import call_paths
from .device_uses import run_together
from .link import reachable
from .models import is_backward
from .program import EventRow, Function, Program, SourceCall, cached
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


#: Names of calls that may be a backward pass.
_BACKWARD = ("backward", "manual_backward", "loss_scaler")
#: Methods that take a step of training.
_STEPS = lazy(r"^(optimi[sz]e|train|fit|update|learn)|_step$|^step$|train_", re.I)


def loops_over_loaders(program: Program) -> list[LoaderLoop]:
    """Return all loops over loaders that can be followed and that train."""
    return [loop for loop in program.table(training_loops) if loop.trains]


def own_loaders(program: Program) -> Iterator[SourceCall]:
    """Yield the calls of classes of the project that derive from a loader and have its parameters."""
    for file in range(len(program.index.files)):
        for number, one in enumerate(program.index.classes[file]):
            if one.bases and _is_loader(program, (file, number)):
                for call in program.calls_named(one.name):
                    if call.callee.only(Kind.CLASS) and call.callee.atoms[0].const == (file, number):
                        yield call


@cached
def _is_loader(program: Program, ref: tuple[int, int]) -> bool:
    """Return whether a class derives from a loader and hands on what its constructor gets."""
    if not program.evaluator.derives(ref, *LOADERS):
        return False
    made = program.evaluator.method(ref, "__init__")
    return made is None or {star for _, _, star in program.scope(made).parameters[1:]} == {"*", "**"}


def training_loops(program: Program) -> Iterator[LoaderLoop]:
    """Yield the loops that train, and what they walk through."""
    if not any(True for _ in program.calls_to(*LOADERS)) and not program.table(own_loaders):
        return
    lines: dict[int, list[int]] = {}
    passes: set[Function] = set()
    for call in filter(is_backward, program.calls_named(*_BACKWARD)):
        lines.setdefault(call.file, []).append(call.line)
        passes.add((call.file, call.scope))
    passes = _callers_of(program, passes)
    entered = call_paths.tables(program).entered
    of_files = {file for file, _ in passes}
    for file in sorted(of_files):
        inside = {number for one, number in entered if one == file and not passes.isdisjoint(entered[one, number])}
        for number, scope, node, events in for_blocks(program, file):
            if any(node[4] <= line <= node[5] for line in lines.get(file, ())) or not inside.isdisjoint(events):
                tests = _tests_of_training(program, file, number, events, inside)
                yield from loops_at(program, file, scope, number, node, trains=True, tests=tests)
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


@cached
def for_blocks(program: Program, file: int) -> list[tuple[int, int, Block, list[int]]]:
    """Return the ``for`` loops of a file: number of the block, scope, the block, and the numbers of its events."""
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
    return [
        (number, scope, blocks[number], events.get(number, []))
        for number, scope in owners.items()
        if blocks[number][1] == "for"
    ]


def loops_at(
    program: Program,
    file: int,
    scope: int,
    number: int,
    node: Block,
    *,
    trains: bool,
    tests: Mapping[int, bool] = MappingProxyType({}),
) -> Iterator[LoaderLoop]:
    """Yield a loop, if it walks through loaders.

    :param tests: conditions that hold where it trains: a loader of the other arm is not trained from
    """
    terms = set(_taken(program.terms[file], node[2], tests)) if tests else (node[2],)
    loaders = frozenset(one for term in terms for one in loaders_in(program, program.evaluator.value(file, term)))
    if loaders:
        yield LoaderLoop(file, scope, number, node[4], node[5], loaders, trains, trains)


def _tests_of_training(
    program: Program, file: int, block: int, events: Iterable[int], entering: Container[int]
) -> dict[int, bool]:
    """Return the conditions inside of a loop that hold wherever it makes or enters a backward pass.

    :param entering: calls that enter one
    """
    found: list[set[tuple[int, bool]]] = []
    for event in events:
        call = SourceCall(program, file, event)
        if event in entering or is_backward(call):
            found.append({(node[2], node[3]) for number, node in call.blocks if node[1] == "if" and number > block})
    return dict(set.intersection(*found)) if found else {}


def _taken(terms: list[tuple[Any, ...]], term: int, tests: Mapping[int, bool]) -> Iterator[int]:
    """Yield what a loop walks through where conditions hold: ``a`` for ``enumerate(tqdm(a) if rank == 0 else a)``."""
    inner = term
    while inner >= 0 and terms[inner][0] == "c" and terms[inner][2]:
        if last_name(terms, terms[inner][1]).endswith("DataLoader"):
            break
        inner = terms[inner][2][0]
    if inner < 0 or terms[inner][0] != "?":
        yield term
    elif terms[inner][1] in tests:
        yield from _taken(terms, terms[inner][2 if tests[terms[inner][1]] else 3], tests)
    else:
        for arm in terms[inner][2:4]:
            yield from _taken(terms, arm, tests)


def calls_within(program: Program, file: int, scope: int, block: int) -> Iterator[SourceCall]:
    for row in program.rows_of(file, scope):
        if isinstance(row, SourceCall) and any(number == block for number, _ in row.blocks):
            yield row


def loaders_in(program: Program, value: Value, depth: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the calls of DataLoader that a value comes from, through ``enumerate``, ``tqdm`` and the like.

    An object of the project stands for the loaders that its ``__iter__`` walks through.
    """
    if depth > DEEPEST_FLOW:
        return
    for atom in value:
        if atom.kind == Kind.OBJECT and atom.call is not None and _is_loader(program, atom.const):
            yield atom.call
            continue
        if atom.kind == Kind.OBJECT:
            walk = program.evaluator.method(atom.const, "__iter__")
            if walk is not None:
                for _, scope, node, _ in for_blocks(program, walk[0]):
                    if scope == walk[1]:
                        yield from loaders_in(program, program.evaluator.value(walk[0], node[2]), depth + 1)
            continue
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


def repetition_of(
    program: Program, loop: LoaderLoop, one_by_default: bool = False, made: EventRow | None = None
) -> EventRow | None:
    """Return a row in a loop that shows that it is walked through more than once; None where it is not.

    :param one_by_default: also where the number of epochs is an option, and its default is 1
    :param made: what makes the data: loops of scripts that do not run this do not count
    """
    first = next(
        (row for row in program.rows_of(*loop.function) if any(number == loop.block for number, _ in row.blocks)), None
    )
    return None if first is None else _repeats(program, first, loop.block, frozenset(), one_by_default, made)


def is_repeated(program: Program, row: EventRow) -> EventRow | None:
    """Return a loop over epochs that a row stands in, or its callers; None where it runs once as far as is known."""
    return _repeats(program, row, -1, frozenset())


def _repeats(
    program: Program,
    row: EventRow,
    inner: int,
    seen: frozenset[Function],
    one_by_default: bool = False,
    made: EventRow | None = None,
) -> EventRow | None:
    if made is not None and not run_together(row, made):
        return None
    outer = []
    for number, node in row.blocks:
        if number == inner:
            break
        if node[1] in ("for", "while"):
            outer.append(node)
    if any(not _is_single_pass(program, row, node, one_by_default) for node in outer):
        return row
    function = (row.file, row.scope)
    if function in seen or len(seen) > DEEPEST_FLOW:
        return None
    for call in program.callers(function)[:20]:
        found = _repeats(program, call, -1, seen | {function}, one_by_default, made)
        if found is not None:
            return found
    return None


def _is_single_pass(program: Program, row: EventRow, node: Block, one_by_default: bool) -> bool:
    """Whether a loop is none over epochs: it runs once, as far as is known, or walks over things with loaders."""
    if node[1] != "for":
        return False
    value = row.term_value(node[2])
    for atom in value:
        if atom.kind == Kind.RESULT and atom.const == "range" and atom.items:
            last = atom.items[0] if len(atom.items) == 1 else atom.items[1]
            # an option whose default is one epoch
            return any(constant == 1 for constant in last.constants) and not (one_by_default and _is_read(row, node[2]))
        if atom.kind in (Kind.LIST, Kind.TUPLE):
            return True
    return any(True for _ in loaders_in(program, value))


def _is_read(row: EventRow, term: int) -> bool:
    """Return whether the only argument of ``range()`` is read from an object, such as the options."""
    called = row.terms[term]
    return called[0] == "c" and len(called[2]) == 1 and row.terms[called[2][0]][0] in ("a", "s")


def is_given(call: SourceCall, position: int, name: str) -> bool:
    return call.constant(position, name) is not None


def made_instead(one: EventRow, other: EventRow) -> bool:
    """Return whether one pass through a function makes at most one of two things."""
    if (one.file, one.scope) != (other.file, other.scope):
        return False
    tests = {node[2]: node[3] for _, node in one.blocks if node[1] == "if" or node[1].startswith("exit:")}
    return any(
        (node[1] == "if" or node[1].startswith("exit:")) and tests.get(node[2], node[3]) != node[3]
        for _, node in other.blocks
    )
