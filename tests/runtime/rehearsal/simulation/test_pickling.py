"""What could not be pickled, from hand-made rows: DC602, DC605."""

from __future__ import annotations

from typing import Any

from distcheck.core.checker import Checker
from distcheck.core.model import Finding
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2)
GROUP = {
    "path": "obj['trainer'].group", "type": "torch.distributed.ProcessGroup", "why": "holds a process group",
    "fix": "remove it", "kind": "process-group",
}  # fmt: skip
LOCK = {
    "path": "args[0].lock", "type": "_thread.lock", "why": "a lock belongs to the threads of this process",
    "fix": "take it from the same context", "kind": "unpicklable",
}  # fmt: skip
NO_GROUP = "TypeError: cannot pickle 'torch._C._distributed_c10d.ProcessGroup' object"
NO_LOCK = "TypeError: cannot pickle '_thread.lock' object"


def refused(mode: str, error: str, offender: dict[str, str], rank: int | None = 0, **more: Any) -> LoggedEvent:
    data = {"mode": mode, "operation": "", "error": error, "made": [], "offenders": [offender], **more}
    return LoggedEvent("pickling.refused", rank, 100, 1.0, 0, "train.py:30", "main", data)


def judged(*rows: LoggedEvent, detail: str | None = None) -> list[Finding]:
    ends = tuple(End(rank, how="raised", status=1, detail=detail) for rank in (0, 1)) if detail else ()
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.pickling",), plug_ins=False)
    return list(checker.plan(Rehearsal, command="rehearse", closed=True).run(Rehearsal(PLAN, ends, rows)).findings)


def test_bad_dc602_a_checkpoint_holds_a_group() -> None:
    rows = [refused("torch.save", NO_GROUP, GROUP, rank) for rank in (0, 1)]
    (found,) = judged(*rows, detail=NO_GROUP)
    assert (found.code, found.where.line, found.where.ranks) == ("DC602", 30, "0-1")
    assert found.where.object == "obj['trainer'].group"
    assert found.message.startswith("torch.save can't write obj['trainer'].group")
    assert found.fix.text == "remove it"


def test_bad_dc602_sent_to_other_ranks() -> None:
    (found,) = judged(refused("collective", NO_GROUP, GROUP, operation="all_gather_object"), detail=NO_GROUP)
    assert found.message.startswith("all_gather_object() can't send")


def test_bad_dc602_goes_before_dc605_among_arguments() -> None:
    (found,) = judged(refused("spawn", NO_GROUP, GROUP, None))
    assert found.code == "DC602"


def test_bad_dc605_a_lock_among_the_arguments() -> None:
    """The process is named by the line that made it."""
    (found,) = judged(refused("spawn", NO_LOCK, LOCK, None, made=["train.py:28", "main"]))
    assert (found.code, found.where.line, found.where.ranks) == ("DC605", 28, None)
    assert found.evidence["at"] == "train.py:30"
    assert "args[0].lock (_thread.lock)" in found.message


def test_good_dc602_the_script_has_caught_it() -> None:
    assert not judged(refused("torch.save", NO_GROUP, GROUP))
    assert not judged(refused("torch.save", NO_GROUP, GROUP), detail="ValueError: no data")


def test_good_dc605_a_lock_in_a_checkpoint_is_none_of_a_process() -> None:
    assert not judged(refused("torch.save", NO_LOCK, LOCK), detail=NO_LOCK)
