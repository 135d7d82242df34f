"""Judges whether the replicas of a model are still equal, from the digests that their ranks exchange.

Each rank writes a row into the store at some optimizer steps. The lowest rank of the replicas compares the rows of one
step. A difference counts only if it lasts for two compared steps.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Where, grouped, grouped_pairs
from distcheck.core.registry import probe
from distcheck.runtime.coordination.digests import Digest, digest_of
from distcheck.runtime.coordination.locations import few_rank_names, where_of
from distcheck.runtime.coordination.protocol import DRIFT_REPORTED, PREFIX, REPLICAS_UNCHECKED, REPORTED, packed
from distcheck.runtime.coordination.store_client import StoreClient

from .fully_sharded import Shards
from .wrapped_models import AROUND, ENDS_IN_NO_SYNC, NOT_SHARDED

#: Rows of one rank that are kept in the store.
_KEPT = 16
#: Before the name of what an optimizer keeps, in ``rest``.
_STATE = "optimizer state "
#: A parameter in DDP that no optimizer steps.
OUTSIDE = "parameter outside of optimizers"
#: A weight that a loss function has for a class.
OF_LOSS = "loss weight"
#: A parameter of a module that follows the weights of the model.
AVERAGE = "moving average of"
#: Whether modules drop values and follow batches: they do in training mode.
MODES = "training mode of"
#: What names in ``rest`` begin with that are no state of an optimizer.
_KINDS = ("buffer", "input", OUTSIDE, OF_LOSS, AVERAGE, MODES)
#: Begins the keys of inputs of tensor parallel modules that the ranks have computed with parameters.
COMPUTED_INPUTS = "computed inputs"
#: Steps after which the parameters that compute an input have been compared.
_COMPARED = 3


class ReplicaRow(NamedTuple):
    """One replica right before an optimizer step."""

    rank: int
    #: the same on all ranks of these replicas
    key: str
    ranks: tuple[int, ...]
    #: of this optimizer, this one included
    step: int
    #: collectives of the group until then; rows with other numbers are of another iteration
    number: int
    #: class of the model; "" if no wrapper names it
    network: str
    place: str
    #: learning rate of each parameter group
    rates: tuple[float, ...]
    #: name → gradient, if it should be equal, and parameter
    values: Mapping[str, tuple[Digest | None, Digest]]
    #: ``buffer center`` or ``optimizer state exp_avg of 0.weight`` → its digest
    rest: Mapping[str, Digest] = {}
    #: ``number`` may hold sends and receives, of which ranks make different numbers
    paired: bool = False
    #: numbers of the calls that reduced the gradients. Ranks with other ones step other parameters
    reduced: tuple[int, ...] = ()
    #: each rank computes these gradients, or activations, from the same values, and rounding may differ
    computed: bool = False
    #: the scale of the loss; 0: it is not scaled, or by means that are not torch's
    scale: float = 0.0
    #: name → why DDP does not average its gradient; "" as a name: that of no parameter. See :mod:`.wrapped_models`
    unreduced: Mapping[str, str] = {}
    #: how this rank treats its shards
    shards: Shards = Shards()

    @property
    def cause(self) -> str:
        """Return what has one cause if several rows differ: all that a tensor parallel group computes, or a model."""
        return f"tensor parallel {','.join(map(str, self.ranks))}" if self.computed else self.key

    @property
    def may_follow(self) -> bool:
        """Return whether parameters or random numbers may be the cause of a difference, which is not known yet."""
        return self.key.startswith(COMPUTED_INPUTS)

    @property
    def may_begin_apart(self) -> bool:
        """Return whether parameters that differ from the start need not be replicas."""
        return self.unreduced.get("") == NOT_SHARDED


class Drift(NamedTuple):
    """Replicas that differ at two compared steps."""

    #: ``learning rate``, ``loss scale``, ``step count``, ``gradient``, ``parameter``, ``optimizer state``, ``buffer``,
    #: ``input``, ``loss weight``, ``moving average of``, ``training mode of``, ``order of reductions``, ``option``,
    #: ``changes``, ``scale of gradients``
    what: str
    #: of the first one that differs; index of the parameter group
    name: str
    #: at the first of the two steps
    rows: tuple[ReplicaRow, ...]
    #: the difference is larger than rounding explains
    large: bool = True

    @property
    def unreduced(self) -> str:
        """Return why DDP did not average a gradient that differs, as all ranks know it; "": nothing shows it."""
        known = {row.unreduced.get(self.name) or row.unreduced.get("", "") for row in self.rows}
        return known.pop() if self.what == "gradient" and len(known) == 1 else ""

    @property
    def minority(self) -> tuple[int, ...]:
        """Return the ranks with another value than most; those without the lowest rank if there are two halves."""
        sides = grouped_pairs((_value(row, self.what, self.name), row.rank) for row in self.rows)
        most = max(sides.values(), key=lambda ranks: (len(ranks), -min(ranks)))
        return tuple(row.rank for row in self.rows if row.rank not in most)


# judgement


@probe(
    rules.DC709, rules.DC750, rules.DC751, rules.DC753, rules.DC756, rules.DC757, rules.DC759, rules.DC763, rules.DC764
)  # fmt: skip
def replicas_stay_equal(drift: Drift) -> Iterator[Finding]:
    """Report the first thing that differs between the replicas of a model."""
    first, minority = drift.rows[0], drift.minority
    model = f"of {first.network} " if first.network else ""
    evidence = {
        "step": first.step, "replicas": few_rank_names(first.ranks), "minority": few_rank_names(minority),
        **{f"rank {row.rank}": _shown(row, drift) for row in _two_sides(drift)},
    }  # fmt: skip
    where = where_of(first.place, minority)
    if drift.what == "learning rate":
        rates = " and ".join(f"{_shown(row, drift)} on rank {row.rank}" for row in _two_sides(drift))
        yield rules.DC764.found(
            f"the learning rate {model}differs between its replicas at step {first.step}: {rates}",
            where=where,
            evidence=evidence,
            fix=Fix(
                "step the scheduler on all ranks, with the same values: all_reduce the metric before "
                "ReduceLROnPlateau.step(metric)",
                where="code",
            ),
        )
        return
    if drift.what == "loss scale":
        scales = " and ".join(f"{_shown(row, drift)} on rank {row.rank}" for row in _two_sides(drift))
        yield rules.DC757.found(
            f"the scale of the loss {model}differs between its replicas at step {first.step}: {scales}. A rank has "
            "seen an overflow alone, and skipped the step that others made",
            where=where,
            evidence=evidence,
            severity=Severity.WARNING,
            fix=Fix(
                "reduce the gradients before scaler.unscale_() and scaler.step(), so that all ranks see an overflow",
                where="code",
            ),
        )
        return
    if drift.what == "step count":
        late = max(drift.rows, key=lambda row: row.number)
        least = min(row.number for row in drift.rows)
        others = "ranks that hold shards of one model" if first.shards.options else f"replicas {model}".rstrip()
        yield rules.DC757.found(
            f"{few_rank_names(minority)} and the other {others} make step {first.step} at different iterations: "
            f"after {late.number} collectives on rank {late.rank}, after {least} on others",
            where=where,
            evidence=evidence,
            severity=Severity.WARNING,
            fix=Fix("decide on all ranks together whether the optimizer makes a step", where="code"),
        )
        return
    if drift.what in _SHARDS:
        yield _of_shards(drift, where, evidence)
        return
    difference = (
        f"{drift.what} {drift.name} {model}differs between its replicas at step {first.step}: "
        f"{few_rank_names(minority)} {'has' if len(minority) == 1 else 'have'} other values than rank "
        f"{next(row.rank for row in drift.rows if row.rank not in minority)}"
    )
    if drift.what == "order of reductions":
        calls = " and ".join(f"call #{_shown(row, drift)} on rank {row.rank}" for row in _two_sides(drift))
        yield rules.DC709.found(
            f"ranks reduce their gradients in different orders: that of parameter {drift.name} is in {calls}. Each "
            "call then sums gradients of different parameters",
            where=where,
            evidence=evidence,
            fix=Fix("reduce in an order that all ranks share: that of model.parameters(), not of a set", where="code"),
        )
        return
    if drift.what == "input":
        yield rules.DC709.found(
            f"the {drift.what} {drift.name} differs between ranks of one group, which share out its parameters: "
            f"{few_rank_names(minority)} {'passes' if len(minority) == 1 else 'pass'} other values. Each rank computes "
            "a part of the result from another batch",
            where=where,
            evidence={name: value for name, value in evidence.items() if name != "step"},
            severity=Severity.WARNING,
            fix=Fix("give all ranks of a tensor parallel group the same batch: seed its sampler by the data parallel "
                    "rank, or broadcast it within the group", where="code"),
        )  # fmt: skip
        return
    if drift.unreduced in _UNREDUCED:
        rule, why, fix = _UNREDUCED[drift.unreduced]
        yield rule.found(
            f"{difference}. {why}",
            where=where,
            evidence=evidence,
            severity=Severity.WARNING if first.may_begin_apart else None,
            fix=Fix(fix, where="code"),
        )
        return
    computed = drift.what == "gradient" and first.computed
    is_milder = drift.what in ("buffer", OUTSIDE, OF_LOSS, AVERAGE, MODES) or first.may_begin_apart
    yield rules.DC763.found(
        difference,
        where=where,
        evidence=evidence,
        severity=Severity.ERROR if drift.large and not is_milder else Severity.WARNING,
        fix=Fix(_COMPUTED if computed else _EQUAL[drift.what], where="code"),
    )


#: What differs in the treatment of shards: a changed part of some ranks counts from so many changes on, and a factor
#: from a relative difference on.
_SHARDS = ("option", "changes", "scale of gradients")
_LEAST_CHANGES, _ANOTHER_FACTOR = 4, 1e-2


def _of_shards(drift: Drift, where: Where, evidence: Mapping[str, object]) -> Finding:
    """Return a finding about shards that ranks treat in different ways."""
    one, other = _two_sides(drift)
    if drift.what == "option":
        option, _, name = drift.name.partition(" ")
        return rules.DC764.found(
            f"option {option} of the optimizer differs between the ranks that hold shards of {name}: "
            f"{_shown(one, drift)} on rank {one.rank} and {_shown(other, drift)} on rank {other.rank}",
            where=where,
            evidence=evidence,
            fix=Fix(
                "choose the options by what all ranks share: parameter.dim() and parameter.numel() of the DTensor, not "
                "of its to_local(), and step schedulers on all ranks",
                where="code",
            ),
        )
    if drift.what == "changes":
        still, changed = (one, other) if one.shards.changes[drift.name] == 0 else (other, one)
        return rules.DC757.found(
            f"rank {changed.rank} changes its shard of {drift.name} {_shown(changed, drift)} times, and rank "
            f"{still.rank} never. A part of the parameter keeps its old values, and no optimizer steps it",
            where=where,
            evidence=evidence,
            severity=Severity.WARNING,
            fix=Fix("update the shards on all ranks: a rank holds only its own part of a moving average", where="code"),
        )
    return rules.DC753.found(
        f"ranks scale the averaged gradients of their shards by different factors: {_shown(one, drift)} on rank "
        f"{one.rank} and {_shown(other, drift)} on rank {other.rank}. Each may clip by the norm of its shards alone",
        where=where,
        evidence=evidence,
        severity=Severity.WARNING,
        fix=Fix(
            "clip by the norm of all shards: torch.nn.utils.clip_grad_norm_ knows it, and a clip of the script has to "
            "all_reduce the sum of squares first",
            where="code",
        ),
    )


def _shards_differ(before: Sequence[ReplicaRow], now: Sequence[ReplicaRow]) -> Drift | None:
    """Return how ranks treat their shards in different ways at both of two compared steps."""
    for name in now[0].shards.options:
        of_ranks = [[row.shards.options.get(name, {}) for row in rows] for rows in (before, now)]
        for option in now[0].shards.options[name]:
            values = [[one.get(option) for one in rows] for rows in of_ranks]
            if all(None not in rows and len(set(rows)) > 1 for rows in values):
                return Drift("option", f"{option} {name}", tuple(before))
    for name in now[0].shards.changes:
        changes = [row.shards.changes.get(name) for row in now]
        known = [one for one in changes if one is not None]
        if len(known) == len(now) and min(known) == 0 and max(known) >= _LEAST_CHANGES:
            return Drift("changes", name, tuple(now))
    factors = [[row.shards.factor for row in rows] for rows in (before, now)]
    if all(min(one) > 0 and max(one) - min(one) > _ANOTHER_FACTOR * max(one) for one in factors):
        return Drift("scale of gradients", "", tuple(before))
    return None


_CHOSEN_BEFORE = "choose the parameters, and which are trained, before DDP wraps the model, or wrap its .module again"
#: Why DDP does not average a gradient → rule, sentence and fix.
_UNREDUCED = {
    AROUND: (
        rules.DC750,
        "DDP reduced nothing for this step: its forward pass went around the wrapper",
        "call the wrapper for the loss, not the module inside it; move other work on that module into its forward()",
    ),
    ENDS_IN_NO_SYNC: (
        rules.DC759,
        "The last forward pass before the step was in no_sync(), and an earlier one outside, so DDP averaged a part",
        "run the last forward before each step outside of no_sync(), and all others inside",
    ),
    "unfrozen": (
        rules.DC751, "It was frozen when DDP wrapped the model, so no hook averages its gradient", _CHOSEN_BEFORE
    ),
    "added": (rules.DC751, "It came to the model after DDP wrapped it, so no hook averages it", _CHOSEN_BEFORE),
    "replaced": (rules.DC751, "It took the place of another one after DDP wrapped the model", _CHOSEN_BEFORE),
    NOT_SHARDED: (
        rules.DC763,
        "fully_shard has divided other modules of the model, and not the one that holds it: nothing averages it",
        "call fully_shard(model) for the whole model after its blocks, or average these gradients before each step",
    ),
    "moved": (rules.DC756, "It was moved or cast after DDP wrapped the model, so no hook averages it", _CHOSEN_BEFORE),
}  # fmt: skip
_COMPUTED = (
    "give all ranks of a tensor parallel group the same batch and the same random numbers: seed both by the data "
    "parallel rank"
)
_EQUAL = {
    "gradient": "call the wrapped model, keep the last backward before the step out of no_sync(), and change gradients "
    "on all ranks alike",
    "parameter": "load or initialize the parameters on all ranks alike, and step the optimizer on all ranks or on none",
    "optimizer state": "load the optimizer's state on all ranks alike, and step the optimizer on all ranks or on none",
    AVERAGE: "copy the model after DDP has wrapped it, load the average on all ranks, and update it on all ranks alike",
    OF_LOSS: "compute it from the data of all ranks: all_reduce the counts of the classes before the loss is made",
    OUTSIDE: "change it on all ranks alike: reduce what updates it, and draw random numbers from one seed",
    MODES: "call train() on all ranks before the next step: a rank that evaluates calls eval() and has to switch back",
    "buffer": "reduce what updates the buffer over the ranks, or let DDP broadcast buffers (broadcast_buffers=True)",
}


def drift_of(before: Sequence[ReplicaRow], now: Sequence[ReplicaRow]) -> Drift | None:
    """Return what differs at both of two compared steps: the likely cause first."""
    if (of_shards := _shards_differ(before, now)) is not None:
        return of_shards
    if all(len({row.scale for row in rows}) > 1 and all(row.scale for row in rows) for rows in (before, now)):
        return Drift("loss scale", "", tuple(before))
    if any(len({_since_reduced(row) for row in rows}) > 1 for rows in (before, now)):
        return _crossed(before, now)
    if any(len({row.number for row in rows}) > 1 for rows in (before, now)):
        # a rank made other steps: the rows do not show the same iteration
        return Drift("step count", "", tuple(now)) if _steps_apart(before, now) else None
    later = set(_differing(now))
    kinds = {what for what, _ in later}
    if "gradient" in kinds and "parameter" not in kinds:
        # the script averages the parameters after each step
        later = {(what, name) for what, name in later if what not in ("gradient", "optimizer state")}
    for what, name in _differing(before):
        if (what, name) in later:
            return Drift(what, name, tuple(before), _is_large(before, what, name))
    # other parts of a large model were compared at each step
    kinds = {what for what, _ in later}
    found = next(((what, name) for what, name in _differing(before) if what in kinds), None)
    return None if found is None else Drift(*found, tuple(before), _is_large(before, *found))


def _since_reduced(row: ReplicaRow) -> tuple[int, ...]:
    """Return how many collectives ago each gradient was reduced: the same at an iteration that another rank skips."""
    return tuple(row.number - at for at in row.reduced)


def _crossed(before: Sequence[ReplicaRow], now: Sequence[ReplicaRow]) -> Drift | None:
    """Return a parameter whose gradient other calls reduce on each rank, while these calls get other gradients there.

    Ranks that step other parameters have other calls in all. A parameter is the same one on all ranks if it is equal
    there, and no other is.
    """
    for rows in (before, now):
        # all gradients have a digest, so that their calls have names
        known = all(len(row.values) == len(row.reduced) for row in rows)
        if not known or len({row.number for row in rows}) > 1 or len({tuple(sorted(row.reduced)) for row in rows}) > 1:
            return None
    names = list(before[0].values)
    if any(list(row.values) != names for row in (*before, *now)):
        return None
    for at, name in enumerate(names):
        checksums = {row.values[name][1].checksum for row in before}
        alike = [other for other in names if before[0].values[other][1].checksum in checksums]
        if len(checksums) == len(alike) == 1 and all(
            len({row.reduced[at] for row in rows}) > 1 for rows in (before, now)
        ):
            return Drift("order of reductions", name, tuple(before))
    return None


def _steps_apart(before: Sequence[ReplicaRow], now: Sequence[ReplicaRow]) -> bool:
    """Return whether ranks made the same number of steps at iterations that are more than one step apart, twice.

    All ranks of a group make the same collectives, so their number is a clock that the ranks share.
    """
    pairs = list(zip(before, now, strict=True))
    if any(row.paired or row.number <= 0 for row in (*before, *now)):
        return False
    of_a_step = min((later.number - row.number) / (later.step - row.step) for row, later in pairs)
    return of_a_step > 0 and all(
        max(row.number for row in rows) - min(row.number for row in rows) >= of_a_step for rows in (before, now)
    )


def _differing(rows: Sequence[ReplicaRow]) -> Iterator[tuple[str, str]]:
    for index in range(min(len(row.rates) for row in rows)):
        if len({row.rates[index] for row in rows}) > 1:
            yield "learning rate", str(index)
    names = [name for name in rows[0].values if all(name in row.values for row in rows)]
    for name in names:
        # the last bits of gradients may differ between kinds of GPUs; what that does shows in the parameters
        if _is_large(rows, "gradient", name):
            yield "gradient", name
    for name in names:
        if len({row.values[name][1].checksum for row in rows}) > 1 and (
            not rows[0].computed or _is_large(rows, "parameter", name)
        ):
            yield "parameter", name
    lacking = _lack_state(rows)
    for name in {name: None for row in rows for name in row.rest}:
        what = next((kind for kind in _KINDS if name.startswith(f"{kind} ")), _STATE.rstrip())
        found = [row.rest.get(name) for row in rows]
        if None in found:
            differs = lacking and what == _STATE.rstrip()
        elif what == OUTSIDE:
            differs = len({one.checksum for one in found if one is not None}) > 1
        else:
            differs = _is_large(rows, "", name)
        if differs:
            yield what, name.removeprefix(f"{what} ")


def _lack_state(rows: Sequence[ReplicaRow]) -> bool:
    """Return whether a rank has no state of an optimizer that has made steps from the same gradients as others."""
    with_state = [any(name.startswith(_STATE) for name in row.rest) for row in rows]
    return (
        len(set(with_state)) > 1
        and all(row.step > 1 and any(gradient for gradient, _ in row.values.values()) for row in rows)
        and all(row.values.keys() == rows[0].values.keys() for row in rows)
    )


def _is_large(rows: Sequence[ReplicaRow], what: str, name: str) -> bool:
    if what == "learning rate":
        return True
    digests = [_value(row, what, name) for row in rows]
    known = [digest for digest in digests if digest is not None]
    return len(known) == len(rows) and any(known[0].differs(digest) for digest in known[1:])


def _value(row: ReplicaRow, what: str, name: str) -> Any:
    if what == "learning rate":
        return row.rates[int(name)]
    if what == "option":
        option, _, parameter = name.partition(" ")
        return row.shards.options[parameter][option]
    if what == "changes":
        return row.shards.changes[name]
    if what == "scale of gradients":
        return row.shards.factor
    if what == "loss scale":
        return row.scale
    if what == "step count":
        return row.number
    if what == "order of reductions":
        return row.reduced[list(row.values).index(name)]
    if what in ("gradient", "parameter"):
        return row.values[name][what == "parameter"]
    return row.rest.get(f"{what} {name}".lstrip())


def _two_sides(drift: Drift) -> tuple[ReplicaRow, ReplicaRow]:
    minority = drift.minority
    return (
        next(row for row in drift.rows if row.rank not in minority),
        next(row for row in drift.rows if row.rank in minority),
    )


def _shown(row: ReplicaRow, drift: Drift) -> str:
    value = _value(row, drift.what, drift.name)
    if value is None or isinstance(value, str):
        return value or "missing"
    if drift.what == MODES:
        return f"{value.norm:g} modules"
    return f"norm {value.norm:.6g}, checksum {value.checksum:08x}" if isinstance(value, Digest) else f"{value:.6g}"


def drifts_of(rows: Iterable[ReplicaRow]) -> Iterator[Drift]:
    """Yield the first drift of each model, from all rows of all ranks."""
    causes: set[str] = set()
    # an input that no rank has computed is a cause by itself
    for drift in sorted(_drifts_of(rows), key=lambda drift: (drift.rows[0].may_follow, drift.what != "input")):
        if drift.rows[0].cause not in causes:
            causes.add(drift.rows[0].cause)
            yield drift


def _drifts_of(rows: Iterable[ReplicaRow]) -> Iterator[Drift]:
    for of_model in grouped(rows, lambda row: row.key).values():
        before: list[ReplicaRow] = []
        equal: frozenset[str] | None = None
        for _, now in sorted(grouped(of_model, lambda row: row.step).items()):
            if {row.rank for row in now} != set(now[0].ranks):
                continue
            now.sort(key=lambda row: row.rank)
            equal = _equal_names(now) if equal is None else equal
            now = _replicas_of(now, equal)
            drift = drift_of(before, now) if before else None
            if drift is not None:
                yield drift
                break
            before = now


def _equal_names(rows: Sequence[ReplicaRow]) -> frozenset[str]:
    """Return the parameters that all ranks hold alike."""
    return frozenset(
        name
        for name, (_, digest) in rows[0].values.items()
        if all(name in row.values and row.values[name][1].checksum == digest.checksum for row in rows)
    )


def _replicas_of(rows: list[ReplicaRow], equal: frozenset[str]) -> list[ReplicaRow]:
    """Return rows with replicas only: where parameters may begin apart, with those that were equal at first."""
    if not rows[0].may_begin_apart:
        return rows
    return [
        row._replace(values={name: value for name, value in row.values.items() if name in equal}, rest={})
        for row in rows
    ]


# exchange


class ReplicaExchange:
    """Sends the rows of this rank, and compares them with those of the others; used by the side thread alone.

    :param rows: the main thread appends
    :param unchecked: returns at the end why this rank made no rows that were requested; "": it made them
    """

    def __init__(self, rows: deque[ReplicaRow], report: Callable[[Drift], None], unchecked: Callable[[], str]) -> None:
        self._rows = rows
        self._report = report
        self._unchecked = unchecked
        self._sent: deque[ReplicaRow] = deque()
        #: key → rows of the last compared step
        self._before: dict[str, list[ReplicaRow]] = {}
        #: key → parameters that were equal at the first compared step
        self._equal: dict[str, frozenset[str]] = {}
        self._reported: set[str] = set()
        #: cause → a difference that may follow from another one, until that one would be known
        self._withheld: dict[str, Drift] = {}

    def tick(self, store: StoreClient, rank: int, final: bool) -> None:
        """Send new rows, and compare.

        :param final: the script has ended. The last rank that ends finds all rows, so each one compares
        """
        while self._rows:
            row = self._rows.popleft()
            store.set(_key(row, rank), packed(row))
            self._sent.append(row)
            if len(self._sent) > _KEPT:
                store.delete_key(_key(self._sent.popleft(), rank))
        for row in list(self._sent):
            before = self._before.get(row.key)
            done = row.key in self._reported or (before is not None and before[0].step >= row.step)
            if done or (rank != min(row.ranks) and not final):
                continue
            keys = [_key(row, other) for other in row.ranks]
            if store.check(keys):
                self._compare(store, [row_of(json.loads(text)) for text in store.multi_get(keys)])
        if final:
            self._report_withheld(store)
        if final and (why := self._unchecked()):
            store.set(REPLICAS_UNCHECKED, f"rank {rank}: {why}")

    def _compare(self, store: StoreClient, rows: list[ReplicaRow]) -> None:
        key = rows[0].key
        rows = _replicas_of(rows, self._equal.setdefault(key, _equal_names(rows)))
        before, self._before[key] = self._before.get(key), rows
        drift = None if before is None else drift_of(before, rows)
        if drift is not None:
            self._reported.add(key)
            if rows[0].may_follow:
                self._withheld[rows[0].cause] = drift
            else:
                self._report_once(store, drift)
        elif rows[0].values and rows[0].step >= _COMPARED:
            self._report_withheld(store)

    def _report_withheld(self, store: StoreClient) -> None:
        withheld, self._withheld = self._withheld, {}
        for drift in withheld.values():
            self._report_once(store, drift)

    def _report_once(self, store: StoreClient, drift: Drift) -> None:
        """Report a difference, if no rank has reported one of the same cause."""
        if store.add(f"{DRIFT_REPORTED}/{drift.rows[0].cause}") == 1:
            store.set(DRIFT_REPORTED, "1")
            # the summary at the end does not replace this report
            store.set(REPORTED, str(drift.rows[0].rank))
            self._report(drift)


def _key(row: ReplicaRow, rank: int) -> str:
    return f"{PREFIX}/replica/{row.key}/{row.step}/{rank}"


def row_of(values: Iterable[Any]) -> ReplicaRow:
    """Return a row that was written as JSON."""
    row = ReplicaRow(*values)
    return row._replace(
        ranks=tuple(row.ranks), rates=tuple(row.rates), reduced=tuple(row.reduced),
        values={name: (digest_of(gradient), Digest(*value)) for name, (gradient, value) in row.values.items()},
        rest={name: Digest(*value) for name, value in row.rest.items()}, shards=Shards(*row.shards),
    )  # fmt: skip
