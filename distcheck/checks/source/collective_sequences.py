"""The collectives of the whole job that a call makes, and what else in a function may synchronize ranks.

The groundwork of the probes about divergence: it knows functions, arms of branches and order. It judges nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy

from . import vocabulary
from .conditions import runs_without_other_ranks
from .gathered_contents import gathers_only_texts
from .program import EventRow, Program, SourceCall, cached
from .rank_reach import Guard, assume, truth_by, truth_of
from .source_text import last_name
from .term_queries import given_term, given_terms
from .values import NOTHING_KNOWN, PARTIAL, RANKS, Certainty, Kind, NoConstant, RankCondition, Value, Who

#: Deeper calls are not followed.
_DEEPEST = 6
#: No more collectives of one call are kept apart.
_MOST = 20
#: Methods so called are collectives whatever they belong to: only one library has such names.
_TELLING = {
    "wait_for_everyone": "accelerate.Accelerator.wait_for_everyone",
    "gather_for_metrics": "accelerate.Accelerator.gather_for_metrics",
    "full_tensor": "torch.distributed.tensor.DTensor.full_tensor",
    "consolidate_state_dict": "torch.distributed.optim.ZeroRedundancyOptimizer.consolidate_state_dict",
}
#: Constructors that bring the parameters of all ranks together.
_WRAPPING = frozenset(["ddp", "fsdp"])
#: Methods of objects that are usually called so.
_OF_RECEIVERS = {
    ("strategy", "barrier"): "lightning.pytorch.strategies.Strategy.barrier",
    ("strategy", "broadcast"): "lightning.pytorch.strategies.Strategy.broadcast",
    ("strategy", "reduce_boolean_decision"): "lightning.pytorch.strategies.Strategy.reduce_boolean_decision",
    ("fabric", "barrier"): "lightning.fabric.Fabric.barrier",
    ("fabric", "all_reduce"): "lightning.fabric.Fabric.all_reduce",
    ("fabric", "all_gather"): "lightning.fabric.Fabric.all_gather",
    ("fabric", "broadcast"): "lightning.fabric.Fabric.broadcast",
    ("accelerator", "gather"): "accelerate.Accelerator.gather",
    ("accelerator", "reduce"): "accelerate.Accelerator.reduce",
}
#: Collectives with some kinds of model only: what they do on a rank alone is not known from here.
_IT_DEPENDS = frozenset(["accelerate.Accelerator.get_state_dict", "accelerate.Accelerator.save_state"])
#: A call of something unseen that is called so may be the other half.
_SUSPICIOUS = lazy(
    r"barrier|sync|bcast|broadcast|gather|reduce|rendez|all_?to_?all|recv|receiv|wait|worker|listen|follow|serve|"
    r"collective|distribut|scatter",
    re.IGNORECASE,
)
#: Packages whose functions are known to be no collectives, whatever they are called.
_HARMLESS = frozenset(
    [
        "os", "sys", "time", "functools", "numpy", "np", "threading", "queue", "subprocess", "asyncio", "concurrent",
        "itertools", "math", "json", "shutil", "logging", "tqdm", "pandas", "builtins", "print", "ray", "socket",
        "signal", "multiprocessing",
    ]
)  # fmt: skip


class CollectiveSite(NamedTuple):
    """A call that makes ranks synchronize: the collectives of the whole job behind it, in order."""

    row: SourceCall
    #: canonical names; the same operation of several libraries has one name (see :func:`operation`)
    operations: tuple[str, ...]
    #: these and no others, exactly once each
    exact: bool
    #: the call of the first collective itself: the row, or one inside of what it calls
    innermost: SourceCall
    #: for each collective: what must hold of values at the row, so that it is reached inside of what the row calls
    assumes: tuple[tuple[_Assumed, ...], ...] = ()


class _Assumed(NamedTuple):
    """A value of a function that is true, or false: a term, the names of attributes below it, and its truth."""

    term: int
    attributes: tuple[str, ...]
    truth: bool


class _Reached(NamedTuple):
    """A collective behind a call."""

    call: SourceCall
    operation: str
    #: exactly once
    once: bool
    #: in terms of the function that was entered
    assumes: tuple[_Assumed, ...]


class _CollectiveStep(NamedTuple):
    """One collective in the body of a function, with what must hold to get there."""

    call: SourceCall
    own: str | None
    inner: tuple[int, int] | None
    #: term and polarity of every condition around it
    conditions: tuple[tuple[int, bool], ...]
    once: bool


class Sequences:
    """Answers which collectives calls make; what is known of a function is kept."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._steps: dict[tuple[int, int], tuple[_CollectiveStep, ...]] = {}
        self._effectful: dict[tuple[int, int], bool] = {}
        self._arms: dict[tuple[int, int, int], tuple[list[CollectiveSite], bool, bool]] = {}
        self._against: dict[tuple[int, Guard], list[int]] = {}

    def own(self, call: SourceCall) -> str | None:
        """Return the collective of the whole job that a call is, None for anything else."""
        if call.has_star and not call.gives(None, "group"):
            return None
        found = self.program.is_world_collective(call)
        if found is None and not self.program.functions(call):
            found = _TELLING.get(call.method) or self._of_objects(call)
        return None if found in _IT_DEPENDS or gathers_only_texts(call) else found

    def _of_objects(self, call: SourceCall) -> str | None:
        """Collectives that are recognized by the object they belong to, or by an argument."""
        receiver = call.receiver_text.rsplit(".", 1)[-1].lower()
        if not call.targets and (receiver, call.method) in _OF_RECEIVERS:
            return _OF_RECEIVERS[receiver, call.method]
        lightning = self.program.imports_from(call.file, "lightning", "pytorch_lightning")
        logs = call.method in ("log", "log_dict") and receiver in ("self", "pl_module", "module")
        if lightning and logs and call.constant(None, "sync_dist") is True:
            return "lightning.pytorch.LightningModule.log"
        # it has a barrier from 2.0 on: pytorch_lightning may be older
        if (
            call.method == "save_checkpoint"
            and receiver == "trainer"
            and self.program.imports_from(call.file, "lightning")
        ):
            return "lightning.pytorch.Trainer.save_checkpoint"
        if call.method == "compute":
            for atom in call.receiver:
                if atom.kind == Kind.RESULT and str(atom.const).startswith("torchmetrics."):
                    made = self.program.call_of(atom)
                    if made is None or not made.gives(None, "sync_on_compute"):
                        return f"{atom.const}.compute"
        for target in call.targets:
            if vocabulary.WRAPPERS.get(target) in _WRAPPING:
                return None if self.program.is_of_own_group(call) else target
        return None

    def collective_site(self, call: SourceCall) -> CollectiveSite | None:
        """Return the collectives of the whole job behind a call, None where there are none for sure."""
        own = self.own(call)
        if own is not None:
            return CollectiveSite(call, (operation(own),), True, call)
        functions = self.program.functions(call)
        if len(functions) != 1 or not self.effectful(functions[0]):
            return None
        found = list(self._behind(functions[0], self._parameters(call, functions[0], None), 0))
        if not found:
            return None
        operations = tuple(one.operation for one in found[:_MOST])
        exact = all(one.once for one in found) and len(found) < _MOST
        assumes = tuple(self._in_caller(call, functions[0], one.assumes) for one in found[:_MOST])
        return CollectiveSite(call, operations, exact, found[0].call, assumes)

    def inside(self, call: SourceCall, function: tuple[int, int]) -> tuple[list[CollectiveSite], bool]:
        """Return the collectives that one of several functions makes if the call enters it, and whether it is exact."""
        found = []
        if self.effectful(function):
            found = list(self._behind(function, self._parameters(call, function, None), 0))[:_MOST]
        sites = [CollectiveSite(one.call, (one.operation,), one.once, one.call) for one in found]
        return sites, all(one.once for one in found) and len(found) < _MOST

    def effectful(self, function: tuple[int, int]) -> bool:
        """Return whether a function has a collective in it, or in what it calls, reached by all who enter it."""
        known = self._effectful.get(function)
        if known is not None:
            return known
        self._effectful[function] = False
        found = any(
            step.own is not None or (step.inner is not None and self.effectful(step.inner))
            for step in self.steps(function)
        )
        self._effectful[function] = found
        return found

    def steps(self, function: tuple[int, int]) -> tuple[_CollectiveStep, ...]:
        """Return the calls of a function that may synchronize ranks, and that no condition on ranks guards."""
        known = self._steps.get(function)
        if known is not None:
            return known
        self._steps[function] = ()
        program = self.program
        file, number = function
        if program.evaluator.decorated(file, number).who in PARTIAL or _is_abstract(program, function):
            return ()
        found = []
        for row in program.rows_of(file, number):
            if not isinstance(row, SourceCall):
                continue
            own = self.own(row)
            functions = program.functions(row) if own is None else []
            inner = functions[0] if len(functions) == 1 and functions[0] != function else None
            if own is None and (inner is None or program.is_generator(inner)):
                continue
            guards = [guard for guard in strict_guards(row) if guard.who.who in PARTIAL or guard.who.who == Who.SINGLE]
            if row.inside("except") or (guards and (own is None or not self._in_both_arms(row, own, guards))):
                continue
            conditions = tuple(
                (node[2], node[3])
                for number, node in row.blocks
                if (node[1] == "if" or (node[1].startswith("exit:") and node[1] != "exit:raise"))
                and all(guard.block != number for guard in guards)
            )
            once = not guards and not row.inside("for", "while", "try") and not conditions
            found.append(_CollectiveStep(row, own, inner, conditions, once))
        self._steps[function] = tuple(found)
        return self._steps[function]

    def _in_both_arms(self, row: SourceCall, own: str, guards: list[Guard]) -> bool:
        """Return whether a call stands in the first arm of a branch by rank whose other arm makes the same collective.

        All ranks make it then, some of them here: ``if rank == 0: comm.bcast(data) else: data = comm.bcast(None)``.
        """
        if len(guards) != 1 or guards[0].kind != "if" or not guards[0].polarity:
            return False
        return any(
            isinstance(other, SourceCall)
            and self.own(other) == own
            and [(guard.term, guard.kind, guard.polarity) for guard in strict_guards(other) if guard.who.who in PARTIAL]
            == [(guards[0].term, "if", False)]
            for other in self.program.rows_of(row.file, row.scope)
        )

    def _behind(self, function: tuple[int, int], parameters: dict[str, Value], depth: int) -> Iterator[_Reached]:
        """Yield the collectives that a function makes for these arguments."""
        if depth > _DEEPEST:
            return
        file, scope = function
        for step in self.steps(function):
            if any(not self._may_hold(file, scope, term, polarity, parameters) for term, polarity in step.conditions):
                continue
            known: dict[int, bool] = {}
            for term, polarity in step.conditions:
                assume(self.program.terms[file], term, polarity, known)
            own = tuple(_Assumed(*self._path(file, term), truth) for term, truth in known.items())
            if step.own is not None:
                yield _Reached(step.call, operation(step.own), step.once, own)
            elif step.inner is not None and self.effectful(step.inner):
                inner = self._parameters(step.call, step.inner, (function, parameters))
                for found in self._behind(step.inner, inner, depth + 1):
                    assumed = (*own, *self._in_caller(step.call, step.inner, found.assumes))
                    yield found._replace(once=found.once and step.once, assumes=assumed)

    def _path(self, file: int, term: int) -> tuple[int, tuple[str, ...]]:
        """Return the value that an attribute is read from, and the names on the way."""
        terms = self.program.terms[file]
        names: list[str] = []
        while terms[term][0] == "a":
            names.append(terms[term][2])
            term = terms[term][1]
        return term, tuple(reversed(names))

    def _in_caller(
        self, call: SourceCall, function: tuple[int, int], assumed: tuple[_Assumed, ...]
    ) -> tuple[_Assumed, ...]:
        """Return what is assumed of the parameters of a function, in terms of the function that calls it."""
        terms = self.program.terms[function[0]]
        found = []
        for one in assumed:
            parts = terms[one.term]
            given = given_term(call, function, parts[2]) if parts[0] == "p" and parts[1] == function[1] else -1
            if given >= 0:
                base, names = self._path(call.file, given)
                found.append(_Assumed(base, (*names, *one.attributes), one.truth))
        return tuple(found)

    def is_switched_off(self, collective: CollectiveSite, guard: Guard) -> bool:
        """Return whether a guard lets all ranks through wherever the collectives inside of the call are reached.

        One flag decides both: ``if not shared and rank != 0: return`` before ``self.flush()``, which communicates only
        if ``shared``.
        """
        terms = self.program.terms[collective.row.file]
        paths = {
            number: self._path(collective.row.file, number)
            for number in self.program.subterms(collective.row.file, guard.term, names=False)
        }
        for assumes in collective.assumes:
            known = {
                number: one.truth
                for number, (base, names) in paths.items()
                for one in assumes
                if names == one.attributes and terms[base] == terms[one.term]
            }
            if truth_of(terms, guard.term, known) is not guard.polarity:
                return False
        return bool(collective.assumes)

    def _parameters(
        self, call: SourceCall, function: tuple[int, int], outer: tuple[tuple[int, int], dict[str, Value]] | None
    ) -> dict[str, Value]:
        """Return what the parameters of a function hold in one call, where it is a constant."""
        given = given_terms(call, function)
        found = {name: self._constant(call.file, term, outer) for name, term in given.items()}
        for name, default, _ in self.program.scope(function).parameters:
            if name not in given and default >= 0 and not call.has_star:
                found[name] = self.program.evaluator.value(function[0], default)
        return found

    def _constant(self, file: int, term: int, outer: tuple[tuple[int, int], dict[str, Value]] | None) -> Value:
        parts = self.program.terms[file][term]
        if parts[0] == "p" and outer is not None and (file, parts[1]) == outer[0]:
            return outer[1].get(parts[2], NOTHING_KNOWN)
        return self.program.evaluator.value(file, term)

    def _may_hold(self, file: int, scope: int, term: int, polarity: bool, parameters: dict[str, Value]) -> bool:
        """Return whether a condition can hold in this call, and holds on all ranks together."""
        if term >= 0:
            terms = self.program.terms[file]
            truth = truth_by(terms, term, lambda one: self._decided(file, scope, one, parameters))
            if truth is not None:
                return truth is polarity
        who = self.program.evaluator.test(file, term)
        # a switch that can't be seen through: it may well be off where this call stands
        return who.who != Who.UNCLEAR

    def _decided(self, file: int, scope: int, term: int, parameters: dict[str, Value]) -> bool | None:
        """Return the truth of a constant, a parameter or a comparison for these arguments; None if unknown."""
        parts = self.program.terms[file][term]
        if parts[0] == "k":
            return bool(parts[2])
        if parts[0] == "p" and parts[1] == scope:
            known = parameters.get(parts[2])
            if known is None:
                return None
            constant = known.constant
            return None if constant is NoConstant else bool(constant)
        if parts[0] == "=" and parts[1] in ("==", "!=", "is", "is not"):
            sides = [self._side(file, scope, part, parameters) for part in (parts[2], parts[3])]
            if NoConstant not in sides:
                return bool((sides[0] == sides[1]) == (parts[1] in ("==", "is")))
        return None

    def _side(self, file: int, scope: int, term: int, parameters: dict[str, Value]) -> Any:
        parts = self.program.terms[file][term]
        if parts[0] == "k":
            return parts[2]
        if parts[0] == "p" and parts[1] == scope and parts[2] in parameters:
            return parameters[parts[2]].constant
        return NoConstant

    # arms of branches

    def arms_against(self, row: EventRow, guard: Guard) -> list[int]:
        """Where those are whom a guard keeps away from a row: the other arms of its ``if``, or the arm that left."""
        if guard.kind.startswith("exit:"):
            return self.arms_that_left(row, guard)
        known = self._against.get((row.file, guard))
        if known is None:
            known = self._against[row.file, guard] = self._other_arms(row.file, guard)
        return known

    def _other_arms(self, file: int, guard: Guard) -> list[int]:
        blocks = self.program.blocks[file]
        parent = blocks[guard.block][0]
        found = []
        for number, node in enumerate(blocks):
            if number == guard.block or node[0] != parent or node[4] != guard.line:
                continue
            # the rest behind an arm that leaves counts as its other arm
            same = node[2] == guard.term and node[1] == "if"
            if (node[1] == "if" and (not same or node[3] != guard.polarity)) or node[1].startswith("exit:"):
                found.append(number)
        return found

    def exits_behind(self, row: EventRow, guard: Guard) -> list[EventRow]:
        """Return the statements that leave, of those whom an ``exit:`` guard keeps away from a row."""
        return [
            other
            for other in self.program.rows_of(row.file, row.scope)
            if other.kind == "exit"
            and other.number < row.number
            and any(node[1] == "if" and node[4] == guard.line for _, node in other.blocks)
        ]

    def arms_that_left(self, row: EventRow, guard: Guard) -> list[int]:
        """Return the arms whose end is one of those statements."""
        found = []
        for exit_row in self.exits_behind(row, guard):
            for number, node in reversed(exit_row.blocks):
                if node[1] == "if" and node[4] == guard.line:
                    found.append(number)
                    break
        return list(dict.fromkeys(found))

    def arm(self, row: EventRow, block: int) -> tuple[list[CollectiveSite], bool, bool]:
        """Return the collectives below a block in order, whether that is exact, whether more may be unseen."""
        known = self._arms.get((row.file, row.scope, block))
        if known is None:
            known = self._arms[row.file, row.scope, block] = self._arm(row, block)
        return known

    def _arm(self, row: EventRow, block: int) -> tuple[list[CollectiveSite], bool, bool]:
        collectives, exact, unseen = [], True, False
        for other in row.rows_in(block):
            if not isinstance(other, SourceCall):
                continue
            collective = self.collective_site(other)
            if collective is None:
                if self.is_unseen(other):
                    unseen = True
                continue
            # innermost first: the first of many blocks decides
            below = any(number > block and node[1] != "with" for number, node in reversed(other.blocks))
            exact = exact and not below and collective.exact
            collectives.append(collective)
        # a function that is made here, or handed to something unseen, may be called there
        unseen = unseen or any(self.has_any(function) for function in self._made_in(row, block))
        return collectives, exact, unseen

    def _made_in(self, row: EventRow, block: int) -> Iterator[tuple[int, int]]:
        """Yield the functions that are defined below a block, or handed to others there."""
        for number, scope in enumerate(self.program.index.scopes[row.file]):
            if scope.parent == row.scope and scope.kind in ("function", "lambda"):
                above = scope.block
                while above > block:
                    above = self.program.blocks[row.file][above][0]
                if above == block and block > 0:
                    yield row.file, number
        for other in row.rows_in(block):
            if isinstance(other, SourceCall):
                for term in other.argument_terms:
                    for atom in other.term_value(term):
                        if atom.kind == Kind.FUNCTION:
                            yield atom.const

    def is_unseen(self, call: SourceCall) -> bool:
        """Return whether a call of something that is not here has a name that lets a collective be expected."""
        if not _SUSPICIOUS.search(call.method) and not _SUSPICIOUS.search(call.receiver_text.rsplit(".", 1)[-1]):
            return False
        functions = self.program.functions(call)
        if functions:
            # of the project: it was searched; one with collectives under a condition may have them here
            return any(self.has_any(function) for function in functions)
        for target in call.targets:
            if target in vocabulary.COLLECTIVES or target in vocabulary.POINT_TO_POINT:
                return True
            first = target.split(".", 1)[0]
            if first in _HARMLESS or target.startswith(("torch.cuda", "torch.utils", "torch.nn", "torch.Tensor")):
                return False
            if first == "torch" and not target.startswith("torch.distributed"):
                return False
        return True

    def has_any(self, function: tuple[int, int], depth: int = 0) -> bool:
        """Return whether any collective or message stands in a function, whatever gets there."""
        for row in self.program.rows_of(*function):
            if isinstance(row, SourceCall):
                if any(
                    target in vocabulary.COLLECTIVES or target in vocabulary.POINT_TO_POINT for target in row.targets
                ):
                    return True
                if depth < 3 and any(self.has_any(inner, depth + 1) for inner in self.program.functions(row)):
                    return True
        return False


@cached
def sequences_of(program: Program) -> Sequences:
    """Return the sequences of a program, which all probes share."""
    return Sequences(program)


def operation(target: str) -> str:
    """Return the operation that a collective is, whatever library's: two of one name match."""
    last = target.rsplit(".", 1)[-1]
    return {
        "wait_for_everyone": "barrier", "synchronize": "barrier", "monitored_barrier": "barrier",
        "allreduce": "all_reduce", "allreduce_": "all_reduce", "allgather": "all_gather",
        "_all_gather_base": "all_gather_into_tensor", "all_gather_single": "all_gather_into_tensor",
        "_reduce_scatter_base": "reduce_scatter_tensor", "reduce_scatter_single": "reduce_scatter_tensor",
        "broadcast_": "broadcast",
    }.get(last, last)  # fmt: skip


def is_error_exit(program: Program, exits: Iterable[EventRow]) -> bool:
    """Whether all of these statements leave because something failed: in a handler, by an exception, with a status."""
    found = False
    for row in exits:
        found = True
        kind = row.payload[0]
        if kind == "raise":
            if not _raises_exit(program, row):
                continue
            return False
        if row.inside("except", "finally"):
            continue
        if kind == "call" and _status(program, row) not in (0, None):
            continue
        return False
    return found


def _raises_exit(program: Program, row: EventRow) -> bool:
    """``raise SystemExit`` with status 0 ends a process as ``sys.exit`` does."""
    text = row.text()
    return text.startswith("raise SystemExit") and not re.search(r"\([^)0]", text)


def _status(program: Program, row: EventRow) -> Any:
    """Return the status that ``sys.exit(…)`` gives; None without one, ``…`` where it is not a number."""
    for other in program.rows_of(row.file, row.scope):
        if isinstance(other, SourceCall) and other.line == row.line and other.number < row.number:
            value = other.argument(0)
            if value is None:
                return None
            constant = value.constant
            return ... if constant is NoConstant else constant
    return None


def strict_guards(row: EventRow) -> list[Guard]:
    """Return the guards of a row that bear on ranks, those skipped that come from leaving with an error."""
    program = row.program
    found = []
    for guard in row.guards:
        if guard.kind == "exit:raise" or guard.kind.startswith("exit:"):
            exits = [
                other
                for other, tests in _exits(program, row.file, row.scope)
                if other.number < row.number and guard.line in tests
            ]
            if is_error_exit(program, exits) or (guard.kind == "exit:continue" and _in_endless_loop(row, guard)):
                continue
        found.append(guard)
    return found


@cached
def _exits(program: Program, file: int, scope: int) -> list[tuple[EventRow, frozenset[int]]]:
    """Return the statements that leave a function or a loop, each with the lines of the tests around it."""
    return [
        (row, frozenset(node[4] for _, node in row.blocks if node[1] == "if"))
        for row in program.rows_of(file, scope)
        if row.kind == "exit"
    ]


def _in_endless_loop(row: EventRow, guard: Guard) -> bool:
    """Return whether a ``continue`` only delays a row: the loop around it ends by no condition of its own."""
    around = [node for number, node in row.blocks if node[1] in ("for", "while") and number < guard.block]
    return bool(around) and around[-1][1] == "while" and row.terms[around[-1][2]][0] == "k"


def partial_guards(row: EventRow) -> list[Guard]:
    """Return the guards that let some ranks of the job through and keep others away, for sure; outermost first."""
    found = []
    guards = strict_guards(row)
    if is_alone(guards):
        return []
    for guard in guards:
        if guard.who.who not in PARTIAL:
            continue
        for_a_call = row.program.evaluator.in_each_call(guard, row.file, row.scope)
        if for_a_call is None:
            continue
        if for_a_call.who.traced:
            found.append(for_a_call)
        elif _names_a_rank(row.program, row.file, guard.term):
            # next to torch.distributed, the name is more than a guess
            found.append(guard._replace(who=RankCondition(guard.who.who, Certainty.MERGED)))
    return found


def is_alone(guards: list[Guard]) -> bool:
    """Return whether one of several guards lets a process through only where there is no other."""
    return any(guard.who.who == Who.SINGLE and guard.who.traced for guard in guards)


def _names_a_rank(program: Program, file: int, number: int) -> bool:
    """Return whether a condition compares what can only be a rank by its name: local or global, only some have it."""
    if not program.evaluator.distributed_files[file]:
        return False
    terms = program.terms[file]
    parts = terms[number]
    if parts[0] == "and":
        return any(_names_a_rank(program, file, part) for part in parts[1])
    if parts[0] == "or":
        return all(_names_a_rank(program, file, part) for part in parts[1])
    if parts[0] == "u" and parts[1] == "not":
        return _names_a_rank(program, file, parts[2])
    if parts[0] != "=":
        return False
    for side, other in ((parts[2], parts[3]), (parts[3], parts[2])):
        name = last_name(terms, side).lower().strip("_")
        if name in _RANK_NAMES and program.evaluator.value(file, other).only(Kind.CONST, Kind.TUPLE, Kind.LIST):
            return all(
                atom.kind in RANKS or atom.kind in (Kind.CONST, Kind.UNKNOWN)
                for atom in program.evaluator.value(file, side)
            )
    return False


#: Names of ranks that are used for nothing else where torch.distributed is spoken.
_RANK_NAMES = frozenset(
    name
    for name, kind in vocabulary.NAMES.items()
    if kind in RANKS and name not in ("gpu", "gpu_id", "local_gpu", "node_id")
)


def who_runs(who: RankCondition, plural: str = "reach", singular: str = "reaches") -> str:
    """Return subject and verb of a sentence: which ranks reach a line, or what they do otherwise."""
    return {
        "the main process": f"only the main process {singular}",
        "all but the main process": f"all but the main process {plural}",
        "one rank": f"only one rank {singular}",
        "all but one rank": f"all but one rank {plural}",
        "one rank of each host": f"only one rank of each host {singular}",
        "all but one rank of each host": f"all but one rank of each host {plural}",
    }.get(who.who, f"only some ranks {plural}")


def condition_text(program: Program, file: int, guard: Guard) -> str:
    """A guard as source; what is not not so is so."""
    text = program.guard_text(file, guard)
    if text.startswith("not (not ") and text.endswith(")") and not re.search(r"\b(and|or)\b", text):
        return text[len("not (not ") : -1]
    return text


def flow_of(program: Program, file: int, term: int) -> list[str]:
    """Return the way of the ranks in a condition, for ``evidence["flow"]``."""
    terms = program.terms[file]
    found: list[str] = []
    todo = [term]
    seen: set[int] = set()
    while todo and len(seen) < 40:
        number = todo.pop(0)
        if number in seen or number < 0:
            continue
        seen.add(number)
        for atom in program.evaluator.value(file, number):
            if atom.flow and atom.kind != Kind.CONST:
                found.extend(program.flow(atom.flow))
        parts = terms[number]
        if parts[0] in ("and", "or"):
            todo.extend(parts[1])
        elif parts[0] == "=":
            todo.extend((parts[2], parts[3]))
        elif parts[0] == "u":
            todo.append(parts[2])
    return list(dict.fromkeys(found))[:6]


def _is_abstract(program: Program, function: tuple[int, int]) -> bool:
    """A method that only raises is not what runs."""
    rows = program.rows_of(*function)
    return bool(rows) and all(row.kind == "exit" and row.payload[0] == "raise" for row in rows)


def guarded_calls(program: Program, *, members: bool = False) -> Iterator[tuple[SourceCall, list[Guard]]]:
    """Yield all calls that a rank check keeps from some ranks, and the tests."""
    found, others = _guarded_so_far(program, members)
    position = 0
    while True:
        if position == len(found):
            one = next(others, None)
            if one is None:
                return
            found.append(one)
        yield found[position]
        position += 1


@cached
def _guarded_so_far(program: Program, members: bool) -> tuple[list[Guarded], Iterator[Guarded]]:
    """Return the guarded calls that have been found, which the caller adds to, and an iterator over all others."""
    return [], _find_guarded(program, members)


def _find_guarded(program: Program, members: bool) -> Iterator[Guarded]:
    known: dict[tuple[int, int], bool] = {}
    for call in program.calls:
        if call.block <= 0:
            continue
        key = (call.file, call.block)
        some = known.get(key)
        if some is None:
            some = known[key] = any(
                guard.who.who in PARTIAL or (members and guard.who.who == Who.MEMBERS) for guard in call.guards
            )
        if some:
            guards = narrow_guards(call) if members else partial_guards(call)
            if guards and not runs_without_other_ranks(call):
                yield call, guards[:_MOST_GUARDS]


def narrow_guards(row: EventRow) -> list[Guard]:
    """Return the guards that keep some ranks away, membership of a group included where it is needed right there."""
    terms, evaluator = row.program.terms[row.file], row.program.evaluator
    guards = strict_guards(row)
    if is_alone(guards):
        return []
    every = (evaluator.in_each_call(guard, row.file, row.scope) for guard in guards)
    return [
        guard
        for guard in every
        if guard is not None
        and guard.who.traced
        and (guard.who.who in PARTIAL or (guard.who.who == Who.MEMBERS and _tests_membership(terms, guard.term)))
    ]


#: Rank checks around one call that are judged, outermost first: an ``elif`` stands below all tests before it.
_MOST_GUARDS = 32
#: A call, and the rank checks that keep it from some ranks.
Guarded = tuple[SourceCall, list[Guard]]


def _tests_membership(terms: list[tuple[Any, ...]], number: int) -> bool:
    parts = terms[number]
    if parts[0] in ("and", "or"):
        return any(_tests_membership(terms, part) for part in parts[1])
    if parts[0] == "u":
        return _tests_membership(terms, parts[2])
    return bool(parts[0] == "=" and parts[1] in ("in", "not in"))
