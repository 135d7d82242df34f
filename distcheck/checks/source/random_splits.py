"""Random splits of a data set, and orders before it is divided, that differ between ranks (DC733)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_dependence
from .divided_loaders import PREPARES
from .loader_loops import DEEPEST_FLOW, LOADERS, SAMPLER, is_given, loaders_in
from .path_values import CallPath
from .program import EventRow, Program, SourceCall
from .term_queries import by_rank, parts, payload_terms
from .values import RANKS, Certainty, Kind, Value

_SEEDS = frozenset({"torch.manual_seed", "torch.random.manual_seed", "torch.seed", "torch.random.seed"})
_NUMPY_SEEDS = frozenset({"numpy.random.seed"})
_SPLITS = ("torch.utils.data.random_split",)
_SKLEARN_SPLITS = ("sklearn.model_selection.train_test_split",)
#: What functions are called that seed generators.
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
        if is_given(call, 2, "generator") or call.has_star:
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        if call_path is None or _is_broadcast(program, call):
            continue
        finding = _split_by(
            program, call_path, "torch", _SEEDS,
            "add generator=torch.Generator().manual_seed(0), or another seed that all ranks share",
        )  # fmt: skip
        if finding is not None:
            yield finding
    for call in program.calls_to(*_SKLEARN_SPLITS):
        if call.has_star or call.constant(None, "random_state") is not None:
            continue
        if call.constant(None, "shuffle") is False:
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        if call_path is None or _is_broadcast(program, call):
            continue
        finding = _split_by(
            program, call_path, "numpy", _NUMPY_SEEDS, "add random_state=0, or another number that all ranks share"
        )
        if finding is not None:
            yield finding


def _split_by(program: Program, call_path: CallPath, library: str, seeds: frozenset[str], fix: str) -> Finding | None:
    """Return the finding about a split by a library's generator, if that is in another state on each rank.

    It starts so in each process: torch seeds the default generator with a random number, as numpy does.
    """
    seed = _last_seed(program, call_path, seeds)
    if seed is None and _is_seeded_somewhere(program, call_path):
        return None
    if seed is not None and not seed[1]:
        return None
    why = (
        f"nothing seeds {library}'s generator"
        if seed is None
        else f"{library}'s generator has a different seed on each rank (set at {seed[0].place})"
    )
    quiet = path_values.owned_by_a_framework(call_path) or path_values.in_tests(call_path)
    return call_path.row.found(
        rules.DC733,
        f"{why}, so each rank splits the data differently",
        fix=fix,
        severity=Severity.INFO if quiet else Severity.WARNING,
        flow=program.flow(call_path.steps),
    )


@probe(rules.DC733)
def orders_agree(program: Program) -> Iterator[Finding]:
    """Data that is divided among the ranks by position has the same order on all of them."""
    for call in program.calls_named("shuffle"):
        seed = call.argument_term(0, "seed")
        if seed < 0 or call.has_star or call.use == "drop" or any(one.startswith(_TIMES) for one in call.targets):
            continue
        value = call.term_value(seed)
        differs = value.get(*RANKS, Kind.RANK_DEPENDENT) if value.only(*RANKS, Kind.RANK_DEPENDENT) else None
        if differs is None or _is_streamed(program, call):
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        by = None if call_path is None else _divided_by(program, call)
        if call_path is None or by is None:
            continue
        text = call.argument_text(0, "seed")
        yield call.found(
            rules.DC733,
            f"the seed {text} differs between ranks, so each rank has the data in a different order. Then "
            f"{by.method}() divides it by position: some samples are read twice, and others never",
            fix="shuffle with a seed that all ranks share",
            basis=(differs, call_path.certainty),
            severity=Severity.INFO if path_values.in_tests(call_path) else Severity.WARNING,
            flow=[*program.flow(differs.flow), f"{by.place}: the data is divided among the ranks"],
        )


@probe(rules.DC733)
def shuffled_lists_agree(program: Program) -> Iterator[Finding]:
    """A list that is divided among the ranks by position is shuffled alike on all of them."""
    for call in program.calls_to("random.shuffle", "numpy.random.shuffle"):
        listed = call.argument_term(0, "x")
        if call.positional != 1 or listed < 0 or not _is_divided_later(program, call, listed):
            continue
        library = "random" if call.is_to("random.shuffle") else "numpy"
        seeds = [row for row in program.calls_in(set(program.component(call.file))) if "seed" in row.method.lower()]
        if any(by_rank(program, row.file, row.argument_term(0, "seed")) is None for row in seeds):
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        if call_path is None:
            continue
        yield call.found(
            rules.DC733,
            f"`{call.text()}` shuffles in a different order on each rank, and the list is then divided by position: "
            "some items are read twice, and others never",
            fix=f"shuffle alike on all ranks: {library}.Random(seed).shuffle(…)"
            if library == "random"
            else "shuffle alike on all ranks: numpy.random.default_rng(seed).shuffle(…)",
            severity=Severity.INFO if path_values.in_tests(call_path) else Severity.WARNING,
        )


def _is_divided_later(program: Program, call: SourceCall, listed: int) -> bool:
    """Return whether a function takes every so many items of a list, from the rank on, after a call."""
    for row in program.rows_of(call.file, call.scope):
        if row.number <= call.number:
            continue
        for root in payload_terms(row):
            for number in parts(program, call.file, root) if root >= 0 else ():
                term = call.terms[number]
                if term[0] != "s" or term[1] != listed or call.terms[term[2]][0] != ":":
                    continue
                first, _, step = (*call.terms[term[2]][1], -1, -1, -1)[:3]
                if first >= 0 and step >= 0 and by_rank(program, call.file, first) is not None:
                    return True
    return False


def _divided_by(program: Program, shuffle: SourceCall) -> SourceCall | None:
    """Return the call that gives each rank a part of shuffled data: a sampler, or ``prepare`` of an Accelerator."""
    made = (shuffle.file, shuffle.number)
    for sampler in program.calls_to(SAMPLER):
        data = sampler.argument(0, "dataset")
        if data is not None and _is_made_from(program, data, made):
            return sampler
    prepared = list(program.calls_to(*PREPARES))
    for loader in program.calls_to(*LOADERS) if prepared else ():
        data = loader.argument(0, "dataset")
        if data is None or not _is_made_from(program, data, made):
            continue
        for call in prepared:
            loaders = (one for term in call.argument_terms for one in loaders_in(program, call.term_value(term)))
            if (loader.file, loader.number) in loaders and not _dispatches(program, call):
                return call
    return None


def _is_made_from(program: Program, value: Value, made: tuple[int, int], depth: int = 0) -> bool:
    """Return whether data is the result of a call, or made from it: by its methods, or as a data set of the project."""
    for atom in value if depth < DEEPEST_FLOW else ():
        if atom.call == made:
            return True
        call = program.call_of(atom) if atom.kind in (Kind.RESULT, Kind.OBJECT) else None
        if call is not None and any(
            _is_made_from(program, given, made, depth + 1)
            for given in (call.receiver, *(call.term_value(term) for term in call.term[2][:1]))
        ):
            return True
    return False


def _is_streamed(program: Program, shuffle: SourceCall) -> bool:
    """Return whether data is a stream, which an Accelerator reads in one process and hands out."""
    if shuffle.gives(1, "buffer_size"):
        return True
    call: SourceCall | None = shuffle
    for _ in range(DEEPEST_FLOW):
        atom = None if call is None else call.receiver.get(Kind.RESULT)
        call = None if atom is None else program.call_of(atom)
        if call is not None and (call.gives(None, "streaming") or call.method == "to_iterable_dataset"):
            return True
    return False


def _dispatches(program: Program, prepare: SourceCall) -> bool:
    """Return whether an Accelerator may read the data in one process: it has options for its loaders."""
    accelerators = (program.call_of(atom) for atom in prepare.receiver if atom.kind == Kind.RESULT)
    return any(
        made is None or made.has_star or made.gives(None, "dispatch_batches") or made.gives(None, "dataloader_config")
        for made in accelerators
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
    found, given, _ = path_values.term_on(call_path, row, term)
    return rank_dependence.differs(found, given, by_data=False) or _is_of_time(found, given, 0)


def _is_of_time(row: EventRow, term: int, depth: int) -> bool:
    if term < 0 or depth > 6:
        return False
    parts = row.terms[term]
    if parts[0] == "c":
        call = next((atom for atom in row.term_value(parts[1]) if atom.kind == Kind.NAMED), None)
        if call is not None and str(call.const).startswith(_TIMES):
            return True
    return any(_is_of_time(row, inner, depth + 1) for inner in rank_dependence.operands(parts))


def _is_seeded_somewhere(program: Program, call_path: CallPath) -> bool:
    """Return whether anything in the program seeds a generator, or looks like it."""
    files = call_paths.related(program, call_path.root[0])
    return any(call.file in files for call in program.calls_named(*_SEEDING))
