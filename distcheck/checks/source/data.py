"""How data comes to the ranks: samplers and their epochs, loaders without one, random splits, iterable data sets.

A loader is followed from where it is made to the loop that walks through it, in whatever function that stands; a loop
trains where a backward pass is reached from its body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity, Where
from distcheck.core.registry import probe

from . import call_paths, vocabulary
from .call_paths import CallPath, Function
from .link import reachable
from .models import trains as trains_in
from .models import without_gradients
from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .summary import Block
from .values import Atom, Certainty, Kind, NoConstant, Value, added
from .vocabulary import words

#: Loaders whose first parameters are data set, batch size and shuffle, and that take a sampler by its name.
_LOADERS = words(
    "torch.utils.data.DataLoader torch_geometric.loader.DataLoader torch_geometric.data.DataLoader "
    "torch_geometric.loader.dataloader.DataLoader monai.data.DataLoader "
    "torchdata.stateful_dataloader.StatefulDataLoader"
)
_SAMPLER = "torch.utils.data.distributed.DistributedSampler"
_ITERABLE = "torch.utils.data.IterableDataset"
_SAMPLERS = frozenset(
    {
        _SAMPLER,
        "torch.utils.data.RandomSampler",
        "torch.utils.data.SequentialSampler",
        "torch.utils.data.WeightedRandomSampler",
        "torch.utils.data.SubsetRandomSampler",
    }
)
#: Ways through values and calls are followed this far.
_DEEPEST = 5


# loops over loaders


class _Loop(NamedTuple):
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


def _loops(program: Program) -> list[_Loop]:
    """Return all loops over loaders that can be followed and that train."""
    return [loop for loop in program.table(_training_loops) if loop.trains]


def _training_loops(program: Program) -> Iterator[_Loop]:
    """Yield the loops that train, and what they walk through."""
    if not any(True for _ in program.calls_to(*_LOADERS)):
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
        for number, scope, node, events in _for_blocks(program, file):
            if any(node[4] <= line <= node[5] for line in lines.get(file, ())) or not inside.isdisjoint(events):
                yield from _over_loaders(program, file, scope, number, node, trains=True)
    yield from _named_like_training(program)


def _named_like_training(program: Program) -> Iterator[_Loop]:
    """Loops over what is called a training loader, whose steps are taken where they can't be followed."""
    for file in sorted({call.file for call in program.calls_to(*_LOADERS)}):
        terms = program.terms[file]
        for number, scope, node, events in _for_blocks(program, file):
            head = program.lines(file)[node[4] - 1]
            if "train" in head.lower() and any(
                _STEPS.search(last_name(terms, terms[program.events[file][event][7]][1])) for event in events
            ):
                for loop in _over_loaders(program, file, scope, number, node, trains=True):
                    yield loop._replace(certain=False)


def _callers_of(program: Program, functions: set[Function]) -> set[Function]:
    """Functions, and all that may call them in the same process."""
    above: dict[Function, set[Function]] = {}
    for caller, called in call_paths.tables(program).callees.items():
        for function, weak, kind in called:
            if kind == "call" and not weak:
                above.setdefault(function, set()).add(caller)
    return reachable(functions, lambda function: above.get(function, ()))


def _for_blocks(program: Program, file: int) -> Iterator[tuple[int, int, Block, list[int]]]:
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


def _over_loaders(
    program: Program, file: int, scope: int, number: int, node: Block, *, trains: bool
) -> Iterator[_Loop]:
    loaders = frozenset(_loaders_in(program, program.evaluator.value(file, node[2])))
    if loaders:
        yield _Loop(file, scope, number, node[4], node[5], loaders, trains, trains)


def _calls_within(program: Program, file: int, scope: int, block: int) -> Iterator[SourceCall]:
    for row in program.rows_of(file, scope):
        if isinstance(row, SourceCall) and any(number == block for number, _ in row.blocks):
            yield row


def _loaders_in(program: Program, value: Value, depth: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the calls of DataLoader that a value comes from, through ``enumerate``, ``tqdm`` and the like."""
    if depth > _DEEPEST:
        return
    for atom in value:
        if atom.kind not in (Kind.RESULT, Kind.METHOD, Kind.WRAPPED, Kind.BATCH):
            continue
        if atom.kind == Kind.RESULT and atom.const in _LOADERS and atom.call is not None:
            yield atom.call
            continue
        for item in atom.items:
            yield from _loaders_in(program, item, depth + 1)
        if atom.kind == Kind.WRAPPED and atom.const == "prepared":
            yield from _loaders_in(program, Value(atom.of), depth + 1)
        if atom.kind == Kind.RESULT and atom.call is not None and not atom.items:
            call = SourceCall(program, *atom.call)
            for term in call.term[2][:3]:
                yield from _loaders_in(program, call.term_value(term), depth + 1)


def _is_repeated(program: Program, loop: _Loop) -> SourceCall | EventRow | None:
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
    if function in seen or len(seen) > _DEEPEST:
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
    return any(True for _ in _loaders_in(program, value))


# samplers


def _samplers_in(program: Program, value: Value | None, depth: int = 0) -> Iterator[Atom]:
    """Yield what of a value is a sampler, through batch samplers and other things that are made from one."""
    if value is None or depth > _DEEPEST:
        return
    for atom in value:
        if (atom.kind == Kind.RESULT and atom.const in _SAMPLERS) or (
            atom.kind == Kind.OBJECT and program.evaluator.derives(atom.const, _SAMPLER, "torch.utils.data.Sampler")
        ):
            yield atom
        elif atom.kind == Kind.RESULT and atom.call is not None and str(atom.const).endswith("Sampler"):
            call = SourceCall(program, *atom.call)
            for term in (*call.term[2][:2], *(given for name, given in call.term[3] if name == "sampler")):
                yield from _samplers_in(program, call.term_value(term), depth + 1)


def _loader_samplers(program: Program, loader: SourceCall) -> set[tuple[int, int]]:
    """Return the calls that made the samplers of a loader."""
    found = set()
    for value in (loader.argument(3, "sampler"), loader.argument(4, "batch_sampler")):
        found |= {atom.call for atom in _samplers_in(program, value) if atom.call is not None}
    return found


@probe(rules.DC730)
def sampler_gets_the_epoch(program: Program) -> Iterator[Finding]:
    """A sampler that shuffles gets the number of the epoch, in every epoch."""
    samplers = [call for call in program.calls_to(_SAMPLER) if _shuffles(call) and not call.loops]
    if not samplers:
        return
    of_loader = {
        (loader.file, loader.number): _loader_samplers(program, loader) for loader in program.calls_to(*_LOADERS)
    }
    for sampler in samplers:
        own = {key for key, made in of_loader.items() if (sampler.file, sampler.number) in made}
        repeated = None
        for loop in _loops(program):
            if loop.trains and not own.isdisjoint(loop.loaders):
                repeated = _is_repeated(program, loop)
                if repeated is not None:
                    break
        again = None if repeated is not None else _started_again(program, own)
        if (repeated is None and again is None) or _may_get_epochs(program, sampler, of_loader):
            continue
        if again is not None:
            yield _set_epoch_before(sampler, again)
            continue
        if repeated is None:
            continue
        loud = not (
            program.framework(sampler.file) or program.framework(repeated.file) or program.is_test(sampler.file)
        )
        yield _set_epoch_finding(program, sampler, repeated, loud)


def _started_again(program: Program, loaders: set[tuple[int, int]]) -> SourceCall | None:
    """Return the call of ``iter`` that starts one of these loaders again in a training loop, where it has ended."""
    for call in program.calls_named("iter"):
        if not (call.loops and call.inside("except") and call.is_to("iter")):
            continue
        given = call.argument(0)
        if given is None or loaders.isdisjoint(_loaders_in(program, given)):
            continue
        if trains_in(program, (call.file, call.scope)):
            return call
    return None


def _set_epoch_before(sampler: SourceCall, again: SourceCall) -> Finding:
    name = sampler.use.removeprefix("assign:") if sampler.use.startswith("assign:") else ""
    quiet = sampler.program.framework(sampler.file) or sampler.program.is_test(sampler.file)
    return sampler.found(
        rules.DC730,
        f"nothing calls set_epoch() on {f'the sampler {name}' if name else 'this sampler'}, so that each pass that "
        f"starts at {again.path}:{again.line} has the same order",
        fix=f"count the passes, and call {name or 'loader.sampler'}.set_epoch(count) before {again.text()}",
        severity=Severity.INFO if quiet else Severity.WARNING,
        flow=[
            f"{sampler.path}:{sampler.line}: the sampler is made here",
            f"{again.path}:{again.line}: the loader starts again",
        ],
    )


def _shuffles(call: SourceCall) -> bool:
    if call.has_star or _is_fed_a_seed(call):
        return False
    shuffle = call.argument(3, "shuffle")
    if shuffle is None:
        return True
    known = [constant for constant in shuffle.constants if isinstance(constant, bool)]
    # where a configuration decides, what is meant for training is shuffled
    return True in known if known else "train" in call.use.lower()


def _is_fed_a_seed(call: SourceCall) -> bool:
    seed = call.argument(4, "seed")
    return seed is not None and not seed.only(Kind.CONST) and call.inside("for", "while")


def _may_get_epochs(
    program: Program, sampler: SourceCall, of_loader: dict[tuple[int, int], set[tuple[int, int]]]
) -> bool:
    """Return whether a ``set_epoch`` may be called on this sampler: any that is not known to be another's."""
    files = call_paths.related(program, sampler.file)
    own = (sampler.file, sampler.number)
    for call in program.calls_named("set_epoch"):
        if call.file in files:
            made = _receivers(program, call.receiver, of_loader)
            if made is None or own in made:
                return True
    for call in program.calls_to("getattr", "operator.methodcaller"):
        if call.file in files and any("set_epoch" in call.term_value(term).constants for term in call.term[2]):
            return True
    return False


def _receivers(
    program: Program, value: Value, of_loader: dict[tuple[int, int], set[tuple[int, int]]]
) -> set[tuple[int, int]] | None:
    """Return the samplers that ``set_epoch`` is called on; None where they are not all known."""
    found: set[tuple[int, int]] = set()
    for atom in value:
        if atom.kind == Kind.RESULT and atom.const in _SAMPLERS and atom.call is not None:
            found.add(atom.call)
        elif atom.kind == Kind.METHOD and atom.const in ("sampler", "batch_sampler") and atom.of:
            loaders = set(_loaders_in(program, Value(atom.of)))
            if not loaders:
                return None
            for loader in loaders:
                found |= of_loader.get(loader, set())
        elif not (atom.kind == Kind.CONST and atom.const is None):
            return None
    return found or None


def _set_epoch_finding(program: Program, sampler: SourceCall, repeated: EventRow, loud: bool) -> Finding:
    name = sampler.use.removeprefix("assign:") if sampler.use.startswith("assign:") else ""
    outer = next(node for _, node in repeated.blocks if node[1] in ("for", "while"))
    epoch = _loop_variable(program, repeated, outer)
    counter = epoch if epoch not in ("", "_") else "epoch"
    edits: tuple[Edit, ...] = ()
    if name and counter == epoch and (sampler.file, sampler.scope) == (repeated.file, repeated.scope):
        edits = _first_line_of(program, repeated.file, outer[4], f"{name}.set_epoch({epoch})", sampler)
    sampler_text = name or "loader.sampler"
    return sampler.found(
        rules.DC730,
        f"nothing calls set_epoch() on {f'the sampler {name}' if name else 'this sampler'}, so that all epochs of the "
        f"loop at {program.index.files[repeated.file].path}:{outer[4]} have the same order",
        fix=f"{sampler_text}.set_epoch({counter}) as the first line of that loop"
        + ("" if counter == epoch else ", with the number of the epoch"),
        edits=edits,
        safe=False,
        risk="the order of the data changes, and with it the results",
        severity=Severity.WARNING if loud else Severity.INFO,
        flow=[
            f"{sampler.path}:{sampler.line}: the sampler is made here",
            f"{program.index.files[repeated.file].path}:{outer[4]}: the loop over epochs",
        ],
    )


def _loop_variable(program: Program, row: EventRow, node: Block) -> str:
    """Return the name that a ``for`` binds, empty for anything but one name."""
    terms = row.terms
    for one in program.rows_of(row.file, row.scope):
        if one.kind == "bind" and terms[one.payload[1]] == ("e", node[2]) and node[4] == one.line:
            return str(one.payload[0])
    return ""


def _first_line_of(program: Program, file: int, line: int, statement: str, sampler: SourceCall) -> tuple[Edit, ...]:
    """The edit that puts a statement at the beginning of a loop's body; none where the loop's head is not one line."""
    lines = program.lines(file)
    if program.index.files[file].cells:
        return ()
    head = lines[line - 1]
    plain = re.sub(r"#[^'\"]*$", "", head).rstrip()
    if not plain.endswith(":") or not plain.lstrip().startswith("for ") or line >= len(lines):
        return ()
    body = line
    while body < len(lines) and not lines[body].strip():
        body += 1
    if body >= len(lines):
        return ()
    following = lines[body]
    indent = following[: len(following) - len(following.lstrip())]
    own = head[: len(head) - len(head.lstrip())]
    if not (indent.startswith(own) and len(indent) > len(own)):
        return ()
    guard = ""
    # a sampler that there is in the distributed case only
    if sampler.inside("if"):
        guard = f"if {statement.split('.', 1)[0]} is not None and hasattr({statement.split('.', 1)[0]}, 'set_epoch'): "
    end = "\r\n" if "\r\n" in program.index.files[file].text else "\n"
    return (Edit(sampler.path, body + 1, 1, body + 1, 1, f"{indent}{guard}{statement}{end}"),)


@probe(rules.DC731)
def shuffle_or_sampler(program: Program) -> Iterator[Finding]:
    """A loader that has a sampler has no shuffle=True."""
    for loader in program.calls_to(*_LOADERS):
        shuffle, sampler = loader.argument_term(2, "shuffle"), loader.argument_term(3, "sampler")
        if shuffle < 0 or sampler < 0:
            continue
        at_once = _both_given(program, loader, shuffle, sampler)
        if at_once is None:
            continue
        text = loader.argument_text(3, "sampler")
        yield loader.found(
            rules.DC731,
            f"this loader is given shuffle=True and a sampler ({text}), which torch refuses with a ValueError",
            fix=f"drop shuffle: the sampler shuffles; if {text} may be None: shuffle=({text} is None)"
            if text.isidentifier()
            else "drop shuffle: the sampler defines the order",
            basis=(at_once,),
            flow=program.flow(at_once.flow),
        )


def _both_given(program: Program, loader: SourceCall, shuffle: int, sampler: int) -> Atom | None:
    """The sampler that is given together with shuffle=True, by the code here or by one caller; None where none is."""
    terms = loader.terms
    if terms[shuffle][0] == "p" and terms[sampler][0] == "p":
        for call in program.callers((loader.file, loader.scope))[:20]:
            call_path = CallPath(loader, (call,), (call.file, call.scope), Certainty.PROVEN)
            if call_paths.value_on(call_path, shuffle).constant is True:
                found = _sampler_of(program, loader.file, call_paths.value_on(call_path, sampler))
                if found is not None:
                    return found
        return None
    if loader.term_value(shuffle).constant is not True:
        return None
    return _sampler_of(program, loader.file, loader.term_value(sampler))


def _sampler_of(program: Program, file: int, value: Value) -> Atom | None:
    for atom in value:
        if atom.kind == Kind.RESULT and (
            atom.const == _SAMPLER or (atom.const in _SAMPLERS and program.is_distributed(file))
        ):
            return atom
    return None


# loaders without a sampler

#: What makes each rank see data of its own, or the same on purpose, in a way that can't be followed.
_OTHER_DIVISIONS = words(
    "torch.distributed.tensor.parallel torch.distributed.pipelining torch.distributed.pipeline megatron webdataset "
    "datasets.distributed torchdata nvidia.dali streaming"
)
_OF_RANKS = re.compile(
    r"rank|world_?size|shard|replica|split_by|partition|process_index|num_processes|get_worker_info\(\)\.seed", re.I
)
#: How a data set is divided by rank.
_DIVIDED = re.compile(
    r"%\s*(self\.)?(world_?size|num_replicas|n_?ranks)\b|\[\s*\S*rank(\(\))?\s*::|islice\([^)]*rank", re.I
)
_MADE_UP = re.compile(r"dummy|fake|synthetic|mock|toy|random", re.I)
_RANDOM = re.compile(r"\b(randn?|randint|random|shuffle|choice|seed|generator|uniform|normal)\b|rand", re.I)


class _DataSet(NamedTuple):
    """What is known of a loader's data set."""

    #: it has indices, and every rank has all of them
    certain: bool
    #: a finding would be wrong, or can't be made
    excused: bool


@probe(rules.DC732)
def every_rank_has_all_of_the_data(program: Program) -> Iterator[Finding]:
    """A loader that a wrapped model is trained from gives each rank its part of the data."""
    if not _loops(program):
        return
    for loader in program.calls_to(*_LOADERS):
        if loader.has_star or _is_divided(program, loader):
            continue
        for loop in _loops(program):
            if loop.certain and (loader.file, loader.number) in loop.loaders:
                finding = _judge_loader(program, loader, loop)
                if finding is not None:
                    yield finding
                    break


def _is_given(call: SourceCall, position: int, name: str) -> bool:
    value = call.argument(position, name)
    return value is not None and value.constant is not None


def _is_divided(program: Program, loader: SourceCall) -> bool:
    """Return whether a loader has a sampler that may give each rank its part."""
    if _is_given(loader, 4, "batch_sampler"):
        return True
    if not _is_given(loader, 3, "sampler"):
        return False
    return _undivided(program, loader) is None


def _undivided(program: Program, loader: SourceCall) -> Atom | None:
    """Return the sampler of the project that knows neither rank nor size of the job; None for any other sampler."""
    value = loader.argument(3, "sampler")
    if value is None or len(value.atoms) != 1:
        return None
    atom = value.atoms[0]
    if (
        atom.kind != Kind.OBJECT
        or not atom.traced
        or atom.call is None
        or not program.evaluator.derives(atom.const, "torch.utils.data.Sampler")
        or not _is_all_seen(program, atom.const)
        or _ENDLESS.search(text := _class_text(program, atom.const))
        or _OF_RANKS.search(text)
    ):
        return None
    made = SourceCall(program, *atom.call)
    if made.has_star or any(
        call_paths.differs(made, term) or _OF_RANKS.search(call_paths.names_in(made, term))
        for term in made.argument_terms
    ):
        return None
    return atom


def _is_all_seen(program: Program, ref: tuple[int, int], depth: int = 0) -> bool:
    """Return whether a class derives from torch's plain sampler and classes of the project alone."""
    return depth < 5 and all(
        _is_all_seen(program, base.const, depth + 1)
        if base.kind == Kind.CLASS
        else base.kind == Kind.NAMED and base.const in _PLAIN_BASES
        for base in program.evaluator.bases(ref)
    )


#: Bases from which a sampler learns nothing about other ranks.
_PLAIN_BASES = ("torch.utils.data.Sampler", "torch.utils.data.sampler.Sampler", "typing.Generic", "object")
#: A sampler that never ends counts steps, not epochs; one that seeds itself may draw for each rank.
_ENDLESS = re.compile(r"while True|infinite|itertools|seed|generator|getenv|environ|dist\b|distributed", re.I)


def _judge_loader(program: Program, loader: SourceCall, loop: _Loop) -> Finding | None:
    body = [call for call in _calls_within(program, *loop[:3]) if call.method != "print"]
    if not body:
        return None
    made = call_paths.path_of_all_ranks(program, loader)
    step = next(
        (call_path for call in body[:5] if (call_path := call_paths.path_of_all_ranks(program, call)) is not None), None
    )
    if made is None or step is None:
        return None
    files = call_paths.related(program, step.root[0])
    if any(program.imports_from(file, *_OTHER_DIVISIONS) for file in files):
        return None
    wrapped = _trains_wrapped(program, body)
    if wrapped is None and not _wraps_somewhere(program, files):
        return None
    term = loader.argument_term(0, "dataset")
    kind = _data_set(program, loader, made, term)
    shuffle = loader.argument_term(2, "shuffle")
    shuffled = shuffle >= 0 and call_paths.value_on(made, shuffle).constant is True
    known = shuffle < 0 or call_paths.value_on(made, shuffle).constant is not NoConstant
    if kind.excused or not (kind.certain or shuffled):
        return None
    certain = kind.certain and wrapped is not None and known and made.certainty == step.certainty == Certainty.PROVEN
    severity = Severity.ERROR if certain else Severity.WARNING
    if call_paths.owned_by_a_framework(step) or call_paths.owned_by_a_framework(made) or call_paths.in_tests(step):
        severity = Severity.INFO
    data = loader.argument_text(0, "dataset")
    own = _undivided(program, loader)
    if own is not None:
        name = program.index.classes[own.const[0]][own.const[1]].name
        return loader.found(
            rules.DC732,
            f"the sampler of this loader, {name}, uses neither rank nor world size, "
            f"so that every rank trains on all of {data or 'the data'}",
            fix="divide the sampler's indices by rank: indices[rank::world_size], with as many on each rank",
            severity=min(severity, Severity.WARNING),
            basis=(own, added(made.certainty, step.certainty), *(() if wrapped is None else (wrapped,))),
            flow=[
                *program.flow(made.steps),
                f"{program.index.files[loop.file].path}:{loop.line}: the loop that trains from it",
            ],
        )
    return loader.found(
        rules.DC732,
        f"this loader has no DistributedSampler, so that every rank trains on all of {data or 'the data'}",
        fix=f"sampler=DistributedSampler({data}) instead of shuffle=True, and sampler.set_epoch(epoch) in each epoch"
        if shuffled
        else f"sampler=DistributedSampler({data}), and sampler.set_epoch(epoch) in each epoch",
        severity=severity,
        flow=[
            *program.flow(made.steps),
            f"{program.index.files[loop.file].path}:{loop.line}: the loop that trains from it",
        ],
    )


def _trains_wrapped(program: Program, body: Iterable[SourceCall]) -> Atom | None:
    """Return the wrapped model that is called in a loop's body, or in a function that is entered there."""
    for call in body:
        found = call.callee.wrapped("ddp", "fsdp", "fsdp2")
        if found is not None:
            return found
        for function in program.functions(call):
            for row in program.rows_of(*function):
                if isinstance(row, SourceCall):
                    found = row.callee.wrapped("ddp", "fsdp", "fsdp2")
                    if found is not None:
                        return found
    return None


def _wraps_somewhere(program: Program, files: Iterable[int]) -> bool:
    wanted = set(files)
    wrappers = [dotted for dotted, call_path in vocabulary.WRAPPERS.items() if call_path != "dp"]
    return any(call.file in wanted for call in program.calls_to(*wrappers))


def _data_set(program: Program, loader: SourceCall, call_path: CallPath, term: int) -> _DataSet:
    """Return what the data set of a loader is, as far as it can be followed."""
    row, given, calls = loader, term, call_path.calls
    while True:
        if given < 0 or call_paths.differs(row, given):
            return _DataSet(False, True)
        new, found, rest = call_paths.term_on(call_path, row, given, calls[:1])
        if (new, found) == (row, given):
            break
        row, given, calls = new, found, (*rest, *calls[1:])  # type: ignore[assignment]
    if _MADE_UP.search(row.term_text(given)):
        return _DataSet(False, True)
    value = row.term_value(given)
    certain = False
    for atom in value:
        if atom.kind == Kind.OBJECT:
            if program.evaluator.derives(atom.const, _ITERABLE) or _speaks_of_ranks(program, atom):
                return _DataSet(False, True)
            if program.evaluator.method(atom.const, "__getitem__") is None:
                return _DataSet(False, program.evaluator.method(atom.const, "__iter__") is not None)
            certain = True
        elif atom.kind == Kind.RESULT and str(atom.const).startswith(("torchvision.datasets.", "torch.utils.data.")):
            certain = True
        elif atom.kind == Kind.FUNCTION:
            return _DataSet(False, True)
    return _DataSet(certain and len(value.atoms) == 1, False)


def _class_text(program: Program, ref: tuple[int, int], depth: int = 0) -> str:
    """Return the source of a class, and of those of the project that it derives from."""
    file, number = ref
    scope = program.index.scopes[file][program.index.classes[file][number].scope]
    text = "\n".join(program.lines(file)[scope.line - 1 : scope.end_line])
    if depth < 4:
        for base in program.evaluator.bases(ref):
            if base.kind == Kind.CLASS and base.const != ref:
                text += "\n" + _class_text(program, base.const, depth + 1)
    return text


def _speaks_of_ranks(program: Program, atom: Atom) -> bool:
    """Return whether a data set of the project divides its data alone, or draws it at random."""
    text = _class_text(program, atom.const)
    one = program.index.classes[atom.const[0]][atom.const[1]]
    if _OF_RANKS.search(text) or _MADE_UP.search(one.name):
        return True
    item = program.evaluator.method(atom.const, "__getitem__")
    if item is None:
        return False
    scope = program.scope(item)
    body = "\n".join(program.lines(item[0])[scope.line - 1 : scope.end_line])
    # an item that is drawn, not read by its key: what a benchmark feeds
    return "rand" in body and "[" not in body.split(":", 1)[-1]


# splits

_SEEDS = frozenset({"torch.manual_seed", "torch.random.manual_seed", "torch.seed", "torch.random.seed"})
_NUMPY_SEEDS = frozenset({"numpy.random.seed"})
_SPLITS = ("torch.utils.data.random_split",)
_SKLEARN_SPLITS = ("sklearn.model_selection.train_test_split",)
#: What functions are called that seed numpy among others.
_SEEDING = (
    "seed", "manual_seed", "set_seed", "seed_everything", "seed_all", "set_random_seed", "setup_seed", "fix_seed",
    "init_seeds", "set_seeds", "fix_random_seeds", "seed_torch", "set_all_seeds", "random_seed", "initialize_seeds",
    "fix_seeds", "set_global_seed", "same_seeds", "set_rng_seed", "reset_seed",
)  # fmt: skip
_TIMES = ("time.", "os.urandom", "secrets.", "uuid.", "random.", "numpy.random.")


@probe(rules.DC733)
def splits_agree(program: Program) -> Iterator[Finding]:
    """A random split that all ranks make takes its numbers from a generator that is alike on all of them."""
    for call in program.calls_to(*_SPLITS):
        if _is_given(call, 2, "generator") or call.has_star:
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        if call_path is None or _is_broadcast(program, call):
            continue
        seed = _last_seed(program, call_path, _SEEDS)
        if seed is None or not seed[1]:
            continue
        yield _split_finding(
            program,
            call_path,
            f"torch's generator has another seed on each rank (set at {seed[0].path}:{seed[0].line}), so that each "
            "rank splits the data in another way",
            "add generator=torch.Generator().manual_seed(0), or another seed that all ranks share",
        )
    for call in program.calls_to(*_SKLEARN_SPLITS):
        state = call.argument(None, "random_state")
        shuffle = call.argument(None, "shuffle")
        if call.has_star or (state is not None and state.constant is not None):
            continue
        if shuffle is not None and shuffle.constant is False:
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        if call_path is None or _is_broadcast(program, call):
            continue
        seed = _last_seed(program, call_path, _NUMPY_SEEDS)
        if seed is not None and not seed[1]:
            continue
        if seed is None and _is_seeded_somewhere(program, call_path):
            continue
        yield _split_finding(
            program,
            call_path,
            "numpy's generator starts from another state in each process and nothing has seeded it, so that each rank "
            "splits the data in another way"
            if seed is None
            else f"numpy's generator has another seed on each rank (set at {seed[0].path}:{seed[0].line}), so that "
            "each rank splits the data in another way",
            "add random_state=0, or another number that all ranks share",
        )


def _split_finding(program: Program, call_path: CallPath, message: str, fix: str) -> Finding:
    quiet = call_paths.owned_by_a_framework(call_path) or call_paths.in_tests(call_path)
    return call_path.row.found(
        rules.DC733,
        message,
        fix=fix,
        severity=Severity.INFO if quiet else Severity.WARNING,
        flow=program.flow(call_path.steps),
    )


def _is_broadcast(program: Program, call: SourceCall) -> bool:
    """Return whether something is broadcast behind the split in its function: likely the split of one rank."""
    return any(
        isinstance(row, SourceCall) and row.number > call.number and "broadcast" in row.method
        for row in program.rows_of(call.file, call.scope)
    )


def _last_seed(program: Program, call_path: CallPath, seeds: frozenset[str]) -> tuple[SourceCall, bool] | None:
    """The last call that has seeded a generator before the way's row is reached, and whether ranks differ by it."""
    for row in (call_path.row, *call_path.calls):
        before = [
            one
            for one in program.rows_of(row.file, row.scope)
            if isinstance(one, SourceCall) and one.number < row.number and program.may_precede(one, row)
        ]
        for one in reversed(before):
            found = _seeds(program, one, seeds, ())
            if found is not None:
                return one, found
    return None


def _seeds(program: Program, call: SourceCall, seeds: frozenset[str], calls: tuple[SourceCall, ...]) -> bool | None:
    """Return whether a call seeds a generator in another way on each rank; None where it seeds none."""
    if call.targets and not seeds.isdisjoint(call.targets):
        term = call.argument_term(0, "seed")
        return term < 0 or _is_of_this_rank(call, term, calls)
    if len(calls) < 3:
        for function in program.functions(call):
            for row in reversed(program.rows_of(*function)):
                if isinstance(row, SourceCall):
                    found = _seeds(program, row, seeds, (call, *calls))
                    if found is not None:
                        return found
    if "seed" in call.method.lower() and not program.functions(call) and call.method != "manual_seed_all":
        # seed_everything() of a library that can't be seen
        if any(target.startswith(("torch.cuda.", "random.", "numpy.", "torch.")) for target in call.targets):
            return None
        return any(_is_of_this_rank(call, term, calls) for term in call.term[2]) if call.term[2] else None
    return None


def _is_of_this_rank(row: SourceCall, term: int, calls: tuple[SourceCall, ...]) -> bool:
    """Return whether a seed is another number on each rank, as these calls have passed it."""
    call_path = CallPath(row, calls, (row.file, row.scope), Certainty.PROVEN)
    found, given, _ = call_paths.term_on(call_path, row, term)
    return call_paths.differs(found, given, by_data=False) or _is_of_time(found, given, 0)


def _is_of_time(row: EventRow, term: int, depth: int) -> bool:
    if term < 0 or depth > 6:
        return False
    parts = row.terms[term]
    if parts[0] == "c":
        call = next((atom for atom in row.term_value(parts[1]) if atom.kind == Kind.NAMED), None)
        if call is not None and str(call.const).startswith(_TIMES):
            return True
    return any(_is_of_time(row, inner, depth + 1) for inner in call_paths.operands(parts))


def _is_seeded_somewhere(program: Program, call_path: CallPath) -> bool:
    """Return whether anything in the program seeds numpy, or looks like it."""
    files = call_paths.related(program, call_path.root[0])
    return any(call.file in files for call in program.calls_named(*_SEEDING))


# evaluation


@probe(rules.DC734)
def evaluation_is_not_padded(program: Program) -> Iterator[Finding]:
    """An evaluation does not count the items that a sampler repeats to make all ranks even."""
    loaders = list(program.calls_to(*_LOADERS))
    for sampler in program.calls_to(_SAMPLER):
        shuffle, drop = sampler.argument(3, "shuffle"), sampler.argument(5, "drop_last")
        if shuffle is None or shuffle.constant is not False or (drop is not None and drop.constant is not False):
            continue
        own = {
            (loader.file, loader.number)
            for loader in loaders
            if (sampler.file, sampler.number) in _loader_samplers(program, loader)
        }
        if any(not own.isdisjoint(loop.loaders) for loop in _loops(program)):
            continue
        loops = [loop for loop in program.table(_evaluations) if not own.isdisjoint(loop.loaders)]
        if not loops or any(_cuts_repeats(program, loop) for loop in loops):
            continue
        yield sampler.found(
            rules.DC734,
            "this sampler repeats items of the evaluation set until all ranks have as many, and they are counted twice",
            fix="gather the results and cut them to len(dataset), or let each rank read "
            "Subset(dataset, range(rank, len(dataset), world_size))",
            flow=[f"{program.index.files[one.file].path}:{one.line}: the evaluation" for one in loops],
        )


def _evaluations(program: Program) -> Iterator[_Loop]:
    """Yield the loops over loaders that don't train, in functions that switch gradients off."""
    files = {call.file for call in program.calls_named("no_grad", "inference_mode", "eval")}
    for file in sorted(files):
        for number, scope, node, _ in _for_blocks(program, file):
            yield from _over_loaders(program, file, scope, number, node, trains=False)


def _cuts_repeats(program: Program, loop: _Loop) -> bool:
    """Return whether the function of an evaluation cuts something to a length: most likely the repeats."""
    for row in program.rows_of(*loop.function):
        if isinstance(row, SourceCall) and row.method == "gather_for_metrics":
            return True
        if row.kind in ("return", "bind") and row.line > loop.line:
            term = row.payload[-1]
            parts: tuple[Any, ...] = row.terms[term] if term >= 0 else ("-",)
            if parts[0] == "s" and row.terms[parts[2]][0] in (":", "-"):
                return True
    return False


@probe(rules.DC732)
def each_rank_evaluates_its_part(program: Program) -> Iterator[Finding]:
    """An evaluation that all ranks run gives each of them its part of the data."""
    loops = program.table(_evaluations)
    if not loops:
        return
    trained = {made for loop in program.table(_training_loops) for made in loop.loaders}
    for loader in program.calls_to(*_LOADERS):
        made = (loader.file, loader.number)
        if loader.has_star or made in trained or program.is_test(loader.file) or _is_divided(program, loader):
            continue
        loop = next((one for one in loops if made in one.loaders and _evaluates_all(program, loader, one)), None)
        if loop is not None:
            yield loader.found(
                rules.DC732,
                "every rank evaluates all of this data, so that more ranks do not make it faster",
                fix="give the loader `sampler=DistributedSampler(data, shuffle=False)` and add up what all ranks find, "
                "or evaluate on one rank, without the wrapper",
                severity=Severity.INFO,
                evaluated_at=f"{program.index.files[loop.file].path}:{loop.line}",
            )


def _evaluates_all(program: Program, loader: SourceCall, loop: _Loop) -> bool:
    """Return whether all ranks of a wrapped model certainly run a loop without gradients over the same data."""
    body = [
        call
        for call in _calls_within(program, *loop[:3])
        if call.method != "print" and without_gradients(program, call)
    ]
    if not body or _OF_RANKS.search("\n".join(program.lines(loop.file)[loop.line - 1 : loop.end_line])):
        return False
    made, step = call_paths.path_of_all_ranks(program, loader), call_paths.path_of_all_ranks(program, body[0])
    if made is None or step is None or not made.certainty == step.certainty == Certainty.PROVEN:
        return False
    files = call_paths.related(program, step.root[0])
    if any(program.imports_from(file, *_OTHER_DIVISIONS) for file in files) or not _wraps_somewhere(program, files):
        return False
    return not _data_set(program, loader, made, loader.argument_term(0, "dataset")).excused


# iterable data sets

_SOURCES = re.compile(r"data|source|stream|iter|loader|generator|reader|inner|base|wrapped|parent", re.I)


@probe(rules.DC735)
def iterables_are_divided(program: Program) -> Iterator[Finding]:
    """An iterable data set that all ranks train from gives each of them its part."""
    seen: set[Any] = set()
    for loader in program.calls_to(*_LOADERS):
        if loader.has_star or loader.gives(None, "worker_init_fn"):
            continue
        value = loader.argument(0, "dataset")
        for atom in value or ():
            if atom.kind != Kind.OBJECT or atom.const in seen or not program.evaluator.derives(atom.const, _ITERABLE):
                continue
            if atom.call is None or not _is_whole(program, atom):
                continue
            call_path = _trained_way(program, loader)
            if call_path is None or call_paths.differs(loader, loader.argument_term(0, "dataset")):
                continue
            seen.add(atom.const)
            yield _iterable_finding(program, atom, loader, call_path)


@probe(rules.DC735)
def iterables_are_divided_among_workers(program: Program) -> Iterator[Finding]:
    """An iterable data set that is divided by rank is divided among the workers of its loader as well."""
    seen: set[Any] = set()
    for loader in program.calls_to(*_LOADERS):
        workers = loader.argument(None, "num_workers")
        count = workers.constant if workers is not None else None
        if loader.has_star or loader.gives(None, "worker_init_fn") or not isinstance(count, int) or count < 2:
            continue
        for atom in loader.argument(0, "dataset") or ():
            if atom.kind != Kind.OBJECT or atom.const in seen or not program.evaluator.derives(atom.const, _ITERABLE):
                continue
            method = program.evaluator.method(atom.const, "__iter__")
            text = _class_text(program, atom.const)
            if method is None or not program.is_generator(method) or not _DIVIDED.search(text):
                continue
            reached = call_paths.reached_from(program, method)
            informed = {(call.file, call.scope) for call in program.calls_named("get_worker_info")}
            # a stream of random items is another one in each worker
            if "worker" in text.lower() or _RANDOM.search(text) or not informed.isdisjoint(reached):
                continue
            seen.add(atom.const)
            file, number = atom.const
            one = program.index.classes[file][number]
            yield loader.found(
                rules.DC735,
                f"each of the {count} workers yields all items of its rank: {one.name} divides them by rank only",
                fix="divide by rank and worker in __iter__(): itertools.islice(items, rank * workers + worker, None, "
                "world_size * workers), with torch.utils.data.get_worker_info()",
                severity=loader.milder_in_tests(rules.DC735),
                dataset=f"{program.index.files[file].path}:{one.line}: class {one.name}",
            )


def _trained_way(program: Program, loader: SourceCall) -> CallPath | None:
    if not any(loop.trains and (loader.file, loader.number) in loop.loaders for loop in _loops(program)):
        return None
    return call_paths.path_of_all_ranks(program, loader)


def _is_whole(program: Program, atom: Atom) -> bool:
    """Return whether nothing of a data set, nor of what it is made from, distinguishes ranks."""
    text = _class_text(program, atom.const)
    method = program.evaluator.method(atom.const, "__iter__")
    if method is None or _OF_RANKS.search(text) or _RANDOM.search(text):
        return False
    queried = {(call.file, call.scope) for call in program.calls_to(*vocabulary.SOURCES) if "rank" in call.method}
    if not queried.isdisjoint(call_paths.reached_from(program, method)):
        return False
    made = SourceCall(program, *atom.call) if atom.call is not None else None
    if made is None or made.has_star:
        return False
    init = program.evaluator.method(atom.const, "__init__")
    parameters = [name for name, _, _ in program.scope(init).parameters][1:] if init is not None else []
    for position, term in enumerate(made.term[2]):
        name = parameters[position] if position < len(parameters) else ""
        if _may_be_divided(made, name, term):
            return False
    return not any(_may_be_divided(made, name, term) for name, term in made.term[3])


def _may_be_divided(made: SourceCall, name: str, term: int) -> bool:
    """Return whether an argument differs between ranks, or is a source of data that may have been divided before."""
    if call_paths.differs(made, term):
        return True
    return bool(_SOURCES.search(name)) and made.term_value(term).has(
        Kind.RESULT, Kind.OBJECT, Kind.UNKNOWN, Kind.METHOD, Kind.WRAPPED, Kind.NAMED
    )


def _iterable_finding(program: Program, atom: Atom, loader: SourceCall, call_path: CallPath) -> Finding:
    file, number = atom.const
    one = program.index.classes[file][number]
    line = program.lines(file)[one.line - 1]
    column = len(line) - len(line.lstrip())
    span = program.span(file, one.line, column, one.line, len(line.rstrip()))
    where: Where = program.where(file, span, one.name)
    quiet = call_paths.owned_by_a_framework(call_path) or call_paths.in_tests(call_path)
    return rules.DC735.found(
        f"{one.name} gives every rank all of its items: its __iter__() and what it is made from know no rank",
        where=where,
        fix=Fix(
            "divide by rank and worker in __iter__(): itertools.islice(items, rank * workers + worker, None, "
            "world_size * workers)",
            where="code",
        ),
        evidence={
            "flow": [*program.flow(call_path.steps), f"{loader.path}:{loader.line}: the loader that trains from it"]
        },
        severity=Severity.INFO if quiet else Severity.WARNING,
    )
