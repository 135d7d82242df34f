"""Loaders without a sampler, from which every rank trains on all of the data (DC732)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_dependence, vocabulary
from .loader_loops import (
    ITERABLE,
    LOADERS,
    SAMPLER,
    LoaderLoop,
    calls_within,
    is_given,
    loops_over_loaders,
    made_instead,
)
from .models import calls_in
from .path_values import CallPath
from .program import EventRow, Program, SourceCall
from .term_queries import by_rank, origin_call, origins
from .values import Atom, Certainty, Kind, NoConstant, added
from .vocabulary import words

#: What makes each rank see data of its own, or the same on purpose, in a way that can't be followed.
OTHER_DIVISIONS = words(
    "torch.distributed.tensor.parallel torch.distributed.pipelining torch.distributed.pipeline megatron webdataset "
    "datasets.distributed torchdata nvidia.dali streaming"
)
RANK_WORDS = lazy(
    r"rank|world_?size|shard|replica|split_by|partition|process_index|num_processes|get_worker_info\(\)\.seed", re.I
)
#: How a data set is divided by rank.
DIVIDED_BY_RANK = lazy(
    r"%\s*(self\.)?(world_?size|num_replicas|n_?ranks)\b|\[\s*\S{0,80}rank(\(\))?\s*::|islice\([^)]{0,120}rank"
    r"|\brange\([^),]{0,80}rank[^,]{0,20},[^,]{0,80},[^)]{0,80}(?:world_?size|num_replicas)",
    re.I,
)
_DIVIDES = lazy(r"partition_dataset|split_(?:dataset_)?(?:by|between|across)|shard", re.I)
_MADE_UP = lazy(r"dummy|fake|synthetic|mock|toy|random", re.I)
RANDOM_WORDS = lazy(r"\b(randn?|randint|random|shuffle|choice|seed|generator|uniform|normal)\b|rand", re.I)


class _DataSet(NamedTuple):
    """What is known of a loader's data set."""

    #: it has indices, and every rank has all of them
    certain: bool
    #: a finding would be wrong, or can't be made
    excused: bool
    #: its name shows that nothing depends on what it holds
    is_toy: bool = False


@probe(rules.DC732)
def every_rank_has_all_of_the_data(program: Program) -> Iterator[Finding]:
    """A loader that a wrapped model is trained from gives each rank its part of the data."""
    if not loops_over_loaders(program):
        return
    for loader in program.calls_to(*LOADERS):
        if loader.has_star or is_divided(program, loader):
            continue
        for loop in loops_over_loaders(program):
            if (
                loop.certain
                and (loader.file, loader.number) in loop.loaders
                and not _is_next_to_a_divided_one(program, loader, loop)
            ):
                finding = _judge_loader(program, loader, loop)
                if finding is not None:
                    yield finding
                    break


def _is_next_to_a_divided_one(program: Program, loader: SourceCall, loop: LoaderLoop) -> bool:
    """Return whether a loop also walks through a loader with a sampler that is made together with this one.

    This one is for the evaluation then.
    """
    others = (SourceCall(program, *made) for made in loop.loaders if made != (loader.file, loader.number))
    return any(
        (other.file, other.scope) == (loader.file, loader.scope)
        and not made_instead(loader, other)
        and is_divided(program, other)
        for other in others
    )


@probe(rules.DC732)
def samplers_permute_alike(program: Program) -> Iterator[Finding]:
    """All ranks give ``DistributedSampler`` one seed: it takes a part of one permutation for each of them."""
    for sampler in program.calls_to(SAMPLER):
        if sampler.has_star:
            continue
        rank = sampler.constant(2, "rank")
        if type(rank) is int and sampler.constant(1, "num_replicas") != 1 and _is_made_by_all(program, sampler):
            yield sampler.found(
                rules.DC732,
                f"this sampler gets rank {rank} on every rank, so all of them train on the same share",
                fix="drop num_replicas and rank: the sampler takes both from the process group",
                severity=min(sampler.milder_in_tests(rules.DC732), Severity.WARNING),
            )
        if sampler.constant(3, "shuffle", True) is not True:
            continue
        term = sampler.argument_term(4, "seed")
        why = by_rank(program, sampler.file, term)
        if why is not None:
            yield sampler.found(
                rules.DC732,
                f"the seed of this sampler is `{sampler.argument_text(4, 'seed')}`, which differs between ranks: each "
                "takes its share of a different order, and the shares overlap",
                fix="give all ranks the same seed; the sampler divides the data by itself",
                basis=(why,),
                severity=min(sampler.milder_in_tests(rules.DC732), Severity.WARNING),
            )


def _is_made_by_all(program: Program, sampler: SourceCall) -> bool:
    """Return whether all ranks of a job make a sampler, and train a wrapped model with it."""
    path = call_paths.path_of_all_ranks(program, sampler)
    return path is not None and wraps_somewhere(program, call_paths.related(program, path.root[0]))


def is_divided(program: Program, loader: SourceCall) -> bool:
    """Return whether a loader has a sampler that may give each rank its part."""
    if is_given(loader, 4, "batch_sampler"):
        return True
    if not is_given(loader, 3, "sampler"):
        return False
    return _undivided(program, loader) is None and _drawn_alike(program, loader) is None


def _drawn_alike(program: Program, loader: SourceCall) -> SourceCall | None:
    """Return the call of torch's sampler that draws from a generator with a constant seed, without parts for ranks."""
    value = loader.argument(3, "sampler")
    if value is None or len(value.atoms) != 1:
        return None
    atom = value.atoms[0]
    made = program.call_of(atom) if atom.kind == Kind.RESULT and atom.traced else None
    if made is None or not made.is_to(*_DRAWING) or made.has_star:
        return None
    given = made.argument_term(3, "generator")
    if seed_of_generator(made, given) is None or any(rank_dependence.differs(made, one) for one in made.argument_terms):
        return None
    return made


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
        or _ENDLESS.search(text := class_text(program, atom.const))
        or RANK_WORDS.search(text)
    ):
        return None
    made = SourceCall(program, *atom.call)
    if made.has_star or any(
        rank_dependence.differs(made, term) or RANK_WORDS.search(rank_dependence.names_in(made, term))
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


#: Samplers of torch that draw indices; the generator is the fourth argument of each.
_DRAWING = tuple(f"torch.utils.data.{name}" for name in ("RandomSampler", "WeightedRandomSampler")) + tuple(
    f"torch.utils.data.sampler.{name}" for name in ("RandomSampler", "WeightedRandomSampler")
)
#: Bases from which a sampler learns nothing about other ranks.
_PLAIN_BASES = ("torch.utils.data.Sampler", "torch.utils.data.sampler.Sampler", "typing.Generic", "object")
#: A sampler that never ends counts steps, not epochs; one that seeds itself may draw for each rank.
_ENDLESS = lazy(r"while True|infinite|itertools|seed|generator|getenv|environ|dist\b|distributed", re.I)


def _judge_loader(program: Program, loader: SourceCall, loop: LoaderLoop) -> Finding | None:
    body = [call for call in calls_within(program, *loop[:3]) if call.method != "print"]
    if not body:
        return None
    made = call_paths.path_of_all_ranks(program, loader)
    step = next(
        (call_path for call in body[:5] if (call_path := call_paths.path_of_all_ranks(program, call)) is not None), None
    )
    if made is None or step is None:
        return None
    files = call_paths.related(program, step.root[0])
    if any(program.imports_from(file, *OTHER_DIVISIONS) for file in files):
        return None
    if _is_divided_on(made) or _is_of_another_object(made, loop):
        return None
    wrapped = _trains_wrapped(program, body)
    if wrapped is None and not wraps_somewhere(program, files):
        return None
    term = loader.argument_term(0, "dataset")
    kind = data_set_of(program, loader, made, term)
    shuffle = loader.argument_term(2, "shuffle")
    shuffled = shuffle >= 0 and path_values.value_on(made, shuffle).constant is True
    known = shuffle < 0 or path_values.value_on(made, shuffle).constant is not NoConstant
    if kind.excused or not (kind.certain or shuffled):
        return None
    certain = kind.certain and wrapped is not None and known and made.certainty == step.certainty == Certainty.PROVEN
    # a helper that returns one of several loaders may give the loop another one
    certain = certain and len(loop.loaders) == 1 and not kind.is_toy
    severity = Severity.ERROR if certain else Severity.WARNING
    if path_values.owned_by_a_framework(step) or path_values.owned_by_a_framework(made) or path_values.in_tests(step):
        severity = Severity.INFO
    data = loader.argument_text(0, "dataset")
    own = _undivided(program, loader)
    if own is not None:
        name = program.index.classes[own.const[0]][own.const[1]].name
        return loader.found(
            rules.DC732,
            f"the sampler of this loader, {name}, uses neither rank nor world size, "
            f"so every rank trains on all of {data or 'the data'}",
            fix="divide the sampler's indices by rank: indices[rank::world_size], with as many on each rank",
            severity=min(severity, Severity.WARNING),
            basis=(own, added(made.certainty, step.certainty), *(() if wrapped is None else (wrapped,))),
            flow=[
                *program.flow(made.steps),
                f"{program.place(loop.file, loop.line)}: the loop that trains from it",
            ],
        )
    drawing = _drawn_alike(program, loader)
    if drawing is not None:
        return loader.found(
            rules.DC732,
            f"`{drawing.text()}` draws from a generator with one seed, so every rank trains on the same samples",
            fix="give each rank its own part of the indices, or another seed: manual_seed(seed + rank)",
            severity=min(severity, Severity.WARNING),
            flow=[drawing.as_step(), *program.flow(made.steps)],
        )
    return loader.found(
        rules.DC732,
        f"this loader has no DistributedSampler, so every rank trains on all of {data or 'the data'}",
        fix=f"sampler=DistributedSampler({data}) instead of shuffle=True, and sampler.set_epoch(epoch) in each epoch"
        if shuffled
        else f"sampler=DistributedSampler({data}), and sampler.set_epoch(epoch) in each epoch",
        severity=severity,
        flow=[
            *program.flow(made.steps),
            f"{program.place(loop.file, loop.line)}: the loop that trains from it",
        ],
    )


def _is_divided_on(call_path: CallPath) -> bool:
    """Return whether a function on a path divides something among the ranks: what is passed on may be a part."""
    program = call_path.row.program
    return any(
        isinstance(row, SourceCall) and _DIVIDES.search(row.method)
        for call in call_path.calls
        for row in program.rows_of(call.file, call.scope)
    )


def _is_of_another_object(call_path: CallPath, loop: LoaderLoop) -> bool:
    """Return whether a loop goes over a loader of an object of the project that another call has made."""
    row, program = call_path.row, call_path.row.program
    owner = (row.file, program.evaluator.owner_of(row.file, row.scope))
    terms = program.terms[loop.file]
    made = {
        atom.call
        for term in program.subterms(loop.file, program.blocks[loop.file][loop.block][2], names=False)
        if terms[term][0] == "a"
        for atom in program.evaluator.value(loop.file, terms[term][1])
        if atom.kind == Kind.OBJECT and atom.const == owner
    }
    return bool(made) and None not in made and made.isdisjoint((call.file, call.number) for call in call_path.calls)


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


def wraps_somewhere(program: Program, files: Iterable[int]) -> bool:
    wanted = set(files)
    wrappers = [dotted for dotted, call_path in vocabulary.WRAPPERS.items() if call_path != "dp"]
    return any(call.file in wanted for call in program.calls_to(*wrappers))


def _is_toy(program: Program, file: int, text: str) -> bool:
    """Return whether data are called made up, and are not the same on all ranks for sure."""
    if not _MADE_UP.search(text):
        return False
    named = [
        (other, number)
        for other in program.component(file)
        for number, one in enumerate(program.index.classes[other])
        if _MADE_UP.search(one.name) and re.search(rf"\b{re.escape(one.name)}\b", text)
    ]
    rest = text
    for other, number in named:
        rest = rest.replace(program.index.classes[other][number].name, "")
    return bool(_MADE_UP.search(rest)) or not all(is_drawn_alike(program, ref) for ref in named)


def is_drawn_alike(program: Program, ref: tuple[int, int], method: str = "__init__") -> bool:
    """Return whether a class draws all of its data from a generator with a constant seed, in one method."""
    init = program.evaluator.method(ref, method)
    drawn = [call for scope in program.methods_of(*ref) for call in calls_in(program, scope) if _draws(call)]
    return bool(drawn) and all(
        (call.file, call.scope) == init and seed_of_generator(call, call.argument_term(None, "generator")) is not None
        for call in drawn
    )


def _draws(call: SourceCall) -> bool:
    return "rand" in call.method and any(target.startswith(("torch.", "numpy.", "random.")) for target in call.targets)


def seed_of_generator(row: EventRow, term: int) -> int | None:
    """Return the constant seed of a generator of torch, None for any other value."""
    seeds = set()
    for ref in origins(row.program, row.file, term) if term >= 0 else ():
        made = origin_call(row.program, ref)
        if made is None or made.method != "manual_seed":
            return None
        maker = made.terms[made.receiver_term] if made.receiver_term >= 0 else ("-",)
        if maker[0] != "c" or not SourceCall(row.program, made.file, maker[5]).is_to("torch.Generator"):
            return None
        seeds.add(made.constant(0, "seed"))
    seed = next(iter(seeds), None)
    return seed if len(seeds) == 1 and isinstance(seed, int) else None


def data_set_of(program: Program, loader: SourceCall, call_path: CallPath, term: int) -> _DataSet:
    """Return what the data set of a loader is, as far as it can be followed."""
    row, given, calls = loader, term, call_path.calls
    while True:
        if given < 0 or rank_dependence.differs(row, given):
            return _DataSet(False, True)
        new, found, rest = path_values.term_on(call_path, row, given, calls[:1])
        if (new, found) == (row, given):
            break
        row, given, calls = new, found, (*rest, *calls[1:])  # type: ignore[assignment]
    text = row.term_text(given)
    if _is_toy(program, row.file, text):
        return _DataSet(False, True)
    value = row.term_value(given)
    certain = False
    for atom in value:
        if atom.kind == Kind.OBJECT:
            if program.evaluator.derives(atom.const, ITERABLE) or _speaks_of_ranks(program, atom):
                return _DataSet(False, True)
            if program.evaluator.method(atom.const, "__getitem__") is None:
                return _DataSet(False, program.evaluator.method(atom.const, "__iter__") is not None)
            certain = True
        elif atom.kind == Kind.RESULT and str(atom.const).startswith(("torchvision.datasets.", "torch.utils.data.")):
            certain = True
        elif atom.kind == Kind.FUNCTION:
            return _DataSet(False, True)
    return _DataSet(certain and len(value.atoms) == 1, False, bool(_MADE_UP.search(text)))


def class_text(program: Program, ref: tuple[int, int], depth: int = 0) -> str:
    """Return the source of a class, and of those of the project that it derives from."""
    file, number = ref
    scope = program.index.scopes[file][program.index.classes[file][number].scope]
    text = "\n".join(program.lines(file)[scope.line - 1 : scope.end_line])
    if depth < 4:
        for base in program.evaluator.bases(ref):
            if base.kind == Kind.CLASS and base.const != ref:
                text += "\n" + class_text(program, base.const, depth + 1)
    return text


def _speaks_of_ranks(program: Program, atom: Atom) -> bool:
    """Return whether a data set of the project divides its data alone, or draws it at random."""
    text = class_text(program, atom.const)
    one = program.index.classes[atom.const[0]][atom.const[1]]
    if RANK_WORDS.search(text) or (_MADE_UP.search(one.name) and not is_drawn_alike(program, atom.const)):
        return True
    item = program.evaluator.method(atom.const, "__getitem__")
    if item is None:
        return False
    scope = program.scope(item)
    body = "\n".join(program.lines(item[0])[scope.line - 1 : scope.end_line])
    # an item that is drawn, not read by its key: what a benchmark feeds
    return "rand" in body and "[" not in body.split(":", 1)[-1]
