"""Collectives that fail while the script goes on, so that the job ends well: DC749, and DC747 for the group itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix
from distcheck.core.registry import probe

from .call_recorder import CallRecorder
from .call_signatures import KINDS, MAKING
from .frames import innermost_own
from .locations import where_of
from .model import SETUP, CollectiveCall, RecordedCall
from .patching import wrap
from .root_cause import reports_lost_peer

#: Failures of this process that are kept, and characters of a text.
_MOST, _LONGEST = 8, 160
_INIT = "init_process_group"


class CaughtFailure(NamedTuple):
    """A call that failed on one rank, whose process then ended with status 0."""

    rank: int
    place: str
    #: name of the call, or ``a collective of the backward pass``
    call: str
    error: str
    #: optimizer steps after it
    steps: int = 0


@probe(rules.DC747, rules.DC749)
def failures_end_the_script(caught: CaughtFailure) -> Iterator[Finding]:
    """Report a call that failed for good, and whose error did not end the script."""
    alone = f", made {caught.steps} optimizer step{'s' * (caught.steps != 1)} alone" * bool(caught.steps)
    evidence = {"call": caught.call, "error": caught.error, "optimizer_steps_after_it": caught.steps}
    end = f"The process went on{alone} and ended with status 0, so no launcher notices it"
    if caught.call == _INIT:
        yield rules.DC747.found(
            f"{_INIT} failed here: {caught.error}. {end}",
            where=where_of(caught.place, [caught.rank]),
            evidence=evidence,
            fix=Fix("let the error end the process: test os.environ before the call if it may run alone", where="code"),
        )
        return
    yield rules.DC749.found(
        f"{caught.call} failed here: {caught.error}. {end}",
        where=where_of(caught.place, [caught.rank]),
        evidence=evidence,
        fix=Fix("let the error end the process, so that the launcher ends or restarts the job", where="code"),
    )


class _Kept(NamedTuple):
    """A failure, and what was so when it came."""

    failure: CaughtFailure
    #: groups that the script had begun to make
    groups: int
    #: of the group whose call failed
    ranks: frozenset[int]


class FailureObserver:
    """Observes the calls of this process.

    :param calls: reports calls that raise
    """

    def __init__(self, calls: CallRecorder) -> None:
        self._calls = calls
        self._kept: list[_Kept] = []
        #: groups that the script began to make
        self._groups = 0
        #: optimizer steps since the first failure
        self._steps = 0
        calls.observe_arguments(self._on_call)
        calls.on_end = self._ended

    def attach_backward(self, module: Any) -> None:
        """Observe ``torch.autograd``: DDP calls collectives in a backward pass."""
        wrap(module, "_engine_run_backward", self._run_backward)

    def forget(self) -> None:
        """Forget the parent's failures, in a fork."""
        self._kept.clear()

    @property
    def joined(self) -> bool:
        """Return whether the default group exists, or existed."""
        return self._calls.joined or self._calls.left > 0

    def found(self) -> Iterator[CaughtFailure]:
        """Yield the failures after which the ranks had no collective and no new group, if the script ended well."""
        for failure, groups, _ in self._kept:
            # what does not train may find out with init_process_group that it is alone
            if groups == self._groups and (failure.call != _INIT or failure.steps != self._steps):
                yield failure._replace(steps=self._steps - failure.steps)
        self._kept.clear()

    def _on_call(self, recorded: RecordedCall, given: Mapping[str, Any], _: bool) -> None:
        # a group of one rank is no other beginning: it lets the script go on alone
        self._groups += recorded.call.group.startswith(SETUP) and given.get("world_size") != 1

    def _run_backward(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        before = self._counts() if self._kept else {}
        try:
            returned = real(*args, **kwargs)
        except Exception as error:
            if self._calls.joined:
                place = innermost_own(sys._getframe(1))[0]
                self._note(str(error), "a collective of the backward pass", place, ())
            raise
        for ranks, number in (self._counts() if before else {}).items():
            if number > before.get(ranks, number):
                self._worked(ranks)
        return returned

    def _counts(self) -> dict[frozenset[int], int]:
        """Return the number of collectives of each set of ranks."""
        counts: dict[frozenset[int], int] = {}
        module = sys.modules.get("torch.distributed.distributed_c10d")
        if module is None:
            return counts
        world = module._world
        for group, title in list(world.pg_names.items()):
            ranks = frozenset(world.pg_group_ranks.get(group, ()))
            counts[ranks] = counts.get(ranks, 0) + self._calls.count(group, title)
        return counts

    def _ended(self, call: CollectiveCall, error: BaseException | None) -> None:
        kind = KINDS.get(call.operation)
        if kind is None:
            return  # a script may poll the keys of a store
        ranks = self._calls.groups.get(call.group, ())
        if error is None:
            # a root, or one side of a pair, may end alone
            if self._kept and not (kind.peer or kind.pair or call.operation in MAKING):
                self._worked(ranks)
        elif isinstance(error, Exception):
            self._note(f"{type(error).__name__}: {error}", call.operation, call.place, ranks)

    def _worked(self, ranks: Iterable[int]) -> None:
        """Forget failures among ranks that have ended a collective since: in another group, or by another try."""
        present = frozenset(ranks)
        self._kept = [kept for kept in self._kept if not kept.ranks <= present]

    def _note(self, text: str, call: str, place: str, ranks: Iterable[int]) -> None:
        size = os.environ.get("WORLD_SIZE", "")
        world = range(int(size) if size.isdigit() else 1)
        if len(self._kept) >= _MOST or not (len(world) > 1 if call == _INIT else reports_lost_peer(text)):
            return
        if not self._kept:
            self._count_steps()
        rank = os.environ.get("RANK", "")
        first = (text.strip().splitlines() or [""])[0][:_LONGEST]
        failure = CaughtFailure(int(rank) if rank.isdigit() else 0, place, call, first, self._steps)
        # a call of C++ may be in any group
        self._kept.append(_Kept(failure, self._groups, frozenset(ranks or world)))

    def _count_steps(self) -> None:
        module = sys.modules.get("torch.optim.optimizer")
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None and not self._steps:
            register(self._count_step)

    def _count_step(self, *_: Any) -> None:
        self._steps += 1
