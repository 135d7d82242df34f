"""The replicas of each DDP model, compared at each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.core.model import NotApplicable, Unavailable
from distcheck.core.registry import fact
from distcheck.runtime.coordination.digests import Digest, digest_of
from distcheck.runtime.coordination.logged_events import LoggedEvent

from .plan import End, Rehearsal


class ParameterState(NamedTuple):
    """One parameter at one moment."""

    #: ``owned``: as DDP took it; ``unfrozen``, ``frozen``, ``added``, ``replaced``, ``moved``: what became of it since
    state: str
    gradient: Digest | None
    parameter: Digest


class ModelReplica(NamedTuple):
    """A model as one rank has wrapped it."""

    rank: int
    #: counted in its process
    number: int
    place: str
    #: class of what was wrapped
    network: str
    #: of its process group
    ranks: tuple[int, ...]
    parameters: int
    #: those that wanted a gradient
    trained: int
    #: DDP made the parameters equal when it wrapped them
    shared: bool = True


class OptimizerStep(NamedTuple):
    """A rank's copy right before an optimizer step, gradients and all; or at the end, without gradients."""

    rank: int
    model: int
    #: steps of that optimizer, this one included; 0: the end
    nth: int
    #: forwards with gradients through the wrapper, in all
    forwards: int
    place: str
    parameters: Mapping[str, ParameterState]
    optimizer: int = -1
    #: forwards with gradients through the wrapper since the optimizer's step before
    since: int = 0
    #: the last of them was to reduce gradients
    synced: bool = False
    #: that forward was inside no_sync(), and an earlier one was to reduce
    reduced_early: bool = False
    #: that forward was inside no_sync(), and a backward pass after it outside
    backward_outside: bool = False
    #: communication hooks of the wrapper
    hooks: int = 0
    #: the first line of one that the script itself has; "": none
    own_hook: str = ""
    #: lines of forwards with gradients around it, since the step before
    around: tuple[str, ...] = ()


class ModelChange(NamedTuple):
    """Something that was done to a model after it was wrapped."""

    rank: int
    model: int
    place: str
    #: name of the first parameter
    name: str
    #: ``frozen``, ``unfrozen`` or ``moved``
    what: str
    #: forwards through the wrapper until then
    forwards: int
    #: ``cuda:0 float32`` then and since, of one that was moved
    before: str = ""
    after: str = ""


class Replicas(NamedTuple):
    """All copies of a rehearsal, in the order of time."""

    #: models that ranks have wrapped
    wraps: tuple[ModelReplica, ...]
    #: what they were before each step
    steps: tuple[OptimizerStep, ...]
    #: what was done to them after they were wrapped
    changes: tuple[ModelChange, ...] = ()
    #: how the ranks ended
    ends: tuple[End, ...] = ()

    def wrap_of(self, rank: int, number: int) -> ModelReplica | None:
        """The model of that number of a rank."""
        return next((one for one in self.wraps if (one.rank, one.number) == (rank, number)), None)

    def next_of(self, step: OptimizerStep) -> OptimizerStep | None:
        """The same copy when it was seen again."""
        later = False
        for one in self.steps:
            if later and (one.rank, one.model) == (step.rank, step.model) and one.parameters:
                return one
            later = later or one is step
        return None


class ReplicaDifference(NamedTuple):
    """A parameter whose gradients, or values, differ between copies right before a step."""

    name: str
    #: the worst of what became of it on any rank
    state: str
    #: of the ranks that differ and of those that they differ from, by rank
    steps: tuple[OptimizerStep, ...]

    @property
    def ranks(self) -> list[int]:
        return [step.rank for step in self.steps]

    def norms(self, *, of_values: bool = False) -> dict[str, float]:
        """Norm of the gradient, or of the parameter, by rank."""
        found = {}
        for step in self.steps:
            seen = step.parameters[self.name]
            digest = seen.parameter if of_values else seen.gradient
            if digest is not None:
                found[str(step.rank)] = float(f"{digest.norm:.6g}")
        return found


@fact(of_this_host=False)
def read_replicas(rehearsal: Rehearsal) -> Replicas:
    """Return what the ranks logged."""
    wraps = tuple(row.fill(ModelReplica, number=row.data["model"]) for row in rehearsal.of_ranks("gradients.wrap"))
    if not any(len(wrap.ranks) > 1 for wrap in wraps):
        raise NotApplicable("no model was wrapped by DistributedDataParallel")
    steps = tuple(
        _step(row) for row in rehearsal.of_ranks("gradients.") if row.kind in ("gradients.step", "gradients.last")
    )
    changes = tuple(_changes(rehearsal))
    raised = any(end.how == "raised" for end in rehearsal.ends)
    if not any(step.nth for step in steps) and not (raised and changes):
        raise Unavailable("no optimizer of torch has made a step with a model of DistributedDataParallel")
    return Replicas(wraps, steps, changes, rehearsal.ends)


def _step(row: LoggedEvent) -> OptimizerStep:
    data = row.data
    return row.fill(
        OptimizerStep,
        nth=data.get("count", 0),
        around=tuple(place for place, _ in data.get("around", ())),
        parameters={
            name: ParameterState(state, digest_of(gradient), Digest(*value))
            for name, state, gradient, value in data["parameters"]
        },
    )


def _changes(rehearsal: Rehearsal) -> Iterator[ModelChange]:
    for row in rehearsal.of_ranks("gradients."):
        if row.kind == "gradients.switch":
            yield row.fill(ModelChange, what="unfrozen" if row.data["wanted"] else "frozen")
        elif row.kind == "gradients.move":
            yield row.fill(ModelChange, what="moved")


def side_by_side(replicas: Replicas) -> Iterator[tuple[ModelReplica, tuple[OptimizerStep, ...]]]:
    """The copies of one model on the ranks of one group, at one step: those that have come the same way until then."""
    found: dict[tuple[Any, ...], list[OptimizerStep]] = {}
    wraps: dict[tuple[Any, ...], ModelReplica] = {}
    for step in replicas.steps:
        wrap = replicas.wrap_of(step.rank, step.model)
        if wrap is None or not step.nth:
            continue
        key = (wrap.place, wrap.number, wrap.ranks, step.optimizer, step.nth, step.forwards)
        found.setdefault(key, []).append(step)
        wraps.setdefault(key, wrap)
    for key, steps in found.items():
        if len(steps) > 1:
            yield wraps[key], tuple(sorted(steps, key=lambda step: step.rank))


def differing(steps: Iterable[OptimizerStep], *, of_values: bool = False) -> Iterator[ReplicaDifference]:
    """The parameters whose gradients (or values) differ between some copies."""
    listed = list(steps)
    for name in dict.fromkeys(name for step in listed for name in step.parameters):
        having = [step for step in listed if name in step.parameters]
        digests = [(step, _of(step.parameters[name], of_values)) for step in having]
        known = [(step, digest) for step, digest in digests if digest is not None]
        if len(known) < 2:
            continue
        first = known[0][1]
        if any(first.differs(digest) for _, digest in known[1:]):
            states = {step.parameters[name].state for step in having}
            odd = states - {"owned"}
            yield ReplicaDifference(name, sorted(odd)[0] if odd else "owned", tuple(step for step, _ in known))


def _of(seen: ParameterState, of_values: bool) -> Digest | None:
    return seen.parameter if of_values else seen.gradient


def equal_again(replicas: Replicas, difference: ReplicaDifference) -> bool:
    """Whether the values were the same again when the copies were seen next: the script averages them itself.

    To the last bit: one step moves a parameter by little.
    """
    later = [replicas.next_of(step) for step in difference.steps]
    seen = [
        step.parameters[difference.name] for step in later if step is not None and difference.name in step.parameters
    ]
    return len(seen) > 1 and len({one.parameter.checksum for one in seen}) == 1
