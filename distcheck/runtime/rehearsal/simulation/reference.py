"""The first step of the ranks, compared with that of one rank that gets the same samples (``--reference``).

The mean of what the ranks' optimizers use has to be what one rank's optimizer uses. That holds only if the samples of
all ranks together are those of the one, and if nothing random is in the forward pass; else nothing is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination.vectors import Vector, apart, factor_of, norm_of, scaled, summed

from .plan import Rehearsal, RehearsalPlan, where

if TYPE_CHECKING:
    from .launcher import RehearsalResult

#: Steps that the one rank makes: what the first one has changed is seen before the second.
_STEPS = 2
#: Seconds that it has, and how many times those of the ranks in addition.
_LEAST_S, _TIMES = 60.0, 3.0
#: Relative errors: of parameters that begin equal, of factors and of rates that agree, of gradients that do, and of
#: those that were computed with 16 bits.
_EQUAL, _ALIKE, _APART, _APART_HALF = 1e-4, 1e-2, 5e-2, 0.3
#: Gradients this much smaller than the largest one are rounding.
_SMALL = 1e-3
#: Samples of a rank below which batch normalization is less accurate: Wu and He, Group Normalization, 2018, figure 1.
_FEW_SAMPLES = 16


class FirstStep(NamedTuple):
    """The first step of one optimizer on one rank."""

    rank: int
    #: counted alike on all ranks
    number: int
    place: str
    #: digests of the samples of its forward passes; None: not known
    samples: tuple[str, ...] | None
    #: of one forward pass, at most
    most: int
    #: the forward pass draws random numbers
    random: bool
    #: gradients come to be in the step
    closure: bool
    #: computed with 16 bits
    half: bool
    #: some parameters are shards
    sharded: bool
    #: Accelerate steps each scheduler once for each rank, by design
    accelerated: bool
    #: classes of normalization layers that use the samples of one rank
    normalized: tuple[str, ...]
    gradients: Mapping[str, Vector]
    parameters: Mapping[str, Vector]
    rates: tuple[float, ...]
    #: before the second step, or at the end
    parameters_after: Mapping[str, Vector] = {}
    rates_after: tuple[float, ...] = ()


class Pair(NamedTuple):
    """The first step of one optimizer on all ranks, and on one."""

    ranks: tuple[FirstStep, ...]
    one: FirstStep


class Reference(NamedTuple):
    """What can be compared."""

    pairs: tuple[Pair, ...]


def plan_of(plan: RehearsalPlan) -> RehearsalPlan:
    """Return the plan of the same script as one rank."""
    return plan._replace(
        arguments=(*plan.arguments, *plan.reference_arguments), nnodes=1, nproc_per_node=1,
        gpus_per_node=min(plan.gpus_per_node, plan.gpus_per_task or 1), steps=_STEPS, most_steps=0,
    )  # fmt: skip


def added(rehearsal: Rehearsal, perform: Callable[[RehearsalPlan], RehearsalResult], elapsed_s: float) -> Rehearsal:
    """Return a rehearsal with that of one rank, and the reason if the two are not compared.

    :param elapsed_s: seconds that the ranks took
    """
    if all(end.steps for end in rehearsal.ends):
        limit_s = _LEAST_S + _TIMES * elapsed_s
        plan = plan_of(rehearsal.plan)
        result = perform(plan._replace(seconds=min(plan.seconds or limit_s, limit_s)))
        rehearsal = rehearsal._replace(reference=result.rehearsal)
    pairs = pairs_of(rehearsal)
    if isinstance(pairs, str):
        rehearsal = rehearsal._replace(missed=(*rehearsal.missed, f"the first step against one rank: {pairs}"))
    return rehearsal


def pairs_of(rehearsal: Rehearsal) -> tuple[Pair, ...] | str:
    """Return what can be compared, or why nothing can."""
    one = rehearsal.reference
    if one is None:
        return "the ranks made no step"
    ends = {end.rank for end in rehearsal.ends}
    if len(ends) < 2:
        return "there is one rank only"
    if len(one.ends) != 1:
        return f"the script starts {len(one.ends)} ranks by itself"
    single = _steps(one)
    if not single:
        end = one.ends[0]
        detail = f": {end.detail.splitlines()[0]}" if end.detail else ""
        return f"the script makes no step as one rank{f'; it raised{detail}' if end.how == 'raised' else ''}"
    by_number: dict[int, list[FirstStep]] = {}
    for step in _steps(rehearsal):
        by_number.setdefault(step.number, []).append(step)
    pairs = tuple(
        Pair(tuple(sorted(by_number[step.number])), step) for step in single
        if {mine.rank for mine in by_number.get(step.number, ())} == ends
    )  # fmt: skip
    if not pairs:
        return "no optimizer makes its first step on all ranks"
    return next((why for pair in pairs if (why := _unequal(pair))), pairs)


def _steps(rehearsal: Rehearsal) -> list[FirstStep]:
    after = {(row.rank, row.data["number"]): row.data for row in rehearsal.of_ranks("reference.second")}
    found = []
    for row in rehearsal.of_ranks("reference.first"):
        later = after.get((row.rank, row.data["number"]), {})
        step = row.fill(
            FirstStep, gradients=_vectors(row.data["gradients"]), parameters=_vectors(row.data["parameters"]),
            parameters_after=_vectors(later.get("parameters", {})), rates_after=tuple(later.get("rates", ())),
        )  # fmt: skip
        found.append(step if step.samples else step._replace(samples=_loaded(rehearsal, step)))
    return found


def _vectors(named: Mapping[str, Sequence[float]]) -> dict[str, Vector]:
    return {name: tuple(values) for name, values in named.items()}


def _loaded(rehearsal: Rehearsal, step: FirstStep) -> tuple[str, ...] | None:
    """Return digests of the samples that loaders gave before the first step; None: not known."""
    found: list[str] = []
    for row in rehearsal.of_ranks("samples.batch"):
        if row.rank != step.rank or row.step or not row.data["gradients"]:
            continue
        leaves = [leaf for leaf in row.data["leaves"] if isinstance(leaf, list) and len(leaf) == row.data["count"]]
        if not leaves:
            return None
        found += [":".join(parts) for parts in zip(*leaves, strict=True)]
    return tuple(found) or None


def _unequal(pair: Pair) -> str:
    """Return why the steps need not agree; "" if they must."""
    steps = (*pair.ranks, pair.one)
    if any(step.closure for step in steps):
        return "the optimizer computes gradients in its step"
    if any(step.sharded for step in steps):
        return "the parameters of a rank are shards"
    if any(step.samples is None for step in steps):
        return "the samples of the first step are not known"
    together = Counter(sample for step in pair.ranks for sample in step.samples or ())
    if together != Counter(pair.one.samples):
        mine, its = together.total(), len(pair.one.samples or ())
        if mine == its:
            return (
                f"the {mine} samples before the first step are others on one rank: they are random, or in another order"
            )
        return (
            f"the ranks get {mine} samples before the first step, and one rank gets {its}; --reference-args gives one "
            "rank the batch of all"
        )
    if any(step.random for step in steps):
        return "the forward pass draws random numbers (dropout); switch it off in the script's options"
    names = set.intersection(*(set(step.parameters) for step in steps))
    if not names:
        return "no parameter has the same name on one rank"
    if any(apart(pair.one.parameters[name], step.parameters[name]) > _EQUAL for step in pair.ranks for name in names):
        return "the parameters begin with other values on one rank; make them after torch.manual_seed(0)"
    return ""


@fact(of_this_host=False)
def read_reference(rehearsal: Rehearsal) -> Reference:
    """Return what can be compared."""
    if not rehearsal.plan.reference:
        raise NotApplicable("--reference was not given")
    pairs = pairs_of(rehearsal)
    if isinstance(pairs, str):
        raise NotApplicable(pairs)
    return Reference(pairs)


@probe(rules.DC758)
def gradients_are_those_of_one_rank(reference: Reference) -> Iterator[Finding]:
    """Report gradients of the first step whose mean over the ranks is not what one rank has."""
    for pair in reference.pairs:
        wrong = _wrong(pair)
        if wrong:
            yield _finding(pair, wrong)
            return  # later steps follow from this one


def _wrong(pair: Pair) -> dict[str, tuple[Vector, Vector]]:
    """Return the gradients that differ: the mean over the ranks, and that of one."""
    means = {
        name: scaled(summed(step.gradients[name] for step in pair.ranks), 1 / len(pair.ranks))
        for name in pair.one.gradients if all(name in step.gradients for step in pair.ranks)
    }  # fmt: skip
    both = {name: (mean, pair.one.gradients[name]) for name, mean in means.items()}
    largest = max((max(norm_of(mean), norm_of(one)) for mean, one in both.values()), default=0.0)
    bound = _APART_HALF if any(step.half for step in (*pair.ranks, pair.one)) else _APART
    return {
        name: (mean, one) for name, (mean, one) in both.items()
        if max(norm_of(mean), norm_of(one)) >= _SMALL * largest and largest and apart(one, mean) > bound
    }  # fmt: skip


def _finding(pair: Pair, wrong: Mapping[str, tuple[Vector, Vector]]) -> Finding:
    ranks, first = len(pair.ranks), next(iter(wrong))
    fits = [factor_of(mean, one) for mean, one in wrong.values()]
    factor = fits[0][0]
    same = all(norm_of(mean) and norm_of(one) for mean, one in wrong.values()) and all(
        error < _ALIKE and abs(got - factor) < _ALIKE * abs(factor) for got, error in fits
    )
    which = "the gradients" if len(wrong) > 1 else f"the gradient of {first}"
    these = f"{which} that the ranks use in the first step"
    normalized = sorted({name for step in pair.ranks for name in step.normalized})
    severity = Severity.WARNING
    fix = "average over all samples of the ranks: sum the losses and the numbers of samples, and divide the sums"
    if same and abs(factor / ranks - 1) < _ALIKE:
        text = f"{these} are {ranks} times those of one rank with the same samples: they are summed, and not averaged"
        fix = "divide by the number of ranks: ReduceOp.AVG"
    elif same and abs(factor * ranks - 1) < _ALIKE:
        text = f"{these} are 1/{ranks} of those of one rank with the same samples: they are divided once too often"
        fix = "divide once: DDP and ReduceOp.AVG already give the mean, and so does the mean loss of a rank"
    elif same:
        text = f"{these} are {factor:.4g} times those of one rank with the same samples"
    else:
        error = apart(wrong[first][1], wrong[first][0])
        text = f"{these} differ from those of one rank with the same samples, {first} by {error:.0%} of its norm"
        fix = f"clip gradients after they are reduced, and {fix}"
    if normalized and not same:
        text += f". Each rank normalizes by its own samples ({', '.join(normalized)})"
        fix = "use torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) if ranks should normalize by all samples"
        if max(step.most for step in pair.ranks) >= _FEW_SAMPLES:
            severity = Severity.INFO  # a common choice
    return rules.DC758.found(
        text.replace(" are ", " is ") if len(wrong) == 1 and same else text,
        where=where(pair.ranks[0].place, [step.rank for step in pair.ranks]),
        severity=severity,
        evidence={"gradients_that_differ": len(wrong), "first": first, "factor": f"{factor:.4g}"},
        fix=Fix(fix, where="code"),
    )


@probe(rules.DC765)
def rates_are_those_of_one_rank(reference: Reference) -> Iterator[Finding]:
    """Report a schedule that makes the learning rate of the second step another one than on one rank."""
    for pair in reference.pairs:
        many, one = (_changes(step) for step in (pair.ranks[0], pair.one))
        if len(many) != len(one) or pair.one.accelerated or _wrong(pair):
            continue
        for index, (mine, its) in enumerate(zip(many, one, strict=True)):
            if abs(mine - its) > _EQUAL * max(abs(mine), abs(its)):
                yield rules.DC765.found(
                    f"the schedule changes the learning rate by a factor of {mine:.6g} in the first step, and of "
                    f"{its:.6g} on one rank with the same samples",
                    where=where(pair.ranks[0].place, [step.rank for step in pair.ranks]),
                    evidence={"parameter_group": index, "ranks": len(pair.ranks)},
                    fix=Fix("step the scheduler once on each rank, and count the steps of one rank", where="code"),
                )
                return


def _changes(step: FirstStep) -> list[float]:
    """Return the factors between the learning rates of the first two steps."""
    return [after / before for before, after in zip(step.rates, step.rates_after, strict=False) if before]


@probe(rules.DC763)
def parameters_are_those_of_one_rank(reference: Reference) -> Iterator[Finding]:
    """Report parameters that differ after a first step with the gradients and learning rates of one rank."""
    for pair in reference.pairs:
        if _wrong(pair) or any(step.rates != pair.one.rates for step in pair.ranks):
            continue
        largest = max(map(norm_of, pair.one.gradients.values()), default=0.0)
        for name, after in pair.one.parameters_after.items():
            if norm_of(pair.one.gradients.get(name, ())) <= _SMALL * largest:
                continue  # some optimizers make steps of one size from what is only rounding
            if not all(name in step.parameters_after for step in pair.ranks):
                continue
            mean = scaled(summed(step.parameters_after[name] for step in pair.ranks), 1 / len(pair.ranks))
            moved = _difference(after, pair.one.parameters[name])
            if norm_of(moved) > _EQUAL * norm_of(after) and norm_of(_difference(after, mean)) > 0.5 * norm_of(moved):
                yield rules.DC763.found(
                    f"{name} has other values after the first step than on one rank with the same samples, gradients "
                    "and learning rate",
                    where=where(pair.ranks[0].place, [step.rank for step in pair.ranks]),
                    severity=Severity.WARNING,
                    evidence={"parameter": name},
                    fix=Fix("step the optimizer once on each rank, and change the parameters on all ranks alike",
                            where="code"),
                )  # fmt: skip
                return


def _difference(one: Vector, other: Vector) -> Vector:
    return summed((one, scaled(other, -1.0)))
