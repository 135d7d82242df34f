"""Replicas that begin with other weights: drawn with a seed of each rank, and never shared (DC763)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .averaged_gradients import is_gradient
from .hand_averaged import Training, trainings
from .models import calls_in, comes_after, is_backward, roots, wraps
from .program import Program, SourceCall, cached
from .term_queries import by_rank
from .values import Atom, Kind, RankCondition
from .vocabulary import COLLECTIVES, D

_SEEDS = ("torch.manual_seed", "torch.random.manual_seed")
#: What may give all ranks the same weights, or give a generator another state.
_SHARES = lazy(
    r"load_state_dict|from_pretrained|set_rng_state|fork_rng|broadcast|_sync_|torch\.load|"
    r"constant_|zeros_\(|ones_\(|fill_\(|seed_everything\((?!.*rank)|set_seed\((?!.*rank)"
)
#: What draws weights.
_DRAWS = lazy(r"^torch\.nn\.init\.(xavier|kaiming|trunc_normal|normal|uniform|orthogonal|sparse)")


@probe(rules.DC763)
def replicas_begin_alike(program: Program) -> Iterator[Finding]:
    """Ranks that average gradients begin with the same weights."""
    for training in program.table(trainings):
        yield from _by_hand(program, training)
    for wrap in wraps(program, "ddp"):
        call = wrap.call
        seeded = _seeded_by_rank(program, call.file)
        if seeded is None:
            continue
        if call.constant(None, "init_sync", True) is False and not _may_share(program, call.file):
            yield _found(program, call, seeded, f"`{call.text()}` shares no weights at the start (init_sync=False)")
        yield from _drawn_again(program, call, seeded)


_Seeded = tuple[SourceCall, Atom | RankCondition]


@cached
def _seeded_by_rank(program: Program, file: int) -> _Seeded | None:
    """Return the call that seeds torch with the rank; None if any seed of the project may be a common one."""
    files = set(program.component(file))
    found: list[_Seeded] = []
    for call in program.calls_in(files):
        if "seed" not in call.method.lower() or call.is_to("random.seed", "numpy.random.seed"):
            continue
        if not call.is_to(*_SEEDS) and program.functions(call):
            continue
        if call.is_to("torch.cuda.manual_seed", "torch.cuda.manual_seed_all"):
            continue
        why = by_rank(program, call.file, call.argument_term(0, "seed")) if call.is_to(*_SEEDS) else None
        if why is None:
            return None
        found.append((call, why))
    return found[0] if found else None


def _may_share(program: Program, file: int) -> bool:
    """Return whether something in a project may give all ranks the same weights."""
    return any(_SHARES.search(program.index.files[one].text) for one in program.component(file))


def _by_hand(program: Program, training: Training) -> Iterator[Finding]:
    """A script that averages gradients, and not the weights that they change."""
    if not training.reductions or _may_share(program, training.step.file):
        return
    files = set(program.component(training.step.file))
    seeded = _seeded_by_rank(program, training.step.file)
    if seeded is None:
        return
    for call in program.calls_to(*COLLECTIVES):
        term = call.argument_term(0, "tensor")
        if call.file in files and not call.is_to(D + "barrier") and not is_gradient(program, call.file, term):
            return
    row = training.reductions[0][1]
    yield _found(program, row, seeded, f"`{row.text()}` averages gradients, and no call shares the start weights")


def _drawn_again(program: Program, wrap: SourceCall, seeded: _Seeded) -> Iterator[Finding]:
    """Weights that are drawn again after DDP has shared them."""
    known = [one for one in wraps(program, "ddp") if one.call == wrap]
    for call in program.calls_named("apply", files=set(program.component(wrap.file))):
        found = roots(program, call.file, call.scope, call.receiver_term, known)[:1] if call.receiver_term >= 0 else []
        drawn = call.argument(0, "fn")
        if not found or drawn is None or not (found[0].kind != "raw" or comes_after(program, wrap, call)):
            continue
        if not any(atom.kind == Kind.FUNCTION and _draws(program, atom.const) for atom in drawn):
            continue
        later = [row for row in calls_in(program, (call.file, call.scope)) if row.number > call.number]
        if any(map(is_backward, later)) and not any(
            re.search("broadcast|load_state_dict", row.method) for row in later
        ):
            yield _found(program, call, seeded, f"`{call.text()}` draws the weights again after DDP has shared them")


def _draws(program: Program, function: tuple[int, int]) -> bool:
    return any(_DRAWS.match(target) for call in calls_in(program, function) for target in call.targets)


def _found(program: Program, row: SourceCall, seeded: _Seeded, what: str) -> Finding:
    seed, why = seeded
    return row.found(
        rules.DC763,
        f"{what}, and `{seed.text()}` in {program.line_name(seed.file, seed.line)} gives each rank different ones: the "
        "replicas differ",
        fix="seed all ranks alike until the model is built, or broadcast the weights of rank 0 to all ranks",
        basis=(why,),
        severity=min(row.milder_in_tests(rules.DC763), Severity.WARNING),
        flow=[seed.as_step(), row.as_step()],
    )
