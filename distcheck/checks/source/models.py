"""Wrapped models, followed through the program: what was wrapped where, and which expressions are it or a part of it.

A network is known by the call that made it: after ``net = Net(); ddp = DDP(net)`` the name ``net`` stands for the
inside of ``ddp``. Questions only; what is right or wrong is for the modules that use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from . import vocabulary
from .program import EventRow, Function, Program, SourceCall
from .source_text import last_name
from .summary import Class
from .values import Atom, Kind

#: An object, known by the call that made it: (file, number of the event)
Made = tuple[int, int]

#: How far a value is followed from function to function.
FAR = 4
_WALKS = frozenset(["parameters", "named_parameters", "modules", "named_modules", "children", "named_children"])
#: Terms that stand for one object within a function.
_NAMEABLE = frozenset(["p", "v", "a", "c", "x", "e", "s", "?", "|"])
_NO_GRADIENTS = ("no_grad", "inference_mode")


class WrappedModel(NamedTuple):
    """A model that is wrapped somewhere."""

    call: SourceCall
    way: str
    #: what was wrapped, by the calls that made it
    made: frozenset[Made]
    #: what was wrapped, by its class where that belongs to the project
    classes: frozenset[tuple[int, int]]
    #: what was wrapped, as a term: file, term
    base: tuple[int, int]


class Root(NamedTuple):
    """The model that an expression is, or is a part of."""

    #: ``wrapped``, ``bare`` (inside of the wrapper) or ``raw`` (the network that was wrapped, by its own name)
    kind: str
    wrap: WrappedModel
    #: how many attributes lie between; 0 for the whole model
    steps: int


def made_by(program: Program, value: Iterable[Atom], near: Function) -> frozenset[Made]:
    """Return the calls that made the alternatives of a value, as seen from a function.

    What a function of the project makes that is called more than once is not one object.
    """
    found = set()
    for atom in value:
        if atom.kind not in (Kind.OBJECT, Kind.RESULT) or atom.call is None:
            continue
        maker = program.call_of(atom)
        if maker is None or (maker.inside("for", "while") and (maker.file, maker.scope) != near):
            continue
        if (maker.file, maker.scope) == near or len(program.callers((maker.file, maker.scope))) <= 1:
            found.add(atom.call)
    return frozenset(found)


def wraps(program: Program, *ways: str) -> list[WrappedModel]:
    """Return all calls that wrap a model, of these kinds (``ddp``, ``fsdp``, ``fsdp2``)."""
    return [wrap for wrap in program.table(_all_wraps) if wrap.way in ways]


def _all_wraps(program: Program) -> Iterator[WrappedModel]:
    last = {name.rsplit(".", 1)[-1] for name in vocabulary.WRAPPERS}
    for file, facts in enumerate(program.index.files):
        if any("arallel" in dotted or "FSDP" in dotted for dotted in facts.imports):
            last |= {one.name for one in _wrapper_classes(program, file)}
    seen = set()
    for call in sorted(program.calls_named(*sorted(last)), key=lambda call: (call.file, call.number)):
        if call in seen or not (call.positional or call.keywords):
            continue
        seen.add(call)
        own = (atom for atom in call.result if atom.kind == Kind.WRAPPED and atom.call == (call.file, call.number))
        atom = next(own, None)
        if atom is not None:
            made = made_by(program, atom.of, (call.file, call.scope))
            classes = frozenset(part.const for part in atom.of if part.kind == Kind.OBJECT)
            base = stripped(program, call.file, call.argument_term(0, "module"))
            yield WrappedModel(call, str(atom.const), made, classes, (call.file, base))


def stripped(program: Program, file: int, term: int) -> int:
    """A term without methods that give back the model that they are called on: ``net`` for ``net.to(device)``."""
    terms = program.terms[file]
    while term >= 0 and terms[term][0] == "c":
        callee = terms[terms[term][1]]
        if callee[0] == "a" and callee[2] in vocabulary.OF_MODELS:
            term = callee[1]
        elif callee[0] == "a" and callee[2] == "convert_sync_batchnorm" and terms[term][2]:
            term = terms[term][2][0]
        else:
            break
    return term


def near(program: Program, known: Iterable[WrappedModel]) -> set[int]:
    """Return the files that hang together with those where models are wrapped."""
    return {file for start in {wrap.call.file for wrap in known} for file in program.component(start)}


def _wrapper_classes(program: Program, file: int) -> Iterator[Class]:
    """Yield the classes of a file that derive from a wrapper."""
    for number, one in enumerate(program.index.classes[file]):
        if one.bases and is_wrapper_class(program, (file, number)):
            yield one


def wrapper_of(atom: Atom, *ways: str) -> Atom | None:
    """Return the wrapper that an alternative is, or is the inside of."""
    if atom.kind == Kind.BARE and atom.of:
        atom = atom.of[0]
    return atom if atom.kind == Kind.WRAPPED and atom.const in ways else None


def leaves_whole(wrap: SourceCall) -> bool:
    """Return whether a wrapper of FSDP is given a strategy that leaves parameters and gradients whole, or may be."""
    strategy = wrap.argument(2, "sharding_strategy")
    if strategy is None:
        return False
    known = [str(atom.const) for atom in strategy if atom.kind in (Kind.NAMED, Kind.CONST)]
    if any("NO_SHARD" in text for text in (wrap.argument_text(2, "sharding_strategy"), *known)):
        return True
    # an option whose values the project names
    return not known and any("NO_SHARD" in line for line in lines_near(wrap))


def lines_near(row: EventRow) -> Iterator[str]:
    """Yield the lines of all files that hang together with the file of a row by imports."""
    for file in row.program.component(row.file):
        yield from row.program.lines(file)


#: What makes the parameters of a model in FSDP whole on each rank.
_WHOLE = ("summon_full_params", "state_dict_type", "_unshard_params", "unshard")


def is_whole(program: Program, call: SourceCall) -> bool:
    """Return whether a call is made where the parameters of a model in FSDP are whole, or may be.

    The context may be around a caller, in a context manager of the project, or entered by ``stack.enter_context()``.
    """
    for row in lifted(program, call, 2):
        if row.within(*_WHOLE):
            return True
        contexts = (node[2] for _, node in row.blocks if node[1] == "with" and row.terms[node[2]][0] == "c")
        made = (SourceCall(program, row.file, row.terms[term][5]) for term in contexts)
        functions = (function for context in made for function in program.functions(context))
        if any(inner.method in _WHOLE for function in functions for inner in calls_in(program, function)):
            return True
        for other in calls_in(program, (row.file, row.scope)):
            entered = other.argument_terms if other.method == "enter_context" and other.number < row.number else ()
            if any(last_name(row.terms, term) in _WHOLE for term in entered):
                return True
    return False


def roots(program: Program, file: int, scope: int, term: int, known: list[WrappedModel]) -> list[Root]:
    """Return the wrapped models that a term is, or is a part of: ``model.module.backbone`` is a part of one.

    Empty where one alternative of its value is something else.
    """
    terms = program.terms[file]
    by_call = {(wrap.call.file, wrap.call.number): wrap for wrap in known}
    steps = 0
    for _ in range(20):
        if term < 0:
            return []
        value = program.evaluator.value(file, term)
        found: list[Root] = []
        if terms[term][0] in _NAMEABLE and not value.has(Kind.WRAPPED, Kind.BARE):
            found = [Root("raw", wrap, steps) for wrap in known if wrap.base == (file, term)]
        if found:
            return found
        others = False
        for atom in value:
            inside = atom.kind == Kind.BARE
            holder = atom.of[0] if inside and atom.of else atom
            if holder.kind == Kind.WRAPPED and holder.call in by_call:
                found.append(Root("bare" if inside else "wrapped", by_call[holder.call], steps))
                continue
            made = made_by(program, (atom,), (file, scope))
            raw = [Root("raw", wrap, steps) for wrap in known if made & wrap.made]
            found.extend(raw)
            others = others or (not raw and not (atom.kind == Kind.CONST and atom.const is None))
        if found:
            # the network by its own name is what counts only where it is nothing else
            found.sort(key=lambda root: root.kind == "raw")
            return [] if others else found
        operation = terms[term]
        if operation[0] in ("a", "s"):
            steps += 1
            term = operation[1]
        elif operation[0] == "c" and terms[operation[1]][0] == "a" and terms[operation[1]][2] in vocabulary.OF_MODELS:
            # net.encoder.cuda() is net.encoder
            term = terms[operation[1]][1]
        else:
            return []
    return []


def model_of_parameters(program: Program, file: int, term: int, depth: int = 0) -> int:
    """For something taken from ``model.parameters()`` or a loop over it: the term of ``model``; -1 for others."""
    if term < 0 or depth > 8:
        return -1
    terms = program.terms[file]
    operation = terms[term]
    if operation[0] in ("e", "x", "w"):
        return model_of_parameters(program, file, operation[1], depth + 1)
    if operation[0] == "*":
        found = model_of_parameters(program, file, operation[1], depth + 1)
        return found if found >= 0 else model_of_parameters(program, file, operation[2], depth + 1)
    if operation[0] == "c":
        callee = terms[operation[1]]
        if callee[0] == "a" and callee[2] in _WALKS:
            return int(callee[1])
        for argument in operation[2]:
            found = model_of_parameters(program, file, argument, depth + 1)
            if found >= 0:
                return found
    if operation[0] == "a" and operation[2] in ("weight", "bias", "data"):
        return int(operation[1])
    return -1


def without_gradients(program: Program, row: EventRow) -> bool:
    """Return whether a row runs under ``torch.no_grad()`` or ``inference_mode``: by a context or a decorator."""
    if row.within(*_NO_GRADIENTS):
        return True
    terms = program.terms[row.file]
    return any(last_name(terms, decorator) in _NO_GRADIENTS for decorator in row.function.decorators)


def lifted(program: Program, row: EventRow, far: int = FAR) -> Iterator[EventRow]:
    """Yield the row itself, and the calls through which its function is entered, and theirs."""
    pending: list[tuple[EventRow, int]] = [(row, 0)]
    seen = {(row.file, row.number)}
    while pending:
        one, depth = pending.pop(0)
        yield one
        if depth < far:
            for caller in program.callers((one.file, one.scope))[:10]:
                if (caller.file, caller.number) not in seen:
                    seen.add((caller.file, caller.number))
                    pending.append((caller, depth + 1))


def precedes(program: Program, one: EventRow, other: EventRow) -> bool:
    """Return whether ``one`` may have run when ``other`` does, where both are reached from one function."""
    later: dict[Function, EventRow] = {}
    for row in lifted(program, other):
        later.setdefault((row.file, row.scope), row)
    for row in lifted(program, one):
        match = later.get((row.file, row.scope))
        if match is not None:
            return row.number != match.number and program.may_precede(row, match)
    return False


def calls_in(program: Program, function: Function) -> list[SourceCall]:
    """Return the calls of one function."""
    return [row for row in program.rows_of(*function) if isinstance(row, SourceCall)]


def trains(program: Program, function: Function, depth: int = 0) -> bool:
    """Return whether a function, or one that it calls, runs a backward pass."""
    for call in calls_in(program, function):
        if is_backward(call):
            return True
        if depth < FAR and any(
            trains(program, inner, depth + 1) for inner in program.functions(call) if inner != function
        ):
            return True
    return False


def is_backward(call: SourceCall) -> bool:
    """Return whether a call is a backward pass: ``loss.backward()``, ``loss_scaler(loss, optimizer)`` …"""
    if call.method in ("backward", "manual_backward"):
        return True
    if call.positional > 1 and (call.method == "loss_scaler" or call.method.endswith("NativeScaler")):
        return call.callee.has(Kind.RESULT, Kind.UNKNOWN)
    return call.is_to("torch.autograd.backward")


def name_of(program: Program, call: SourceCall) -> str:
    """Return what the result of a call is kept as: ``model``, ``self.model``; empty where it is not kept."""
    kind, _, name = call.use.partition(":")
    if kind == "assign" and name:
        return name
    if kind == "assign":
        for row in program.rows_of(call.file, call.scope):
            if row.kind == "attribute" and row.payload[2] == call.event[7]:
                return f"{row.term_text(row.payload[0])}.{row.payload[1]}"
    return ""


def comes_after(program: Program, wrap: SourceCall, row: EventRow) -> bool:
    """Whether a row certainly comes after a model was wrapped: later in its function, or in a method after __init__."""
    if (wrap.file, wrap.scope) == (row.file, row.scope):
        return program.may_precede(wrap, row)
    mine = program.evaluator.owner_of(row.file, row.scope)
    return (
        mine >= 0
        and wrap.file == row.file
        and program.evaluator.owner_of(wrap.file, wrap.scope) == mine
        and wrap.function.name == "__init__"
        and row.function.name != "__init__"
        and not _called_from(program, row, wrap)
    )


def _called_from(program: Program, row: EventRow, wrap: SourceCall) -> bool:
    """Return whether a method is called by the very function that wraps, before it does."""
    return any(
        (caller.file, caller.scope) == (wrap.file, wrap.scope) and caller.number < wrap.number
        for caller in program.callers((row.file, row.scope))
    )


def is_wrapper_class(program: Program, ref: tuple[int, int]) -> bool:
    """Return whether a class derives from a wrapper: its own forward may call what is inside."""
    return program.evaluator.derives(
        ref,
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "apex.parallel.DistributedDataParallel",
    )
