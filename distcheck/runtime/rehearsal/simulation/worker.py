"""One process of a rehearsal: simulates the GPUs, logs what the script does, and becomes the script.

Started by :mod:`.processes` with ``python -m``; children of the script that are ranks of
their own begin with :func:`enter` too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import NamedTuple

from distcheck.runtime.coordination.run_script import ScriptExit

from .event_log import EventLog
from .hooks import HOOKS
from .plan import VARIABLE, RehearsalPlan, read_plan
from .worker_exit import WorkerExit

#: Variables in which launchers put the global rank of a process.
_RANKS = ("RANK", "SLURM_PROCID")


class RankWorker(NamedTuple):
    """The state of this process."""

    plan: RehearsalPlan
    event_log: EventLog
    ending: WorkerExit


#: Of this process, once it has entered, and of what it forks.
_here: RankWorker | None = None


def enter(environ: Mapping[str, str] = os.environ, *, role: str = "rank") -> RankWorker:
    """Simulate and observe in this process, from here on.

    :param role: ``rank``; ``starter``: it starts the ranks of its node itself; ``child``: it may become a rank
    :raises KeyError: this process is in no rehearsal
    """
    global _here
    plan, begun = read_plan(environ[VARIABLE])
    # RANK may be set for a child as well: it may be a loader's worker
    names = _RANKS if role == "rank" else ()
    rank = next((int(environ[name]) for name in names if environ.get(name, "").isdigit()), None)
    event_log = EventLog(os.path.join(plan.private, "events"), begun, rank)
    event_log.note("stage.began", place=("", ""), role=role, parent=os.getppid())
    if plan.gpus_per_node and not plan.real_gpus:
        from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, on_import

        on_import(FakeGpus(plan.gpus_per_node))
    ending = WorkerExit(event_log, plan)
    ending.install()
    for name in HOOKS:
        _install(name, event_log, partial(_install_hook, name, event_log, plan))
    # its wrapping is the outermost
    _install("agreement", event_log, ending.agreement.install)
    _here = RankWorker(plan, event_log, ending)
    return _here


def _install_hook(name: str, event_log: EventLog, plan: RehearsalPlan) -> None:
    import_module(f"{__package__}.hooks.{name}").install(event_log, plan)


def _install(name: str, event_log: EventLog, install: Callable[[], object]) -> None:
    try:
        install()
    except Exception as error:  # noqa: BLE001 - one that fails must not take the rehearsal with it
        event_log.note("stage.hook_failed", place=("", ""), hook=name, why=f"{type(error).__name__}: {error}")


def child(_: str = "") -> Callable[[ScriptExit], None]:
    """A process begins that the script has started by multiprocessing: a fresh one, or a fork of one that has entered.

    :return: to be called once, when its function has returned or raised
    """
    worker = _here
    if worker is None:
        worker = enter(role="child")
    else:
        worker.event_log.rank = None
        worker.event_log.step = 0
        worker.ending.renew()
    ending = worker.ending

    def ended(how: ScriptExit) -> None:
        # it runs no exit handlers
        ending.ended(how)
        ending.leave()

    return ended


def main() -> None:
    """The process that the parent starts."""
    from distcheck.runtime.coordination.processes import die_with_parent
    from distcheck.runtime.coordination.run_script import CannotRun, run

    from .overlay import join

    plan, _ = read_plan(os.environ[VARIABLE])
    try:
        # while there is one thread, and nothing is open
        join(plan)
    except OSError as error:
        sys.stderr.write(f"distcheck rehearse: the script can't be kept apart from this machine: {error}\n")
        raise SystemExit(2) from None
    die_with_parent()
    arguments = plan.arguments
    if plan.local_rank_argument:
        arguments = (f"{plan.local_rank_argument}={os.environ['LOCAL_RANK']}", *arguments)
    worker = enter(role="starter" if plan.launcher == "script" else "rank")
    try:
        run(plan.target, arguments, module=plan.module, ended=worker.ending.ended)
    except CannotRun as error:
        worker.event_log.note("stage.cannot_run", place=("", ""), why=str(error))
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


if __name__ == "__main__":
    # what is pickled by name must find one module, not two
    from .worker import main as play

    play()
