"""Jobs that run: where the ranks are, given to the functions that make the reports of ``watch`` and ``stuck``.

Both commands have no other input than processes that run.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from distcheck.cli import stuck, watch
from distcheck.core.code_blocks import CodeBlock
from distcheck.core.model import Unavailable
from distcheck.rules import Selection
from distcheck.runtime.coordination.clipping import ClippedGradients
from distcheck.runtime.coordination.digests import Digest
from distcheck.runtime.coordination.drift import ReplicaRow, drift_of
from distcheck.runtime.coordination.failed_calls import CaughtFailure
from distcheck.runtime.coordination.ledger import Summary
from distcheck.runtime.coordination.model import SETUP, CallMismatch, Frame, Position, Positions
from distcheck.runtime.coordination.sampling import Samples, samples_of
from distcheck.runtime.coordination.training import AtStep
from distcheck.runtime.coordination.unwaited_handles import UnwaitedGradients
from distcheck.runtime.coordination.updates import IdleOptimizer, ScheduleBurst
from distcheck.runtime.coordination.worker_calls import WorkerCall, WorkerCalls
from distcheck.runtime.coordination.wrapped_models import AROUND, ENDS_IN_NO_SYNC
from distcheck.runtime.inspect.snapshot import Snapshot
from tests.runtime.coordination import test_hang_detector as standing
from tests.runtime.inspect import test_snapshot_checks as still
from tests.runtime.monitor import test_summary as summary
from tests.runtime.rehearsal.simulation import test_samples as drawn

from . import Case, Cases, Said, said_by


class Compared(NamedTuple):
    """The replicas of a model at two compared steps."""

    before: tuple[ReplicaRow, ...]
    now: tuple[ReplicaRow, ...]


def watched(given: Positions | Summary | Compared | Samples | AtStep | CaughtFailure | WorkerCalls, _: Path) -> Said:
    """The report of ``distcheck watch``: of a hang, of replicas, of samples, of a step, of workers, or at the end."""
    if isinstance(given, WorkerCalls):
        return said_by(watch.worker_report_of(given, Selection()))
    if isinstance(given, Samples):
        return said_by(watch.sample_report_of(given, Selection()))
    if isinstance(given, (AtStep, CaughtFailure)):
        return said_by(watch.step_report_of(given, Selection()))
    if isinstance(given, Compared):
        drift = drift_of(*given)
        return Said({}) if drift is None else said_by(watch.drift_report_of(drift, Selection()))
    make = watch.summary_of if isinstance(given, Summary) else watch.report_of
    return said_by(make(given, Selection()))  # type: ignore[operator]


def looked_at(given: Snapshot, _: Path) -> Said:
    """The report of ``distcheck stuck``."""
    return said_by(stuck.judged([given], Selection(), (), Unavailable("no NVIDIA driver"), "n1"))


call, waiting, job, left, pair = standing.call, standing.waiting, standing.job, standing.left, standing.pair
FORWARD = (
    Frame("torch/distributed/distributed_c10d.py", 1, "broadcast"),
    Frame("torch/nn/parallel/distributed.py", 1500, "_pre_forward"),
    Frame("eval.py", 41, "validate", own=True),
)
BRANCH = job(
    waiting(0, call(5, place="train.py:50")),
    waiting(1, call(2, "barrier", "1", "train.py:60"))._replace(entered={"0": 4, "1": 2}),
    groups={"1": (0, 1)},
)
DIFFERENT = CallMismatch("0", 5, (((0,), call(5)), ((1,), call(5)._replace(reduce="max", place="train.py:90"))))

#: The groups of the two ranks have other ranks: the calls that set them up differ.
OTHER_GROUPS = CallMismatch(
    SETUP + "1", 1, (((0,), call(1, "new_group", SETUP + "1")), ((1,), call(1, "new_group", SETUP + "1", "train.py:9")))
)
OTHER_ROOTS = CallMismatch(
    "0", 5, (((0,), call(5, "broadcast")._replace(peer=0)), ((1,), call(5, "broadcast")._replace(peer=1)))
)


def replicas(*rates: float, weights: tuple[int, ...] = (7, 7), late: int = 0, unreduced: str = "") -> Compared:
    """Two replicas with these learning rates, and parameters of these checksums, at steps 1 and 2.

    :param late: collectives that the second one makes more before the same step
    :param unreduced: why DDP does not average the gradients, which then differ
    """

    def rows(step: int) -> tuple[ReplicaRow, ...]:
        return tuple(
            ReplicaRow(
                rank, "0.ddp0.0", (0, 1), step, 3 * step + rank * late, "Net", "train.py:40", (rate,),
                {"weight": (
                    Digest(1 + rank * bool(unreduced), 1.0 + rank * bool(unreduced), 0.5, 32),
                    Digest(checksum, float(checksum), 0.5, 32),
                )},
                unreduced={"weight": unreduced},
            )
            for rank, (rate, checksum) in enumerate(zip(rates, weights, strict=True))
        )  # fmt: skip

    return Compared(rows(1), rows(2))


def of_both(**more: object) -> Samples:
    """Two ranks that train from one loader without a sampler."""
    ids = drawn.in_batches(range(12))
    rows = [row for rank in (0, 1) for row in (drawn.made(rank, **more), *drawn.walk(rank, ids))]  # type: ignore[arg-type]
    return samples_of([*drawn.wrapped(0, 1), *rows], 2)


def of_epochs(*orders: list[int]) -> Samples:
    """Two ranks that train for two epochs, with these orders of all samples."""
    return samples_of(drawn.epochs(drawn.DISTRIBUTED, drawn.DISTRIBUTED, orders=orders, length=3), 2)


EQUAL = replicas(0.1, 0.1)
#: Each rank has its share of each epoch's order.
DIVIDED = of_epochs(drawn.shuffled(0), drawn.shuffled(1))
WATCHED: dict[str, Positions | Summary | Compared | Samples | AtStep | CaughtFailure | WorkerCalls] = {
    "DC511": job(waiting(0, call(5)), Position(1, state="stopped", detail="SIGSTOP")),
    "DC514": summary.job(120.0, 118.0, 4.0, 122.0),
    "DC517": job(standing.computing(0, 5), standing.computing(1, 5), mismatches=(DIFFERENT,)),
    "DC519": job(waiting(0, call(412)), left(1, 411, places={standing.TRAIN: 411})),
    "DC701": BRANCH._replace(around={"train.py:60": (CodeBlock("branch", 58, 61),)}),
    "DC702": job(waiting(0, call(412, "barrier", place="train.py:93")), left(1, 411, places={standing.TRAIN: 411})),
    "DC704": job(waiting(0, call(5, "broadcast", place="eval.py:41"), stack=FORWARD), left(1, 4)),
    "DC706": job(standing.computing(0, 5), standing.computing(1, 5), mismatches=(OTHER_GROUPS,)),
    "DC709": job(standing.computing(0, 5), standing.computing(1, 5), mismatches=(OTHER_ROOTS,)),
    "DC713": UnwaitedGradients(0, "train.py:30", "train.py:33", 2, 4, 1),
    "DC716": job(*(waiting(rank, pair("send", 1 - rank), posted={f"0 send {1 - rank} 0": 1}) for rank in range(2))),
    "DC726": summary.job(1.0, 1.0, 1.0, long=(summary.WAIT,)),
    "DC730": of_epochs(drawn.shuffled(0), drawn.shuffled(0)),
    "DC732": of_both(),
    "DC733": samples_of(
        [*drawn.wrapped(0, 1), *drawn.split(0, drawn.shuffled(0)), *drawn.split(1, drawn.shuffled(1))], 2
    ),
    "DC735": of_both(iterable=True),
    "DC737": WorkerCalls((WorkerCall("all_reduce", "data.py:30", "__getitem__", 0),)),
    "DC743": Summary((summary.ledger(0), summary.ledger(1, kept_group=True)), 2),
    "DC747": CaughtFailure(0, "train.py:5", "init_process_group", "DistStoreError: Timed out", 40),
    "DC749": CaughtFailure(0, "train.py:31", "all_reduce", "RuntimeError: Connection closed by peer"),
    "DC750": replicas(0.1, 0.1, weights=(7, 9), unreduced=AROUND),
    "DC751": replicas(0.1, 0.1, weights=(7, 9), unreduced="unfrozen"),
    "DC756": replicas(0.1, 0.1, weights=(7, 9), unreduced="moved"),
    "DC759": replicas(0.1, 0.1, weights=(7, 9), unreduced=ENDS_IN_NO_SYNC),
    "DC752": IdleOptimizer(0, "train.py:33", "AdamW", 10, 4, sharded=True),
    "DC753": ClippedGradients(0, "train.py:30", ""),
    "DC757": replicas(0.1, 0.1, late=3),
    "DC758": ClippedGradients(0, "train.py:30", "train.py:31"),
    "DC765": ScheduleBurst(0, "train.py:34", "CosineAnnealingLR", 8, "train.py:33"),
    "DC766": IdleOptimizer(0, "train.py:33", "AdamW", 10, 4),
    "DC763": replicas(0.1, 0.1, weights=(7, 9)),
    "DC764": replicas(0.1, 0.05),
}
STUCK: dict[str, Snapshot] = {
    "DC502": still.snapshot(still.away(0, "moves on"), surplus={0: (9,)}),
    "DC511": still.snapshot(still.waits(0), Position(1, "n1", 101, "stopped", detail="by a signal")),
    "DC517": still.snapshot(still.waits(0, "barrier"), still.waits(1), still.waits(2)),
    "DC701": still.snapshot(still.waits(0), still.away(1), interval_s=30.0),
    "DC702": still.snapshot(still.waits(0), Position(1, "n1", state="left"), still.waits(2)),
    "DC726": still.snapshot(still.away(0), still.waits(1, "barrier"), still.waits(2, "barrier")),
}
#: All ranks work: each is in a call, or has gone on from it.
WELL = job(standing.computing(0, 5), standing.computing(1, 5))
ENDED_WELL = summary.job(20.0, 21.0, 19.0, 20.5)
MOVES = still.snapshot(still.waits(0), still.away(1, "moves on"), busy=(1,))


def of_watched_jobs(code: str) -> Cases:
    """A job that hangs or ends so, and a job without it."""
    bad = WATCHED[code]
    like = {Compared: EQUAL, Samples: DIVIDED, Positions: WELL}
    good = like.get(type(bad), ENDED_WELL)
    return Cases([Case(code, partial(watched, bad))], [Case("a job that is well", partial(watched, good))])


def of_stuck_jobs(code: str) -> Cases:
    """A job that hangs so, and a job that moves."""
    return Cases([Case(code, partial(looked_at, STUCK[code]))], [Case("a job that moves", partial(looked_at, MOVES))])
