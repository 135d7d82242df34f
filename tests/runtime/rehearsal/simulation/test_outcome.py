"""What became of the ranks: who failed, and what was therefore not looked at."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.launcher import ENDED, HUNG, NO_STORE, TIME, UNEVEN, RehearsalResult
from distcheck.runtime.rehearsal.simulation.outcome import failure_lines, failures, last_lines, not_checked
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

from .test_samples import in_batches, made, walk, wrapped

PLAN = RehearsalPlan("train.py", nproc_per_node=2)
AT_END = [End(rank, 10 + rank, "steps", 0, 3) for rank in range(2)]
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:31205"


def row(kind: str, rank: int = 0, place: str = "", **data: Any) -> LoggedEvent:
    return LoggedEvent(kind, rank, 10 + rank, 1.0, 3, place, "", data)


JOINED = tuple(row("stage.end", rank, joined=True) for rank in range(2))


def performed(
    *ends: End, why: str = ENDED, plan: RehearsalPlan = PLAN, rows: tuple[LoggedEvent, ...] = JOINED, **more: Any
) -> RehearsalResult:
    rehearsal = Rehearsal(plan, ends, rows, more.pop("missed", ()))
    return RehearsalResult(
        rehearsal, why, None, more.pop("outputs", {}), more.pop("unfinished", ()), more.pop("written", ""), 5.0
    )


def reasons(done: RehearsalResult) -> dict[str, str]:
    return {item.what: item.why for item in not_checked(done)}


# who failed


def test_a_rank_that_only_lost_the_other_one_has_not_failed() -> None:
    ends = [End(0, 10, "raised", 1, 0, LOST, "train.py:9"), End(1, 11, "raised", 1, 0, "ValueError: no", "train.py:5")]
    assert [failure.text for failure in failures(ends)] == [
        "rank 1 raised ValueError: no at train.py:5, before the first optimizer step"
    ]


def test_where_all_have_lost_one_they_are_told() -> None:
    ends = [End(rank, 10, "raised", 1, 2, LOST, "train.py:9") for rank in range(2)]
    (failure,) = failures(ends)
    assert failure.who == "ranks 0-1"
    assert failure.text.endswith("at train.py:9, after 2 optimizer steps")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (
            End(1, 11, "raised", 1, 1, "ValueError: a\nsecond line", "a.py:3"),
            "raised ValueError: a at a.py:3, after 1 ",
        ),
        (End(1, 11, "killed", -11, 0), "was killed by SIGSEGV"),
        (End(1, 11, "killed", -99, 0), "was killed by signal 99"),
        (End(1, 11, "exited", 5, 0), "ended without an exception (os._exit or exec) with status 5"),
        (End(1, 11, "finished", 3, 0), "ended with status 3"),
        (End(1, 11, "finished", 1, 0, "no data"), "ended with status 1 (no data)"),
    ],
)
def test_how_a_rank_failed(end: End, said: str) -> None:
    (failure,) = failures([AT_END[0], end])
    assert failure.text.startswith(f"rank 1 {said}")


def test_ranks_that_end_well_or_by_us_have_not_failed() -> None:
    assert failures([*AT_END, End(2, 12, "finished", 0), End(3, 13, "stopped", 0)]) == ()


def test_equal_failures_are_told_once() -> None:
    ends = [End(rank, 10, "raised", 1, 0, f"ValueError: rank {rank}", "train.py:5") for rank in (0, 1, 3)]
    (failure,) = failures(ends)
    assert failure.who == "ranks 0-1,3"


# their last lines


def test_the_last_lines_are_those_of_standard_error() -> None:
    lines = last_lines(("out\n", "".join(f"line {number}\n" for number in range(20))))
    assert lines[0] == "… 8 lines before"
    assert lines[1:] == [f"line {number}" for number in range(8, 20)]


def test_who_says_nothing_on_standard_error_may_have_said_it_elsewhere() -> None:
    assert last_lines(("Traceback\nValueError\n", "\n")) == ["Traceback", "ValueError"]
    assert last_lines(("", "")) == []


def test_what_is_told_of_a_failure_comes_from_its_own_rank() -> None:
    ends = (AT_END[0], End(1, 11, "raised", 1, 0, "ValueError: no", "a.py:5"))
    outputs = {0: ("", "of rank 0\n"), 1: ("", "of rank 1\n")}
    assert failure_lines(performed(*ends, outputs=outputs)) == [
        "rank 1 raised ValueError: no at a.py:5, before the first optimizer step:",
        "  | of rank 1",
    ]
    # one process has started both, and holds what they printed
    plan = PLAN._replace(launcher="script", nnodes=1)
    assert failure_lines(performed(*ends, outputs=outputs, plan=plan))[1] == "  | of rank 0"


def test_good_ends_are_not_told() -> None:
    assert failure_lines(performed(*AT_END, outputs={0: ("all well\n", "")})) == []


# what was not looked at


def test_behind_the_steps_nothing_was_looked_at() -> None:
    assert reasons(performed(*AT_END)) == {
        "the end of the script": "the ranks were ended after 3 optimizer steps; --epoch-steps 2 --steps 0 reaches it "
        "through short epochs"
    }


def test_a_script_that_ended_was_looked_at_to_its_end() -> None:
    assert reasons(performed(*(End(rank, 10, "finished", 0, 5) for rank in range(2)))) == {}


def test_an_epoch_that_was_cut_is_named_with_its_batches() -> None:
    rows = [
        LoggedEvent("samples.pass", 0, 10, 1.0, 0, f"train.py:{line}", data={"number": number, "length": length})
        for number, length, line in ((1, 157, 30), (2, 9, 44), (3, None, 50))
    ]
    cut = LoggedEvent("samples.open", 0, 10, 2.0, 3, data={"number": 1, "given": 4})
    endless = LoggedEvent("samples.open", 0, 10, 2.0, 3, data={"number": 3, "given": 4})
    done = performed(*AT_END)
    for extra, text in (((cut, endless), ", in batch 4 of 157 of the loop at train.py:30"), ((endless,), ""), ((), "")):
        rehearsal = done.rehearsal._replace(rows=(*done.rehearsal.rows, *rows, *extra))
        why = reasons(done._replace(rehearsal=rehearsal))["the end of the script"]
        assert (
            why
            == f"the ranks were ended after 3 optimizer steps{text}; --epoch-steps 2 --steps 0 reaches it through short epochs"
        )


def test_a_script_without_a_group_was_not_looked_at_as_a_job() -> None:
    rows = tuple(row("stage.end", rank, joined=False) for rank in range(2))
    ends = [End(rank, 10, "finished", 0, 0) for rank in range(2)]
    assert list(reasons(performed(*ends, rows=rows))) == ["collectives"]


def test_a_script_without_a_step() -> None:
    assert list(reasons(performed(*(End(rank, 10, "finished", 0, 0) for rank in range(2))))) == ["optimizer steps"]


def test_behind_a_failure_nothing_was_looked_at() -> None:
    done = performed(AT_END[0]._replace(steps=1), End(1, 11, "raised", 1, 1, "ValueError: no", "a.py:5"))
    assert reasons(done) == {"steps 2 to 3": "rank 1 raised ValueError: no at a.py:5, after 1 optimizer step"}
    done = performed(End(1, 11, "raised", 1, 3, "ValueError: no", "a.py:5"))
    assert list(reasons(done)) == ["the rest of the script"]


def test_behind_a_hang_nothing_was_looked_at() -> None:
    stopped = [End(rank, 10, "stopped", 0, 2) for rank in range(2)]
    assert reasons(performed(*stopped, why=HUNG)) == {"step 3": "the ranks did not reach it"}


def test_when_time_was_up_the_rest_was_not_looked_at() -> None:
    stopped = [End(rank, 10, "stopped", 0, 1) for rank in range(2)]
    done = performed(*stopped, why=TIME, plan=PLAN._replace(seconds=60.0))
    assert reasons(done) == {"steps 2 to 3": "the 60 s of --seconds passed"}


def test_ranks_that_do_fewer_steps_are_named() -> None:
    done = performed(AT_END[0], End(1, 11, "stopped", 0, 1), why=UNEVEN, unfinished=(1,))
    assert list(reasons(done)) == ["steps of ranks 1"]


def test_without_a_store_nothing_was_looked_at() -> None:
    assert list(reasons(performed(End(0, 10, "stopped"), why=NO_STORE))) == ["rehearsal"]


def test_what_could_not_be_simulated_is_named_once_with_its_line() -> None:
    note = [
        row("stage.not_simulated", rank, "a.py:7", what="torch.compile", instead="it runs as it is") for rank in (0, 1)
    ]
    found = reasons(performed(*AT_END, rows=(*JOINED, *note)))
    assert found["a.py:7: torch.compile"] == "it runs as it is"
    assert len(not_checked(performed(*AT_END, rows=(*JOINED, *note)))) == 2


def test_what_was_not_observed_is_named() -> None:
    rows = (*JOINED, row("stage.hook_failed", hook="samples", why="KeyError: 'x'"), row("stage.lost", kinds={"a.b": 3}))
    found = reasons(performed(*AT_END, rows=rows, missed=("the overlay: this kernel has no namespaces",)))
    assert found["what samples observes"] == "it could not be installed: KeyError: 'x'"
    assert found["a.b"] == "more events occurred than were logged"
    assert found["the overlay"] == "this kernel has no namespaces"


def test_samples_of_ranks_that_send_each_other_parts_are_not_checked() -> None:
    passes = [one for rank in (0, 1) for one in (made(rank), *walk(rank, in_batches(range(64))))]
    twins = row("samples.twins", ranks=[0, 1], how="all_to_all")
    rows = (*JOINED, *wrapped(0, 1), *passes, twins)
    assert "all_to_all" in reasons(performed(*AT_END, rows=rows))["DC732, the samples of ranks"]
    assert "DC732, the samples of ranks" not in reasons(performed(*AT_END, rows=rows[:-1]))
