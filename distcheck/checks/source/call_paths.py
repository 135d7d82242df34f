"""The call paths on which all ranks reach a line: from what each process runs, through calls without guards.

Rules about what all ranks do at once use this module. Any plausible guard on a path counts. A function without callers
is skipped, because nothing shows which ranks reach it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import source_text, vocabulary
from .collective_sequences import sequences_of
from .conditions import asserted, leaves_one_process
from .evaluate import Evaluator
from .link import reachable
from .program import FEW, PARTIAL, EventRow, Program, SourceCall, cached
from .source_text import last_name
from .values import Atom, Certainty, FlowStep, Kind, NoConstant, Value, Who, added

#: (file, number of the scope)
Function = tuple[int, int]

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
#: Words in a condition that can't be followed, which may test the rank.
_PLAUSIBLE = re.compile(
    r"rank|is_?main|main_?proc|master|chief|primary|leader|coordinator|is_?zero|global_?zero|is_?root|should_save|to_disk"
    r"|writer|is_?first|dist|process|node|gpu|device|local|worker|proc_?id|only_one|host|\bnr\b",
    re.IGNORECASE,
)
#: Words in what an attribute keeps that are hardly about anything else than a rank.
_OF_A_RANK = re.compile(r"rank|is_?main|main_?proc|is_?master|master_?proc|is_?chief|is_?primary", re.IGNORECASE)
#: Words in a condition after which an error is raised, which may mean that there are no other ranks. That the others
#: are kept away from a file by an error is not plausible.
_PLAUSIBLE_IN_ERROR = re.compile(r"rank|is_?main|main_?proc|master|dist|process|node|gpu|device|worker", re.IGNORECASE)
#: Parsed options in the text of a condition: the description of their parser is no word about a rank.
_PARSED = re.compile(r"(\w+\.)*ArgumentParser\(.*?\)\.parse_(known_)?args\([^()]*\)")
#: A number of batches: how the loader was made, ``sampler=DistributedSampler(…, rank=…)``, is no word about a rank.
_LENGTH_OF_LOADER = re.compile(r"\blen\((?=(\w+\.)*\w*(Loader|Sampler)\()")
#: Words with one of the others in them that are about data, kinds of hardware, or matrices.
_OF_OTHER_THINGS = re.compile(
    r"(pre|post|sub)_?process\w*|process(or|ed|ing)s?(?![a-z])|distill?(ed|ation)?(?![a-z])|\w*distance\w*"
    r"|distort\w*|distribution|num_workers|low_rank\w*|lora_rank|rank_dropout|device_type|get_device_capability"
    r"|MASTER_(PORT|ADDR)",
    re.IGNORECASE,
)
_COUNT = r"\b(?:num_?|n_?)?(?:nodes|gpus|hosts|machines|processes|procs|devices|nnodes|ngpus) ?"
#: Tests of a number that is the same on all ranks, by polarity: they pass where there are several.
_ARE_SEVERAL = {
    True: re.compile(rf"{_COUNT}(?:> ?1|>= ?2|!= ?1)(?![\w.])"),
    False: re.compile(rf"{_COUNT}(?:<= ?1|< ?2|== ?1)(?![\w.])"),
}
#: Words in the name of an unknown value that distinguish processes.
_OF_PROCESS = re.compile(
    r"(^|_)(rank|pid|uuid|host|hostname|worker|shard|part|proc|process|partition|replica|node|gpu|device|local)"
    r"(_|s?\d*$)|rank|uuid|tmp|temp",
    re.IGNORECASE,
)
#: Names of an unknown value that is what a loader gave: an item of this rank's data.
_OF_LOADERS = re.compile(r"^(mini_?|data_?)?(batch|sample)(es|s|_data)?$", re.IGNORECASE)
#: Calls whose results differ between processes; a dot at the end takes all of a module.
_PER_PROCESS = (
    "tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.mktemp", "tempfile.TemporaryDirectory",
    "tempfile.NamedTemporaryFile", "tempfile.TemporaryFile", "tempfile.SpooledTemporaryFile", "uuid.", "os.getpid",
    "os.getppid", "socket.", "platform.node", "random.", "numpy.random.", "secrets.", "os.urandom", "time.time",
    "time.perf_counter", "time.monotonic",
)  # fmt: skip
#: Kinds of values that differ between ranks.
_OF_RANKS = frozenset(
    {
        Kind.GLOBAL_RANK,
        Kind.LOCAL_RANK,
        Kind.NODE_RANK,
        Kind.RANK,
        Kind.GROUP_RANK,
        Kind.RANK_DEPENDENT,
        Kind.NODE_OFFSET,
        Kind.DEVICE,
    }
)
#: What only puts texts together.
_OF_TEXTS = frozenset(["format", "str", "join", "repr"])
_DEEPEST = 25
_MOST_CALLERS = 40
_MOST_STEPS = 500


class CallPath(NamedTuple):
    """One way on which every rank gets to a row."""

    row: EventRow
    #: the calls that lead there, the innermost first
    calls: tuple[SourceCall, ...]
    #: what the processes start with: a module, a spawned function, or a function that makes a group alone
    root: Function
    #: merged where it is not known that every rank starts the root, or where a call was found by its name alone
    certainty: int

    @property
    def steps(self) -> list[FlowStep]:
        """The way from its start, for the flow of a finding."""
        return [
            FlowStep(call.file, call.line, f"every rank calls {call.method or 'it'}() here")
            for call in reversed(self.calls)
        ]


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
    training = {(call.file, call.scope) for call in program.calls_to(*TRAINERS)}
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


@cached
def _trainers_calling(program: Program, function: Function) -> list[SourceCall]:
    """Return the calls that make the trainers which call a method by its name, in the process of each rank."""
    file, scope = function
    owner = program.evaluator.owner_of(file, scope)
    if owner < 0 or program.scope(function).name not in _HOOKS:
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
            if _is_open(CallPath(row, calls, root, True)):
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


def is_guarded(row: EventRow, *, first_is_a_guard: bool = False) -> bool:
    """Return whether a condition around a row, in its own function, may keep ranks away from it.

    :param first_is_a_guard: ``with main_process_first():`` counts, for what only the first one does
    """
    program = row.program
    for _, (_, kind, term, polarity, _, _) in row.blocks:
        if kind in ("if", "while") or kind.startswith("exit:"):
            if polarity and passes_by_a_count(row, term):
                continue
            who = program.evaluator.test(row.file, term).who
            if who in PARTIAL or who == Who.MEMBERS:
                return True
            if (who == Who.SINGLE and polarity) or (who == Who.DISTRIBUTED and not polarity):
                return True
            words = _PLAUSIBLE_IN_ERROR if kind == "exit:raise" else _PLAUSIBLE
            if who == Who.UNCLEAR and (
                words.search(_without_other_things(row.term_text(term), several=polarity)) or _keeps_a_rank(row, term)
            ):
                return True
            if _has_no_rank(row, term, polarity):
                return True
        elif kind == "with" and first_is_a_guard:
            name = last_name(row.terms, term).lower()
            if name in vocabulary.MAIN_FIRST or "first" in name or "lock" in name:
                return True
            if goes_first(program, row.file, term):
                return True
    if first_is_a_guard and _is_between_barriers(row):
        return True
    # that a rank is small enough, or the main one's, is also asserted: the others don't pass it either, and fail
    return any(
        leaves_one_process(row, term) or program.evaluator.test(row.file, term).who in FEW for term in asserted(row)
    )


def _keeps_a_rank(row: EventRow, term: int) -> bool:
    """Return whether a condition has an attribute that keeps what a rank may decide: ``self.saves = rank0 and …``."""
    evaluator, terms = row.program.evaluator, row.terms
    for number in row.program.subterms(row.file, term):
        if terms[number][0] != "a":
            continue
        owners = [atom.const for atom in row.term_value(terms[number][1]) if atom.kind == Kind.OBJECT]
        stores = evaluator.stores.get((*owners[0], terms[number][2]), ()) if len(owners) == 1 else ()
        for store in (row.program.event_row(*site) for site in stores):
            if _OF_A_RANK.search(_OF_OTHER_THINGS.sub("", store.term_text(store.payload[2]))):
                return True
    return False


def passes_by_a_count(row: EventRow, term: int) -> bool:
    """Return whether a condition holds on all ranks in some turns: ``rank == 0 and save or epoch == last``.

    ``and`` binds tighter than ``or``, which its author may not have meant.
    """
    parts = row.terms[term]
    if parts[0] != "or" or not any(row.terms[part][0] == "and" for part in parts[1]):
        return False
    return any(
        row.terms[part][0] == "="
        and row.terms[part][1] in ("==", ">=", ">")
        and row.term_value(row.terms[part][2]).has(Kind.UNIFORM)
        and not _PLAUSIBLE.search(row.term_text(part))
        for part in parts[1]
    )


def _is_between_barriers(row: EventRow) -> bool:
    """Return whether one rank goes first: the others wait before a row for a barrier that it calls behind it."""
    barriers = [
        call
        for call in row.program.calls_to("torch.distributed.barrier")
        if (call.file, call.scope) == (row.file, row.scope)
    ]
    before = any(one.number < row.number and one.own_reached_by.who in _ALL_BUT_FEW for one in barriers)
    return before and any(one.number > row.number and one.own_reached_by.who in FEW for one in barriers)


_ALL_BUT_FEW = frozenset((Who.OTHERS, Who.LOCAL_OTHERS, Who.ALL_BUT_ONE))


def _without_other_things(text: str, *, several: bool) -> str:
    """Return the text of a condition without what is no word about ranks: parsers, lengths of loaders, data, counts.

    :param several: the condition holds; else it does not
    """
    text = _PARSED.sub("args", text)
    while (length := _LENGTH_OF_LOADER.search(text)) is not None:
        end, open_ones = length.end(), 1
        while open_ones and end < len(text):
            open_ones += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = f"{text[: length.start()]}length{text[end:]}"
    return _ARE_SEVERAL[several].sub("", _OF_OTHER_THINGS.sub("", text))


def has_stand_in(row: EventRow) -> bool:
    """Return whether the object of a call differs between ranks: ``saver = Saver() if rank == 0 else NoOp()``."""
    object_term = row.receiver_term if isinstance(row, SourceCall) else -1
    if object_term < 0:
        return False
    program = row.program
    parts = row.terms[object_term]
    if parts[0] == "?":
        return program.evaluator.test(row.file, parts[1]).who in PARTIAL
    assignments: list[EventRow] = []
    if parts[0] == "v":
        assignments = [
            one
            for one in program.rows_of(row.file, row.scope)
            if one.kind == "bind" and one.payload[0] == parts[2] and one.number < row.number
        ]
    elif parts[0] == "a":
        assignments = [
            program.event_row(*site)
            for atom in row.term_value(parts[1])
            if atom.kind == Kind.OBJECT
            for site in program.evaluator.stores.get((*atom.const, parts[2]), ())
        ]
    return any(one.own_reached_by.who in PARTIAL for one in assignments)


def may_test_ranks(row: EventRow, term: int) -> bool:
    """Return whether the words of a condition may speak of ranks, or of what kind of run this is."""
    program = row.program
    return any(
        _PLAUSIBLE.search(str(row.terms[number][2]))
        for number in program.subterms(row.file, term)
        if row.terms[number][0] in ("a", "v", "p")
    )


def goes_first(program: Program, file: int, term: int) -> bool:
    """Return whether a context manager of the project lets one rank go first: others wait in it before its body.

    It is a generator with a collective under a rank check before its ``yield``.
    """
    parts = program.terms[file][term]
    return parts[0] == "c" and any(
        _waits_first(program, function) for function in program.functions(SourceCall(program, file, parts[5]))
    )


@cached
def _waits_first(program: Program, function: Function) -> bool:
    sequences = sequences_of(program)
    rows = program.rows_of(*function)
    first = next((row for row in rows if row.kind == "yield"), None)
    if first is None:
        return False
    return any(
        isinstance(row, SourceCall)
        and row.number < first.number
        and (
            row.own_reached_by.who in PARTIAL
            or any(node[1] == "if" and _PLAUSIBLE.search(row.term_text(node[2])) for _, node in row.blocks)
        )
        and (
            sequences.is_unseen(row)
            or sequences.collective_site(row) is not None
            or any(sequences.has_any(inner) for inner in program.functions(row))
        )
        for row in rows
    )


def _has_no_rank(row: EventRow, term: int, polarity: bool) -> bool:
    """Return whether a condition means that there is no rank or GPU, as ``gpu is None`` outside a distributed job.

    So does an object without an attribute that the project gives it in such a job: ``not hasattr(args, "rank")``.
    """
    parts = row.terms[term]
    while parts[0] == "u" and parts[1] == "not":
        parts, polarity = row.terms[parts[2]], not polarity
    if parts[0] == "c" and last_name(row.terms, parts[1]) == "hasattr" and len(parts[2]) == 2 and not polarity:
        name, evaluator = row.terms[parts[2][1]], row.program.evaluator
        return name[0] == "k" and _PLAUSIBLE.search(str(name[2])) is not None and _is_set(evaluator, str(name[2]))
    if parts[0] != "=" or parts[1] not in ("is", "is not") or row.terms[parts[3]] != ("k", "none", None):
        return False
    return (parts[1] == "is") == polarity and row.term_value(parts[2]).rank is not None


def _is_set(evaluator: Evaluator, name: str) -> bool:
    """Return whether an option or an assignment gives some object an attribute of a name."""
    return name in evaluator.options or any(attribute == name for _, attribute in evaluator.outside)


def paths_of_all_ranks(program: Program, row: EventRow, *, first_is_a_guard: bool = False) -> Iterator[CallPath]:
    """Yield the ways on which every rank reaches a row; none where all are guarded or nothing is known of who calls it.

    Only so many steps are taken: in a project where everything calls everything, not all ways are found.
    """
    search = _Search(program, row, first_is_a_guard, weak=True, once=False)
    yield from (call_path for call_path in search.ways(row, (), Certainty.PROVEN, frozenset()) if _is_open(call_path))


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
            and _is_open(path)
        ),
        None,
    )


@cached
def path_of_all_ranks(program: Program, row: EventRow, *, first_is_a_guard: bool = False) -> CallPath | None:
    """One of :func:`paths_of_all_ranks`: a proven one, if there is one."""
    sure = _Search(program, row, first_is_a_guard, weak=False, once=True).ways(row, (), Certainty.PROVEN, frozenset())
    best = next(
        (call_path for call_path in sure if call_path.certainty == Certainty.PROVEN and _is_open(call_path)), None
    )
    if best is None:
        search = _Search(program, row, first_is_a_guard, weak=True, once=True)
        every = list(search.ways(row, (), Certainty.PROVEN, frozenset()))
        best = next(filter(_is_open, every), None)
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
    return call_path if _starts_by_itself(program, function) and _is_open(call_path) else None


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


def _is_open(call_path: CallPath) -> bool:
    """Whether no condition on a path needs a parameter that is not given on it: ``if trt_file is not None``."""
    calls = call_path.calls
    for position, row in enumerate((call_path.row, *calls)):
        here = CallPath(row, calls[position:], call_path.root, call_path.certainty)
        for _, (_, kind, term, polarity, _, _) in row.blocks:
            if (kind == "if" or kind.startswith("exit:")) and _fails(here, term, polarity):
                return False
    return True


def _fails(call_path: CallPath, term: int, polarity: bool) -> bool:
    """Return whether a condition is never fulfilled by what a parameter is given on this way."""
    row = call_path.row
    parts = row.terms[term]
    if parts[0] == "and" and polarity:
        return any(_fails(call_path, part, True) for part in parts[1])
    if parts[0] == "or" and not polarity:
        return any(_fails(call_path, part, False) for part in parts[1])
    if parts[0] == "u" and parts[1] == "not":
        return _fails(call_path, parts[2], not polarity)
    tested = term
    if parts[0] == "=" and parts[1] in ("is", "is not") and row.terms[parts[3]] == ("k", "none", None):
        tested, polarity = parts[2], (parts[1] == "is not") == polarity
    elif parts[0] == "=" and parts[1] == "==" and row.terms[parts[2]][0] in ("p", "a"):
        kept = _kept_on(call_path, parts[2])
        if row.terms[parts[2]][0] == "p":
            kept = value_on(call_path, parts[2]) if polarity else None
        given, wanted = None if kept is None else kept.constant, row.term_value(parts[3]).constant
        known = kept is not None and NoConstant not in (given, wanted)
        return bool(call_path.calls) and known and (given != wanted) is polarity
    if row.terms[tested][0] == "a":
        kept = _kept_on(call_path, tested)
        constant = NoConstant if kept is None else kept.constant
        return (constant is None or constant is False) if polarity else constant is True
    if row.terms[tested][0] != "p" or row.terms[tested][1] != row.scope:
        return False
    value = value_on(call_path, tested)
    if not polarity:
        # what the call switches on: `train` in the arm for `not train`
        return bool(call_path.calls) and value.constant is True
    if not call_path.calls:
        # nothing is seen to call it: what is off by default may be on where there is one process only
        default = next((given for name, given, _ in row.function.parameters if name == row.terms[tested][2]), -1)
        return default >= 0 and row.term_value(default).constant in (None, False)
    return value.constant is None or value.constant is False or value.constant == ""


# values on a way


def term_on(
    call_path: CallPath, row: EventRow, term: int, calls: tuple[SourceCall, ...] | None = None
) -> tuple[EventRow, int, tuple[SourceCall, ...]]:
    """What a term that is a parameter was given on this way: the row of the call that gave it, and the term there."""
    program = row.program
    calls = call_path.calls if calls is None else calls
    while calls and term >= 0:
        parts = row.terms[term]
        if parts[0] != "p" or parts[1] != row.scope:
            break
        call = calls[0]
        passed = passed_term(program, call, (row.file, row.scope), parts[2])
        if passed is None:
            break
        if passed[0] != call.file or passed[1] < 0:
            break
        row, term, calls = call, passed[1], calls[1:]
    return row, term, calls


def value_on(call_path: CallPath, term: int) -> Value:
    """Return what a term of the way's row holds when it is reached on this way."""
    row, found, _ = term_on(call_path, call_path.row, term)
    if (row, found) == (call_path.row, term):
        parts = row.terms[term] if term >= 0 else ("-",)
        if parts[0] == "p" and call_path.calls:
            default = next((given for name, given, _ in row.function.parameters if name == parts[2]), -1)
            passed = passed_term(row.program, call_path.calls[0], (row.file, row.scope), parts[2])
            if passed is None and default >= 0:
                return row.term_value(default)
    return row.term_value(found)


def _kept_on(call_path: CallPath, term: int) -> Value | None:
    """Return what the constructor on this way was given for an attribute of its object: ``self.mode = mode``.

    None where the attribute is no parameter that it keeps, or gets another value elsewhere.
    """
    row = call_path.row
    program, evaluator = row.program, row.program.evaluator
    _, base, name = row.terms[term]
    owner = evaluator.owner_of(row.file, row.scope)
    init = None if owner < 0 else evaluator.method((row.file, owner), "__init__")
    stores = evaluator.stores.get((row.file, owner, name), ())
    if init is None or len(stores) != 1 or any(attribute == name for _, attribute in evaluator.outside):
        return None
    store = program.event_row(*stores[0])
    kept = store.terms[store.payload[2]]
    own = row.terms[base]
    if (store.file, store.scope) != init or store.block > 0 or kept[0] != "p":
        return None
    if own[0] != "p" or own[2] != source_text.first_parameter(row.function):
        return None
    rows = (row, *call_path.calls)
    for one, call in itertools.pairwise(rows):
        if (one.file, one.scope) == init and isinstance(call, SourceCall):
            passed = passed_term(program, call, init, kept[2])
            if passed is None:
                default = next(
                    (given for given_name, given, _ in store.function.parameters if given_name == kept[2]), -1
                )
                return None if default < 0 or call.has_star else store.term_value(default)
            return call.term_value(passed[1]) if passed[0] == call.file else None
    return None


def passed_term(program: Program, call: SourceCall, function: Function, name: str) -> tuple[int, int] | None:
    """Return the term that a call gives for a parameter, with its file; None where it gives none or can't be seen."""
    scope = program.scope(function)
    own = [parameter for parameter, _, star in scope.parameters if not star]
    for keyword, value in call.term[3]:
        if keyword == name:
            return call.file, value
    if name not in own:
        return None
    site = next(
        (
            site
            for site in program.evaluator.callers.get(function, ())
            if (site.file, site.event) == (call.file, call.number)
        ),
        None,
    )
    if site is None or site.kind != "call":
        return None
    position = own.index(name) - site.offset
    return (call.file, call.term[2][position]) if 0 <= position < len(call.term[2]) else None


def differs(row: EventRow, term: int, depth: int = 0, *, by_data: bool = True) -> bool:
    """Whether what a term holds differs between ranks, or may do so by all that is known: a path with the rank in it,
    a temporary folder, an item of the data that only this rank has.

    :param by_data: what comes from this rank's data counts, too
    """
    if term < 0 or depth > 12:
        return False
    program = row.program
    value = row.term_value(term)
    seen: dict[tuple[int, int], int] = {}
    if any(_atom_differs(program, atom, by_data, seen) for atom in value):
        return True
    parts = row.terms[term]
    kind = parts[0]
    if kind in ("p", "v", "a"):
        if value.has(Kind.UNKNOWN, Kind.METHOD, Kind.NAMED) and _OF_PROCESS.search(str(parts[2])):
            return True
        if by_data and value.only(Kind.UNKNOWN) and _OF_LOADERS.search(str(parts[2])):
            return True
        if kind != "a" or not _is_own_text(program, row, parts[1]):
            return False
        if _is_counter(value) and all(atom.kind == Kind.OBJECT for atom in row.term_value(parts[1])):
            # what else the object was made from does not matter
            return False
    if by_data and _are_indices(row, parts):
        return True
    inner = operands(parts)
    counted = _counted_from(row.terms, parts)
    if counted is not None:
        # a number that is counted, wherever its first one was loaded from
        inner, by_data = counted, False
    if kind == "c":
        # what is made from a path is a path of this rank; what a model makes from data is not
        called = last_name(row.terms, parts[1])
        if value.has(Kind.BATCH, Kind.WRAPPED) or not (by_data or called in _OF_TEXTS):
            return False
        inner = inner if row.terms[parts[1]][0] == "a" else inner[1:]
    return any(differs(row, one, depth + 1, by_data=by_data) for one in inner)


def _counted_from(terms: list[tuple[Any, ...]], parts: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Return what a counter starts with or ends at: that of ``range``, or the first item of ``enumerate``."""
    name = "range"
    if parts[0] == "x" and parts[2] == 0:
        parts, name = terms[parts[1]], "enumerate"
    if parts[0] != "e" or terms[parts[1]][0] != "c" or last_name(terms, terms[parts[1]][1]) != name:
        return None
    called = terms[parts[1]]
    if name == "range":
        return tuple(called[2])
    return (*called[2][1:], *(value for _, value in called[3]))


def _are_indices(row: EventRow, parts: tuple[Any, ...]) -> bool:
    """Return whether a term is what a ``DistributedSampler`` yields, or a list of that."""
    held = parts[1] if parts[0] == "e" else -1
    if parts[0] == "c" and last_name(row.terms, parts[1]) in ("list", "tuple", "iter", "enumerate") and parts[2]:
        held = parts[2][0]
    return held >= 0 and any(
        atom.kind == Kind.RESULT and str(atom.const).endswith(".DistributedSampler") for atom in row.term_value(held)
    )


def _is_counter(value: Value) -> bool:
    """Return whether a value starts with a number: what it may be later is counted from there."""
    return any(atom.kind == Kind.CONST and type(atom.const) is int for atom in value)


def _is_own_text(program: Program, row: EventRow, term: int) -> bool:
    """Whether the base of an attribute is worth checking: a call, a subscript, a path; not ``self`` or ``args``."""
    return row.terms[term][0] in ("c", "s", "e", "x", "o", "f")


def names_in(row: EventRow, term: int, depth: int = 0) -> str:
    """Return the names and texts that a term is made of, with spaces between them."""
    if term < 0 or depth > 10:
        return ""
    parts = row.terms[term]
    own = str(parts[2]) if parts[0] in ("k", "p", "v", "a") else str(parts[1]) if parts[0] == "i" else ""
    return " ".join([own, *(names_in(row, inner, depth + 1) for inner in operands(parts))])


def operands(term: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the terms whose values a term is made of, without tests and keys."""
    if term[0] in ("?", "d"):
        return tuple(term[2:] if term[0] == "?" else term[2])
    return tuple(item for item in source_text.operands(term) if item >= 0)


def _atom_differs(
    program: Program, atom: Atom, by_data: bool, seen: dict[tuple[int, int], int], depth: int = 0
) -> bool:
    """Whether an atom, or what it was made from, differs between ranks.

    :param seen: the depth at which the arguments of a call were checked before, in vain
    """
    if depth > 6:
        return False
    if atom.when.who in PARTIAL or atom.when.who == Who.MEMBERS or atom.kind in _OF_RANKS:
        return True
    if atom.kind == Kind.BATCH:
        return by_data
    if atom.kind == Kind.ENV_TEXT:
        return vocabulary.VARIABLES.get(atom.const) not in (None, Kind.WORLD_SIZE, Kind.LOCAL_WORLD_SIZE)
    if atom.kind == Kind.RESULT:
        dotted = str(atom.const)
        if any(dotted.startswith(name) if name.endswith(".") else dotted == name for name in _PER_PROCESS):
            return True
    inner: list[Atom] = [one for one in atom.of if one.kind != Kind.WRAPPED]
    for item in atom.items:
        inner.extend(item)
    if by_data and atom.kind in (Kind.RESULT, Kind.OBJECT) and atom.call is not None:
        if seen.get(atom.call, depth + 1) <= depth:
            return any(_atom_differs(program, one, by_data, seen, depth + 1) for one in inner)
        seen[atom.call] = depth
        call = SourceCall(program, *atom.call)
        inner.extend(one for term in operands(call.term)[1:] for one in call.term_value(term))
        if atom.kind == Kind.RESULT:
            inner.extend(one for one in call.receiver if one.kind != Kind.UNKNOWN)
    return any(_atom_differs(program, one, by_data, seen, depth + 1) for one in inner)


def is_constant(value: Value, depth: int = 0) -> bool:
    """Whether a value is the same on all ranks for certain: a constant, a counter of a loop, a text made of those."""
    return bool(value.atoms) and depth < 5 and all(_atom_constant(atom, depth) for atom in value)


def _atom_constant(atom: Atom, depth: int) -> bool:
    if atom.kind == Kind.UNIFORM:
        return atom.const in ("index", "size", "reduced")
    return atom.kind == Kind.CONST or (
        atom.kind == Kind.TEXT and all(_atom_constant(inner, depth + 1) for inner in atom.of)
    )


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


def owned_by_a_framework(call_path: CallPath) -> bool:
    """Return whether a framework owns the group, the loop or the guards in the row's file or where the way starts."""
    program = call_path.row.program
    files = {call_path.root[0], *(row.file for row in (call_path.row, *call_path.calls))}
    return any(program.framework(file) or program.imports_from(file, "ray") for file in files)


def in_tests(call_path: CallPath) -> bool:
    """Return whether the way begins or ends in a test."""
    program = call_path.row.program
    return program.is_test(call_path.row.file) or program.is_test(call_path.root[0])
