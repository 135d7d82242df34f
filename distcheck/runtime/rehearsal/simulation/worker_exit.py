"""The end of a rehearsed rank: after the requested steps, together with all others, or with its script."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
import weakref
from typing import Any, NoReturn

from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.coordination.model import SETUP
from distcheck.runtime.coordination.patching import wrap
from distcheck.runtime.coordination.run_script import ScriptExit

from .event_log import EventLog
from .hooks.agreement import Agreement
from .plan import RehearsalPlan


class WorkerExit:
    """Counts optimizer steps, and reports how this process ended.

    A rank ends where the step after the last one would begin: what stands behind ``optimizer.step()`` in the loop has
    then been run as often as the step itself.
    """

    def __init__(self, event_log: EventLog, plan: RehearsalPlan) -> None:
        self.event_log = event_log
        self.plan = plan
        self.agreement = Agreement(plan, event_log, self.stopped)
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        #: when the last step ended, and seconds since the one before
        self._stepped_at, self._step_s = time.monotonic(), 0.0
        self._over = False
        self._pid = os.getpid()

    def install(self) -> None:
        """Count from now on."""
        # registered before anything of the script: it runs behind all of that
        atexit.register(self.leave)
        when_imported("torch.optim.optimizer", self._attach)
        when_imported("torch.distributed.optim.optimizer", self._attach_rpc)

    def renew(self) -> None:
        """In a fork: it may become a rank of its own."""
        self._steps = weakref.WeakKeyDictionary()
        self._over = False
        self._pid = os.getpid()
        self.event_log.at_end = []
        self.agreement.renew()

    def _attach(self, module: Any) -> None:
        module.register_optimizer_step_pre_hook(self._before_step)
        module.register_optimizer_step_post_hook(self._after_step)

    def _attach_rpc(self, module: Any) -> None:
        """Count the steps of the optimizer of RPC. The rank that makes them must not wait for the others."""

        def step(real: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(optimizer, *args, **kwargs)
            self._after_step(optimizer)
            return result

        wrap(module.DistributedOptimizer, "step", step)

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        if self.plan.steps is None or self._steps.get(optimizer, 0) < self.plan.steps or os.getpid() != self._pid:
            return
        if self.agreement.finished(self.event_log.step, self._step_s):
            self._end_here()

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        # several optimizers that take turns, and one inside of another, make one step of the loop
        done = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if done > self.event_log.step:
            self.event_log.step = done
            now = time.monotonic()
            self._stepped_at, self._step_s = now, now - self._stepped_at
            self.event_log.note("stage.step")

    def _end_here(self) -> NoReturn:
        """Without the script's own end: it is in the middle of its loop, and no ``except`` of it is to see that."""
        self._note("steps", 0)
        self.leave()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(0)

    def ended(self, ended: ScriptExit) -> None:
        """The script has ended by itself; called before exit handlers run."""
        self.agreement.ended(ended)
        own = next((frame for frame in ended.stack if frame.own), None)
        place = ("", "") if own is None else (own.place, own.function)
        self._note("raised" if ended.state == "raised" else "finished", ended.status, ended.detail, place)

    def stopped(self, reason: str) -> None:
        """The parent ends this process, in the middle of whatever it does."""
        self._note("stopped", 0, reason, ("", ""))
        self._write_last()

    def _note(self, how: str, status: int, detail: str = "", place: tuple[str, str] | None = None) -> None:
        if not self._over:
            self._over = True
            joined = bool(self.event_log.calls.entered.get(SETUP))
            self.event_log.note("stage.end", place=place, how=how, status=status, detail=detail, joined=joined)

    def leave(self) -> None:
        """The last thing that this process does; a fork of it has a parent that does so."""
        if os.getpid() == self._pid:
            self._write_last()
            self.agreement.leave()

    def _write_last(self) -> None:
        self.event_log.close()
        notes = sys.modules.get("distcheck.runtime.rehearsal.fake_cuda.limits")
        for item in notes.notes() if notes is not None else ():
            self.event_log.note("stage.not_simulated", place=(item.place, ""), what=item.what, instead=item.instead)
        if self.event_log.lost:
            self.event_log.note("stage.lost", place=("", ""), kinds=dict(self.event_log.lost))
