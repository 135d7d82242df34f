"""Seeds that all ranks share, so that they draw the same numbers, and seeds that the ranks never get."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_conditions, rank_dependence
from .loader_loops import LOADERS
from .models import calls_in, precedes
from .path_values import CallPath
from .program import EventRow, Function, Program, SourceCall
from .values import Certainty, Kind
from .vocabulary import SPAWNS, words

_SEEDS = {
    "torch.manual_seed": "torch",
    "torch.random.manual_seed": "torch",
    "accelerate.utils.set_seed": "torch",
    "numpy.random.seed": "numpy",
    "random.seed": "random",
}
_OF_ACCELERATE = "accelerate.utils.set_seed"
#: Transforms that draw from torch's generator.
_TRANSFORMS = lazy(
    r"^torchvision\.transforms\.(v2\.)?"
    r"(Random\w+|ColorJitter|AutoAugment|RandAugment|TrivialAugmentWide|AugMix|ScaleJitter)$"
)
#: What a training step draws: noise, steps, masks. A choice that decides what all ranks do is not among them.
_DRAWS = words(
    "torch.randn torch.randn_like torch.rand torch.rand_like torch.randint torch.randint_like torch.randperm "
    "torch.normal torch.bernoulli torch.multinomial"
)
#: Draws of ``random`` and numpy that need no other seed than the one set just before.
_SHUFFLES = frozenset(["shuffle", "sample", "permutation", "choice", "choices", "randperm"])
#: What divides a model, so that ranks need the same numbers.
_OTHER_DIVISIONS = words(
    "torch.distributed.tensor.parallel torch.distributed.pipelining torch.distributed.pipeline megatron fairscale "
    "colossalai deepspeed"
)
_OF_RANKS = lazy(r"rank|process_index|proc_id|worker_id", re.I)
#: What gives a generator another state later.
_RESEEDS = ("set_rng_state", "set_rng_state_all", "setstate", "set_state", "fork_rng")


class _Drawn(NamedTuple):
    """A random number that each rank draws."""

    row: EventRow
    text: str


@probe(rules.DC736)
def ranks_draw_other_numbers(program: Program) -> Iterator[Finding]:
    """Ranks that augment or sample at random have seeds of their own."""
    seen: set[Function] = set()
    for call in program.calls_to(*_SEEDS):
        if not any(_SEEDS.get(target) == "torch" for target in call.targets):
            continue
        for path in _paths(program, call):
            row, term, _ = path_values.term_on(path, call, call.argument_term(0, "seed"))
            key = (row.file, row.scope)
            if key in seen or term < 0 or path.certainty != Certainty.PROVEN or _differs(program, row, term):
                continue
            own = call.is_to(_OF_ACCELERATE) and not call.gives(1, "device_specific")
            if not own and (path_values.owned_by_a_framework(path) or call.is_to(_OF_ACCELERATE)):
                continue
            if path_values.in_tests(path) or _differs_later(program, path):
                continue
            drawn = _drawn(program, path.root)
            if drawn is None:
                continue
            seen.add(key)
            yield row.found(
                rules.DC736,
                f"all ranks have the same seed here ({row.term_text(term)}), so {drawn.text} gives the same "
                f"numbers on each ({drawn.row.place})",
                fix=f"set_seed({row.term_text(term)}, device_specific=True) adds the rank to it"
                if own
                else "add the rank to the seed after the model is built: torch.manual_seed(seed + rank)",
                severity=Severity.INFO,
                flow=[
                    *program.flow(path.steps),
                    f"{drawn.row.place}: random numbers that every rank draws",
                ],
            )


#: What a seed of a worker is made of that is another number in each worker or on each rank.
_OF_WORKERS = lazy(r"worker|rank|process_index|proc_id|epoch|initial_seed|time|urandom|getpid|rand", re.I)
#: Generators that torch seeds itself in each worker of a loader, or that start from the parent's state in each.
_OF_NO_WORKER = ("numpy.random.seed", "random.seed", "torch.manual_seed")


@probe(rules.DC736)
def workers_draw_other_numbers(program: Program) -> Iterator[Finding]:
    """The workers of a loader have seeds of their own."""
    seen: set[Function] = set()
    for loader in program.calls_to(*LOADERS):
        for atom in loader.argument(10, "worker_init_fn") or ():
            if atom.kind != Kind.FUNCTION or atom.const in seen:
                continue
            seen.add(atom.const)
            seeds = [row for row in program.rows_of(*atom.const) if isinstance(row, SourceCall) and row.argument_terms]
            seeds = [row for row in seeds if row.is_to(*_OF_NO_WORKER)]
            if not seeds or any(_is_of_a_worker(program, row) for row in seeds):
                continue
            path = call_paths.path_of_all_ranks(program, loader)
            if path is None or path_values.in_tests(path):
                continue
            row = seeds[0]
            yield row.found(
                rules.DC736,
                f"{row.term_text(row.argument_terms[0])} is the seed of every worker of the loader in {loader.place}, "
                "on all ranks and in each epoch: all draw the same numbers",
                fix="derive it from the seed that torch gives each worker: torch.initial_seed() % 2**32",
                severity=Severity.INFO,
                flow=[*program.flow(path.steps), f"{loader.place}: the workers are started here"],
            )


def _is_of_a_worker(program: Program, seed: SourceCall) -> bool:
    """Return whether a seed may be another number in another worker: what is not a constant or an option may be."""
    term = seed.argument_terms[0]
    if seed.terms[term][0] == "k":
        return False
    return (
        rank_dependence.differs(seed, term)
        or _OF_WORKERS.search(rank_dependence.names_in(seed, term)) is not None
        or any(seed.terms[number][0] in ("p", "c") for number in program.subterms(seed.file, term))
    )


def _paths(program: Program, call: SourceCall) -> Iterator[CallPath]:
    """Yield the ways on which all ranks seed: that of a module that is imported where the ranks already run, too."""
    found = False
    for path in call_paths.paths_of_all_ranks(program, call):
        found = True
        yield path
    if not found and call.at_module_level and not rank_conditions.is_guarded(call):
        for number, scope in enumerate(program.index.scopes[call.file]):
            function = (call.file, number)
            if scope.kind == "function" and call_paths.starts_a_group(program, function):
                yield CallPath(call, (), function, Certainty.PROVEN)
                return


def _differs(program: Program, row: EventRow, term: int) -> bool:
    """Return whether a seed may be another number on each rank."""
    if rank_dependence.differs(row, term) or _OF_RANKS.search(rank_dependence.names_in(row, term)):
        return True
    # what can't be followed may be anything, but for an option or an entry of a configuration
    parts = row.terms[term]
    if parts[0] == "c":
        return True
    return row.term_value(term).has(Kind.RESULT, Kind.BATCH)


def _differs_later(program: Program, path: CallPath) -> bool:
    """Return whether anything in the program gives a generator a state of its own on each rank."""
    files = call_paths.related(program, path.root[0])
    if any(program.imports_from(file, *_OTHER_DIVISIONS) for file in files):
        return True
    if any(True for _ in program.calls_named(*_RESEEDS, files=files)):
        return True
    for call in program.calls_in(files):
        name = call.method.lower()
        if "worker_init_fn" in call.keywords or ("generator" in call.keywords and "loader" in name):
            return True
        if "seed" in name or "generator" in name:
            # the device of a generator is no seed
            device = call.argument_term(0, "device") if call.method == "Generator" else -1
            for term in call.argument_terms:
                if term == device:
                    continue
                if rank_dependence.differs(call, term) or _OF_RANKS.search(rank_dependence.names_in(call, term)):
                    return True
            if call.targets and not call.argument_terms and name == "seed":
                return True
    for kind, name_at, value_at in (("bind", 0, 1), ("attribute", 1, 2)):
        for row in program.rows(kind, files):
            if "seed" in str(row.payload[name_at]).lower() and (
                rank_dependence.differs(row, row.payload[value_at])
                or _OF_RANKS.search(rank_dependence.names_in(row, row.payload[value_at]))
            ):
                return True
    return False


def _drawn(program: Program, root: Function) -> _Drawn | None:
    """Return a random transform, or a random tensor of a training step, that all ranks reach from a root."""
    reached = call_paths.reached_from(program, root)
    for call in program.calls:
        if (
            (call.file, call.scope) in reached
            and any(_TRANSFORMS.match(target) for target in call.targets)
            and not rank_conditions.is_guarded(call)
            and not program.is_test(call.file)
        ):
            return _Drawn(call, f"{call.method}()")
    training = _training_functions(program)
    for call in program.calls_to(*_DRAWS):
        if (call.file, call.scope) not in reached or (call.file, call.scope) not in training:
            continue
        if call.gives(None, "generator") or rank_conditions.is_guarded(call) or program.is_test(call.file):
            continue
        if not _precedes_a_backward(program, call):
            continue
        return _Drawn(call, f"{call.method}()")
    return None


def _training_functions(program: Program) -> set[Function]:
    """Return the functions with a backward pass."""
    return {(call.file, call.scope) for call in program.calls_named("backward", "manual_backward")}


def _precedes_a_backward(program: Program, call: SourceCall) -> bool:
    """Return whether a loop around a call has a backward pass after it."""
    loops = {number for number, _ in call.loops}
    return any(
        row.number > call.number and row.loops and row.loops[-1][0] in loops
        for row in program.rows_of(call.file, call.scope)
        if isinstance(row, SourceCall) and row.method in ("backward", "manual_backward")
    )


@probe(rules.DC738)
def spawned_ranks_are_seeded(program: Program) -> Iterator[Finding]:
    """Each spawned rank sets the seed: a new process does not inherit it."""
    for spawn in program.calls_to(*SPAWNS):
        if spawn.constant(5, "start_method", "spawn") != "spawn":
            continue
        target = spawn.argument(0, "fn")
        started = [atom.const for atom in target or () if atom.kind == Kind.FUNCTION]
        if not started or any(_may_seed(program, function) for function in started):
            continue
        seed = next(
            (
                call
                for call in program.calls_to(*_SEEDS)
                if precedes(program, call, spawn) and not _is_for_a_draw(program, call)
            ),
            None,
        )
        if seed is None or program.is_test(seed.file):
            continue
        name = program.scope(started[0]).name
        yield seed.found(
            rules.DC738,
            f"the seed is set in the process that starts the ranks: {name}(), which runs in each of them, sets none",
            fix=f"set the seed at the start of {name}(), with the rank added where ranks need other random numbers",
            flow=[f"{spawn.place}: the ranks are started here", seed.as_step()],
        )


def _is_for_a_draw(program: Program, seed: SourceCall) -> bool:
    """Return whether a function sets a seed for its own draw: ``random.seed(0)``, then ``random.shuffle(names)``."""
    module = seed.targets[0].rpartition(".")[0] if seed.targets else ""
    return seed.scope != 0 and any(
        call.number > seed.number and target.startswith(f"{module}.") and call.method in _SHUFFLES
        for call in calls_in(program, (seed.file, seed.scope))
        for target in call.targets
    )


def _may_seed(program: Program, function: Function) -> bool:
    """Return whether what a process runs may set a seed: by a call that is named so, or by one that is not known."""
    reached = call_paths.reached_from(program, function)
    for file, scope in reached:
        for row in program.rows_of(file, scope):
            if not isinstance(row, SourceCall):
                continue
            callee = row.terms[row.term[1]]
            if "seed" in row.method.lower() or "random_state" in row.method.lower():
                return True
            if callee[0] == "p" and row.callee.only(Kind.UNKNOWN):
                return True
    return False
