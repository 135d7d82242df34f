"""What the parent makes of the ends of processes, and what it leaves behind: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.launcher import ends_of
from distcheck.runtime.rehearsal.simulation.output import PrefixedOutput, last_output
from distcheck.runtime.rehearsal.simulation.plan import End, RehearsalPlan
from distcheck.runtime.rehearsal.simulation.processes import AGENT, RehearsedProcess

PLAN = RehearsalPlan("train.py", nproc_per_node=2)


class Ended:
    """A process that has ended."""

    def __init__(self, pid: int, returncode: int) -> None:
        self.pid = pid
        self.returncode = returncode


def started(number: int, returncode: int = 0) -> RehearsedProcess:
    process: Any = Ended(100 + number, returncode)
    return RehearsedProcess(number, process, "", "")


def end(pid: int, rank: int | None, how: str, status: int = 0, detail: str = "", step: int = 0) -> LoggedEvent:
    data = {"how": how, "status": status, "detail": detail, "joined": True}
    return LoggedEvent("stage.end", rank, pid, 1.0, step, "a.py:5" if detail else "", "", data)


def test_a_rank_has_ended_as_it_says() -> None:
    rows = (end(100, 0, "steps", step=3), end(101, 1, "raised", 1, "ValueError: no", step=2))
    assert ends_of(PLAN, [started(0), started(1, 1)], rows, frozenset()) == (
        End(0, 100, "steps", 0, 3),
        End(1, 101, "raised", 1, 2, "ValueError: no", "a.py:5"),
    )


def test_who_says_nothing_has_ended_as_its_process_did() -> None:
    found = ends_of(PLAN, [started(1, -11), started(0, 5)], (), frozenset())
    assert found == (End(0, 100, "exited", 5), End(1, 101, "killed", -11))


def test_a_signal_counts_more_than_what_was_said_before() -> None:
    assert ends_of(PLAN, [started(0, -11)], (end(100, 0, "finished"),), frozenset())[0].how == "killed"


def test_whom_we_have_killed_was_stopped() -> None:
    assert ends_of(PLAN, [started(0, -9)], (), frozenset({0})) == (End(0, 100, "stopped"),)
    assert ends_of(PLAN, [started(0, -9)], (), frozenset())[0].how == "killed"


def test_ranks_that_a_script_has_started_are_found_by_their_rows() -> None:
    plan = PLAN._replace(launcher="script")
    rows = (
        LoggedEvent("stage.began", None, 100, 0.1, 0), end(201, 1, "raised", 1, "ValueError: no"), end(200, 0, "steps", step=3),
        LoggedEvent("stage.began", None, 300, 0.2, 0),
    )  # fmt: skip
    found = ends_of(plan, [started(0, 1)], rows, frozenset())
    assert [(one.rank, one.pid, one.how) for one in found] == [(0, 200, "steps"), (1, 201, "raised")]


def test_a_script_that_starts_none_after_all_is_a_rank_itself() -> None:
    plan = PLAN._replace(launcher="script")
    assert [one.rank for one in ends_of(plan, [started(0)], (end(100, None, "finished"),), frozenset())] == [0]


def test_lines_come_with_their_rank_as_soon_as_they_are_whole(tmp_path: Path) -> None:
    out, err, agent = (tmp_path / name for name in ("0.out", "0.err", "agent"))
    for path in (out, err, agent):
        path.write_bytes(b"")
    process: Any = None
    told: list[str] = []
    live = PrefixedOutput(
        [RehearsedProcess(AGENT, process, str(agent), str(agent)), RehearsedProcess(0, process, str(out), str(err))],
        "rank",
        told.append,
    )
    agent.write_bytes(b"not a rank\n")
    out.write_bytes(b"epoch 1\nlo")
    live.look()
    assert told == ["[rank 0] epoch 1"]
    with out.open("ab") as file:
        file.write(b"ss 0.1\n 10%\r 90%\r100%\nlast \x1b[1m")
    live.look()
    live.look(last=True)
    assert told[1:] == ["[rank 0] loss 0.1", "[rank 0] 100%", "[rank 0] last ?[1m"]
    assert last_output(str(out)).startswith("epoch 1\nloss")
