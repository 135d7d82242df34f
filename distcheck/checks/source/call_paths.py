"""The call paths on which all ranks reach a line: from what each process runs, through calls without guards.

Rules about what all ranks do at once use this module. Any plausible guard on a path counts. A function without callers
is skipped, because nothing shows which ranks reach it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import vocabulary
from .collective_sequences import sequences_of
from .link import reachable
from .path_values import CallPath, is_open, passed_term
from .program import PARTIAL, EventRow, Function, Program, SourceCall, cached
from .rank_conditions import has_stand_in, is_guarded
from .source_text import last_name
from .spawned_functions import calls_in_spawned
from .values import Certainty, Kind, Who, added

#: What makes a process one of several.
_STARTS = (
    *vocabulary.INIT,
    "accelerate.Accelerator",
    "accelerate.PartialState",
    "deepspeed.initialize",
    "torch.distributed.init_device_mesh",
)
#: What shows that a process is one of several, where nothing is seen of how it started.
_WRAPPERS = tuple(dotted for dotted, call_path in vocabulary.WRAPPERS.items() if call_path != "dp")
#: What trains on all ranks if its launcher starts several.
TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "lightning.pytorch.Trainer")
_OWN_TRAINERS = (*TRAINERS, "trl.SFTTrainer", "trl.DPOTrainer", "trl.RewardTrainer", "trl.GRPOTrainer")
#: Classes whose methods these trainers call on all ranks, and the methods.
_HOOK_OWNERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "transformers.TrainerCallback")
_HOOKS = vocabulary.word_set(
    "on_train_begin on_train_end on_epoch_end on_step_end on_save on_evaluate on_log compute_loss training_step "
    "prediction_step prediction_loop evaluation_loop evaluate save_model"
)
_LIGHTNING_TRAINER = "lightning.pytorch.Trainer"
_LIGHTNING_OWNERS = (
    "lightning.pytorch.LightningModule",
    "lightning.pytorch.Callback",
    "lightning.pytorch.callbacks.Callback",
)
#: Methods that Lightning calls on all ranks; it calls ``prepare_data`` on one of each host.
_LIGHTNING_HOOKS = vocabulary.word_set(
    "training_step validation_step test_step predict_step training_epoch_end validation_epoch_end test_epoch_end "
    "on_fit_start on_fit_end on_train_start on_train_end on_train_epoch_start on_train_epoch_end on_train_batch_end "
    "on_validation_start on_validation_end on_validation_epoch_start on_validation_epoch_end on_validation_batch_end "
    "on_test_start on_test_end on_test_epoch_start on_test_epoch_end on_test_batch_end on_predict_end "
    "on_predict_epoch_end setup configure_optimizers"
)
#: Strategies of Lightning that start ranks by processes of the same script; the others go on as one process after them.
_BY_SCRIPTS = re.compile(r"^(ddp|fsdp|deepspeed)(?!.*(spawn|notebook|fork))")
_DEEPEST = 25
_MOST_CALLERS = 40
_MOST_STEPS = 500


class _PathTables(NamedTuple):
    """What is worked out once for a program."""

    #: who is called from a function: (function, found by its name only, kind)
    callees: dict[Function, list[tuple[Function, bool, str]]]
    #: functions that are entered by a call, by the call's file and event
    entered: dict[tuple[int, int], list[Function]]
    #: functions that create a group, and those that create one of a single process
    starting: set[Function]
    starting_alone: set[Function]
    #: functions that wrap a model
    wrapping: set[Function]
    #: functions that make a trainer of transformers or Lightning
    training: set[Function]
    #: functions that start others in processes of their own
    spawning: dict[Function, list[Function]]


@cached
def tables(program: Program) -> _PathTables:
    """Return who calls whom, downwards, and which functions start a group or processes."""
    callees: dict[Function, list[tuple[Function, bool, str]]] = {}
    entered: dict[tuple[int, int], list[Function]] = {}
    spawning: dict[Function, list[Function]] = {}
    # by files: of a large tree only some are held in memory at a time
    sites = sorted(
        (site.file, site.event, site.kind, site.weak, function)
        for function, found in program.evaluator.callers.items()
        for site in found
    )
    events: list[tuple[Any, ...]] = []
    last = -1
    for file, number, kind, weak, function in sites:
        if file != last:
            events, last = program.events[file], file
        caller = (file, int(events[number][1]))
        if kind == "process" and SourceCall(program, file, number).is_to("threading.Thread"):
            kind = "call"
        callees.setdefault(caller, []).append((function, weak, kind))
        if kind != "call":
            spawning.setdefault(caller, []).append(function)
        elif not weak:
            entered.setdefault((file, number), []).append(function)
    alone = {
        call
        for call in program.calls_to(vocabulary.INIT_GROUP)
        if call.gives(3, "world_size") and call.terms[call.argument_term(3, "world_size")][2:] == (1,)
    }
    starting = {(call.file, call.scope) for call in program.calls_to(*_STARTS) if call not in alone}
    starting_alone = {(call.file, call.scope) for call in alone}
    wrapping = {(call.file, call.scope) for call in program.calls_to(*_WRAPPERS)}
    training = {(call.file, call.scope) for call in program.calls_to(*TRAINERS) if not _uses_one_device(call)}
    return _PathTables(callees, entered, starting, starting_alone, wrapping, training, spawning)


def _trainers(program: Program) -> Iterator[SourceCall]:
    """Yield the calls that make a trainer of transformers, TRL or Lightning, or one of a class of the project."""
    yield from program.calls_to(*_OWN_TRAINERS)
    for file in range(len(program.index.files)):
        for number, one in enumerate(program.index.classes[file]):
            if one.bases and program.evaluator.derives((file, number), *_OWN_TRAINERS):
                for call in program.calls_named(one.name):
                    if any(atom.kind == Kind.CLASS and atom.const == (file, number) for atom in call.callee):
                        yield call


@cached
def _all_training(program: Program) -> frozenset[Function]:
    return frozenset((call.file, call.scope) for call in program.table(_trainers))


def _lightning_of_several(program: Program) -> Iterator[SourceCall]:
    """Yield the calls that make a trainer of Lightning which starts its script once more for each further rank."""
    for call in program.calls_to(_LIGHTNING_TRAINER):
        strategies = [call.argument(None, name) for name in ("strategy", "accelerator", "distributed_backend")]
        names = [name for value in strategies if value is not None for name in value.constants if isinstance(name, str)]
        counts = [call.constant(None, name) for name in ("devices", "gpus", "num_nodes")]
        named = any(map(_BY_SCRIPTS.match, names))
        counted = any(type(count) is int and count > 1 for count in counts)
        if (named and not _uses_one_device(call)) or (counted and (named or not any("_" in name for name in names))):
            yield call


def _uses_one_device(call: SourceCall) -> bool:
    """Return whether a trainer of Lightning is given one device: ``devices=1``, or ``[gpu]``."""
    given = [call.argument(None, name) for name in ("devices", "gpus")]
    return any(
        (atom.kind == Kind.CONST and atom.const in (1, "1")) or (atom.kind == Kind.LIST and len(atom.items) == 1)
        for value in given
        for atom in value or ()
    )


@cached
def path_past_lightning(program: Program, row: EventRow) -> CallPath | None:
    """Return a way of all ranks that a trainer of Lightning starts to a row, its hooks included."""
    several = set(program.table(_lightning_of_several))
    if not several:
        return None
    makers = {(call.file, call.scope) for call in several}
    search = _Search(program, row, True, weak=False, once=True, trainers=True, hooks=True)
    return next(
        (
            path
            for path in search.ways(row, (), Certainty.PROVEN, frozenset())
            if path.certainty == Certainty.PROVEN
            and (
                any(call in several for call in path.calls)
                or any((one.file, one.scope) in makers for one in (row, *path.calls))
            )
            and is_open(path)
        ),
        None,
    )


@cached
def _trainers_calling(program: Program, function: Function) -> list[SourceCall]:
    """Return the calls that make the trainers which call a method by its name, in the process of each rank."""
    file, scope = function
    owner = program.evaluator.owner_of(file, scope)
    name = program.scope(function).name
    if owner >= 0 and name in _LIGHTNING_HOOKS and program.evaluator.derives((file, owner), *_LIGHTNING_OWNERS):
        files = related(program, file)
        return [call for call in program.table(_lightning_of_several) if call.file in files]
    if owner < 0 or name not in _HOOKS:
        return []
    if not program.evaluator.derives((file, owner), *_HOOK_OWNERS):
        return []
    files = related(program, file)
    return [call for call in program.table(_trainers) if call.file in files]


@cached
def reached_from(program: Program, function: Function) -> frozenset[Function]:
    """The functions that run in the process that enters one, itself included; what it starts in others is not."""
    callees = tables(program).callees

    def entered(one: Function) -> list[Function]:
        inner = [target for target, weak, kind in callees.get(one, ()) if kind == "call" and not weak]
        return inner + [(one[0], child) for child in _inner_scopes(program, one[0]).get(one[1], ())]

    return frozenset(reachable([function], entered))


@cached
def _inner_scopes(program: Program, file: int) -> dict[int, list[int]]:
    """Return the lambdas and class bodies by the scope around them, which they belong to."""
    found: dict[int, list[int]] = {}
    for child, scope in enumerate(program.index.scopes[file]):
        if scope.kind in ("lambda", "class"):
            found.setdefault(scope.parent, []).append(child)
    return found


@cached
def starts_a_group(program: Program, function: Function) -> bool:
    """Return whether what runs from here on creates a process group, in this process.

    A wrapped model counts where nothing is seen of how the group came to be, unless a switch for it is off.
    """
    made = tables(program)
    reached = reached_from(program, function)
    if not made.starting.isdisjoint(reached):
        return True
    if made.wrapping.isdisjoint(reached) or not made.starting_alone.isdisjoint(reached):
        return False
    files = related(program, function[0])
    if any(file in files for file, _ in made.starting):
        return False
    wraps = [call for call in program.calls_to(*_WRAPPERS) if (call.file, call.scope) in reached]
    return not all(_is_switched_off(program, call, function, reached) for call in wraps)


def _is_switched_off(program: Program, row: SourceCall, root: Function, reached: frozenset[Function]) -> bool:
    """Return whether no call from a root on reaches a row: a parameter that a condition needs is False on each way."""
    found = False
    waiting: list[tuple[EventRow, tuple[SourceCall, ...]]] = [(row, ())]
    for _ in range(_MOST_STEPS):
        if not waiting:
            return found
        one, calls = waiting.pop()
        function = (one.file, one.scope)
        if function == root:
            if is_open(CallPath(row, calls, root, True)):
                return False
            found = True
            continue
        for site in program.evaluator.callers.get(function, ()):
            call = SourceCall(program, site.file, site.event)
            if site.kind == "call" and (call.file, call.scope) in reached and len(calls) < _DEEPEST:
                if call in calls:
                    continue
                waiting.append((call, (*calls, call)))
    return False


@cached
def _makes_a_trainer(program: Program, function: Function) -> bool:
    return not _all_training(program).isdisjoint(reached_from(program, function))


@cached
def is_switched_off(program: Program, function: Function) -> bool:
    """Return whether a function decides that there are no other ranks: ``distributed = False``, and nothing else."""
    if function in tables(program).starting:
        return False
    file, number = function
    terms = program.terms[file]
    bound = program.index.scopes[file][number].bindings
    for row in program.rows_of(file, number):
        if row.kind not in ("bind", "attribute") or row.block > 0:
            continue
        name = str(row.payload[row.kind == "attribute"])
        if vocabulary.TESTS.get(name.lower().strip("_")) != Who.DISTRIBUTED:
            continue
        values = (
            [terms[value] for value in bound.get(name, ())]
            if row.kind == "bind"
            # another function may set it on the object that it is given
            else [
                store.terms[store.payload[2]]
                for store in program.rows("attribute", related(program, file))
                if store.payload[1] == name
            ]
        )
        if values and all(value == ("k", "bool", False) for value in values):
            return True
    return False


def spawns_ranks(program: Program, function: Function) -> bool:
    """Return whether what runs from here on starts the ranks as processes of its own, and is none of them."""
    made = tables(program)
    return any(
        starts_a_group(program, target)
        for one in reached_from(program, function)
        for target in made.spawning.get(one, ())
    )


def paths_of_all_ranks(program: Program, row: EventRow, *, first_is_a_guard: bool = False) -> Iterator[CallPath]:
    """Yield the ways on which every rank reaches a row; none where all are guarded or nothing is known of who calls it.

    Only so many steps are taken: in a project where everything calls everything, not all ways are found.
    """
    search = _Search(program, row, first_is_a_guard, weak=True, once=False)
    yield from (call_path for call_path in search.ways(row, (), Certainty.PROVEN, frozenset()) if is_open(call_path))


def path_past_a_trainer(program: Program, row: EventRow, *, own: bool = False) -> CallPath | None:
    """Return a way of all processes of a trainer program to a row, through the function that makes the trainer.

    Such a program has several ranks only if its launcher starts several. All calls on the way are found for certain.

    :param own: trainers of classes of the project count, too, and so do their methods that the library calls
    """
    training = _all_training(program) if own else tables(program).training
    if not training:
        return None
    search = _Search(program, row, True, weak=False, once=True, trainers=True, hooks=own)
    return next(
        (
            path
            for path in search.ways(row, (), Certainty.PROVEN, frozenset())
            if path.certainty == Certainty.PROVEN
            and any((one.file, one.scope) in training for one in (row, *path.calls))
            and is_open(path)
        ),
        None,
    )


@cached
def path_of_all_ranks(program: Program, row: EventRow, *, first_is_a_guard: bool = False) -> CallPath | None:
    """One of :func:`paths_of_all_ranks`: a proven one, if there is one."""
    sure = _Search(program, row, first_is_a_guard, weak=False, once=True).ways(row, (), Certainty.PROVEN, frozenset())
    best = next(
        (call_path for call_path in sure if call_path.certainty == Certainty.PROVEN and is_open(call_path)), None
    )
    if best is None:
        search = _Search(program, row, first_is_a_guard, weak=True, once=True)
        every = list(search.ways(row, (), Certainty.PROVEN, frozenset()))
        best = next(filter(is_open, every), None)
        if best is None and every:
            # another call in a function that was passed may exclude nothing
            best = next(paths_of_all_ranks(program, row, first_is_a_guard=first_is_a_guard), None)
    return best


def path_from_outside(program: Program, row: EventRow) -> CallPath | None:
    """Return the way into a method that only tests call, of an object that takes part in a group; None for others.

    Code that is not in sight calls what the project offers.
    """
    function = (row.file, row.scope)
    scope = row.function
    if scope.kind != "function" or scope.name.startswith("_") or program.evaluator.owner_of(*function) < 0:
        return None
    if program.is_test(row.file):
        return None
    # a call in the method itself goes to another one of that name, or is made after it was entered
    callers = [SourceCall(program, *site[:2]) for site in program.evaluator.likely_callers(function)]
    if not all(program.is_test(call.file) or (call.file, call.scope) == function for call in callers):
        return None
    if is_guarded(row) or program.evaluator.decorated(*function).who in PARTIAL:
        return None
    call_path = CallPath(row, (), function, Certainty.MERGED)
    return call_path if _starts_by_itself(program, function) and is_open(call_path) else None


class _Search:
    """The search for ways, upwards from a row: through all its callers, depth first."""

    def __init__(
        self,
        program: Program,
        target: EventRow,
        first: bool,
        *,
        weak: bool,
        once: bool,
        trainers: bool = False,
        hooks: bool = False,
    ) -> None:
        self.program = program
        self.target = target
        self.first = first
        #: callers that are found by the name of a method only are followed
        self.weak = weak
        #: each function is passed through once, so that at least one way is found, and not all of them
        self.once = once
        #: a program that makes a trainer counts as one of several ranks
        self.trainers = trainers
        #: methods that a trainer calls by their names are entered where it is made
        self.hooks = hooks
        self.passed: set[Function] = set()
        self.steps = _MOST_STEPS

    def ways(
        self, row: EventRow, calls: tuple[SourceCall, ...], certainty: int, seen: frozenset[Function]
    ) -> Iterator[CallPath]:
        self.steps -= 1
        function = (row.file, row.scope)
        if self.steps < 0 or function in seen or len(calls) > _DEEPEST:
            return
        if is_guarded(row, first_is_a_guard=self.first) or has_stand_in(row):
            return
        if self.once:
            if function in self.passed and calls:
                return
            self.passed.add(function)
        seen = seen | {function}
        program, scope = self.program, row.function
        evaluator = program.evaluator
        if is_switched_off(program, function):
            return
        if scope.kind == "module":
            several = starts_a_group(program, function) or (self.trainers and _makes_a_trainer(program, function))
            if several and not spawns_ranks(program, function):
                yield CallPath(self.target, calls, function, certainty)
            return
        if scope.kind in ("class", "lambda"):
            # the body of a class runs where it stands; a lambda is called by whatever it is handed to
            if scope.kind == "class" and not any(_block_guards(program, row.file, scope.block)):
                outer = next(iter(program.rows_of(row.file, scope.parent)), None)
                if outer is not None:
                    yield from self.ways(outer, calls, certainty, seen)
            return
        if evaluator.decorated(*function).who in PARTIAL:
            return
        sites = [
            site
            for site in evaluator.callers.get(function, [])
            # a notebook is one process: its calls are no evidence about ranks, for or against
            if not program.index.files[site.file].cells
            or site.file == row.file
            or evaluator.distributed_files[site.file]
        ]
        strong = [site for site in sites if not site.weak]
        for site in (strong or (sites if self.weak else []))[:_MOST_CALLERS]:
            call = SourceCall(program, site.file, site.event)
            if site.weak and not _is_likely(program, call, function):
                continue
            if site.kind == "call" or call.is_to("threading.Thread"):
                step = Certainty.PROVEN
                if site.weak:
                    step = Certainty.MERGED if _is_named_after(program, call, function) else Certainty.WEAK
                yield from self.ways(call, (*calls, call), added(certainty, step), seen)
            elif starts_a_group(program, function) and not is_guarded(call):
                yield CallPath(self.target, calls, function, certainty)
        if sites:
            return
        for inner, known in calls_in_spawned(program, function):
            yield from self.ways(inner, (*calls, inner), added(certainty, known), seen)
        handed_in = _handed_in(program, function)
        for inner, call in handed_in:
            entered = (inner.file, inner.scope)
            if entered not in seen and not is_guarded(inner, first_is_a_guard=self.first):
                yield from self.ways(call, (*calls, inner, call), certainty, seen | {entered})
        for call in _handed_on(program, function):
            if any(call == known for _, known in handed_in):
                continue
            yield from self.ways(call, (*calls, call), added(certainty, Certainty.MERGED), seen)
        for call in _trainers_calling(program, function) if self.hooks else ():
            yield from self.ways(call, (*calls, call), certainty, seen)
        if _starts_by_itself(program, function):
            yield CallPath(self.target, calls, function, added(certainty, Certainty.MERGED))


def _is_likely(program: Program, call: SourceCall, function: Function) -> bool:
    """Return whether a call that was matched with a method by its name only is most likely one of it."""
    evaluator = program.evaluator
    if call.method.startswith("__"):
        # super().__init__() goes to a base of the class that it stands in
        own, other = evaluator.owner_of(call.file, call.scope), evaluator.owner_of(*function)
        return own >= 0 and other >= 0 and _is_base(program, (call.file, own), (function[0], other))
    if call.method in _OF_TORCH and not _is_named_after(program, call, function):
        # the network of the object, or its optimizer: what is called so is not known
        return False
    return len(evaluator.methods.get(call.method, ())) <= 3 and call.file in related(program, function[0])


#: Methods that modules, optimizers, schedulers and scalers of torch have: a project's method of that name is another.
_OF_TORCH = vocabulary.word_set(
    "train eval step save zero_grad state_dict load_state_dict forward backward update apply to cpu cuda half float "
    "double type reset compile scale unscale_"
)


def _is_named_after(program: Program, call: SourceCall, function: Function) -> bool:
    """Return whether the object of a call is called like the class of a method: ``self.trainer.train()``."""
    owner = program.evaluator.owner_of(*function)
    if owner < 0 or call.receiver_term < 0:
        return False
    variable = _letters(last_name(call.terms, call.receiver_term))
    name = _letters(program.index.classes[function[0]][owner].name)
    return len(variable) >= _SHORTEST_NAME and (name.endswith(variable) or variable.endswith(name))


#: A shorter name than this shows nothing about a class: ``g``, ``net``, ``fn``.
_SHORTEST_NAME = 4


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def _is_base(program: Program, one: Function, other: Function, depth: int = 0) -> bool:
    """Return whether the second class is one of the bases of the first."""
    return depth < 8 and any(
        base.const == other or _is_base(program, base.const, other, depth + 1)
        for base in program.evaluator.bases(one)
        if base.kind == Kind.CLASS and base.const != one
    )


def _block_guards(program: Program, file: int, block: int) -> Iterator[bool]:
    for guard in program.evaluator.guards(file, block):
        yield guard.who.who in PARTIAL


@cached
def _handed_in(program: Program, function: Function) -> list[tuple[SourceCall, SourceCall]]:
    """Return the calls of a parameter that a function is handed to, each with the call that hands it over."""
    found: list[tuple[SourceCall, SourceCall]] = []
    for site in program.evaluator.handed.get(function, ())[:10]:
        call = SourceCall(program, *site)
        for file, scope in program.functions(call):
            for name, _, star in program.scope((file, scope)).parameters:
                given = None if star else passed_term(program, call, (file, scope), name)
                if given is None or given[1] < 0:
                    continue
                value = program.evaluator.value(*given)
                if value.only(Kind.FUNCTION) and value.atoms[0].const == function:
                    found.extend(
                        (row, call)
                        for row in program.rows_of(file, scope)
                        if isinstance(row, SourceCall) and row.terms[row.term[1]] == ("p", scope, name)
                    )
    return found


def _handed_on(program: Program, function: Function) -> list[SourceCall]:
    """The calls that a function is handed to when a module is run, as ``fire.Fire(main)``: it runs because of them."""
    calls = (SourceCall(program, *site) for site in program.evaluator.handed.get(function, ())[:10])
    return [call for call in calls if call.at_module_level][:3]


def _starts_by_itself(program: Program, function: Function) -> bool:
    """Return whether a function without callers creates a group, wraps a model or contains a collective."""
    if spawns_ranks(program, function):
        return False
    if starts_a_group(program, function):
        return True
    if function in program.evaluator.escaped:
        # handed to something that may call it on one rank only
        return False
    if sequences_of(program).effectful(function):
        # where all ranks synchronize in a function, all of them enter it
        return True
    owner = program.evaluator.owner_of(*function)
    if owner < 0:
        return False
    init = program.evaluator.method((function[0], owner), "__init__")
    return init is not None and starts_a_group(program, init)


@cached
def related(program: Program, file: int) -> frozenset[int]:
    """Return the files that a file may run together with: the scripts that import it, and all that those import."""
    above = reachable([file], lambda one: _importers(program).get(one, ()))
    return frozenset(reachable(above, program.index.imported))


@cached
def _importers(program: Program) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for file in range(len(program.index.files)):
        for other in program.index.imported(file):
            found.setdefault(other, set()).add(file)
    return found
