"""How jobs are ended by others: signals, schedulers, restarts, lost peers. Whole logs: the folders DC117, DC518 …"""

from __future__ import annotations

import pytest

from distcheck.checks.logs.job_end import (
    first_attempt_is_seen,
    launcher_outlives_its_terminal,
    scheduler_lets_it_run,
    the_cause_is_in_the_log,
)
from distcheck.checks.logs.model import Event, LineAuthor, LogSource, Timeline, WorkerFailure
from distcheck.core.model import Severity
from distcheck.rules.signatures import Kind

FAILURE = Event("exception", Kind.FAILURE, LineAuthor(1), 0, 1, None, "KeyError: 'labels'")
STOPPED = Event("told-to-stop", Kind.SIGNAL, LineAuthor(), 0, 5, None, "Received 15 death signal")
HANGUP = Event("hangup", Kind.CAUSE, LineAuthor(), 0, 5, None, "Received 1 death signal")
LOST = Event("peer-lost", Kind.LOST, LineAuthor(0), 0, 6, None, "closed by peer", {"host": "10.0.0.5", "port": "40112"})
TABLE = Event("elastic-report", Kind.TABLE, LineAuthor(), 0, 9, None, "ChildFailedError:")


def timeline(*events: Event, **more: object) -> Timeline:
    return Timeline((LogSource("train.log", lines=20),), events)._replace(**more)  # type: ignore[arg-type]


def test_a_hangup_is_told_unless_something_failed_before() -> None:
    (one,) = launcher_outlives_its_terminal(timeline(HANGUP))
    assert one.severity is Severity.ERROR and "setsid" in one.fix.text
    assert not list(launcher_outlives_its_terminal(timeline(FAILURE, HANGUP)))


def test_an_order_from_outside_is_the_cause_where_nothing_else_is() -> None:
    assert [one.code for one in scheduler_lets_it_run(timeline(STOPPED, TABLE))] == ["DC125"]
    step = Event("step-cancelled", Kind.SIGNAL, LineAuthor(), 0, 4, None, "*** STEP")
    stop = Event("interrupted", Kind.FAILURE, LineAuthor(), 0, 9, None, "KeyboardInterrupt")
    for other in (FAILURE, LOST, step, stop):
        assert not list(scheduler_lets_it_run(timeline(other, STOPPED)))
    assert not list(scheduler_lets_it_run(timeline(STOPPED, went_on=True)))


def test_restarts_are_counted() -> None:
    (one,) = first_attempt_is_seen(timeline(FAILURE, FAILURE._replace(attempt=2), attempts=3))
    assert "2 times" in one.message and one.severity is Severity.INFO
    assert not list(first_attempt_is_seen(timeline(FAILURE)))


def test_a_lost_peer_is_named() -> None:
    (one,) = the_cause_is_in_the_log(timeline(LOST, TABLE, world_size=2, world_size_known=True))
    assert "10.0.0.5:40112" in one.message and "ranks 0-1 wrote nothing" in one.message
    own = LOST._replace(values={"host": "127.0.0.1", "port": "1"})
    (one,) = the_cause_is_in_the_log(timeline(own))
    assert "127.0.0.1" not in one.message


@pytest.mark.parametrize(
    "known",
    [
        timeline(FAILURE, LOST),
        timeline(LOST, went_on=True),
        timeline(),
        timeline(TABLE, workers=(WorkerFailure(1, 1, None, -9, None),)),
    ],
)
def test_it_is_silent_where_more_is_known(known: Timeline) -> None:
    assert not list(the_cause_is_in_the_log(known))


def test_whose_log_to_fetch_is_the_lost_ones_never_the_writers() -> None:
    lost = [
        LOST._replace(who=LineAuthor(rank), values={"peer": "0", "host": "node03", "port": "51422"}) for rank in (1, 2)
    ]
    table = (WorkerFailure(2, 2, None, 1, None, first=True), WorkerFailure(1, 1, None, 1, None))
    (one,) = the_cause_is_in_the_log(timeline(*lost, TABLE, workers=table))
    assert "log of rank 0 and of the process at node03:51422" in one.fix.text and "1-2" not in one.fix.text
    assert one.message.startswith("ranks 1-2 lost")
    (one,) = the_cause_is_in_the_log(timeline(TABLE, workers=table))
    assert "log of ranks 1-2, which the launcher reports as failed" in one.fix.text
    ended = tuple(row._replace(exitcode=143) for row in table[1:])
    (one,) = the_cause_is_in_the_log(timeline(TABLE, workers=(table[0], *ended)))
    assert "log of rank 2, which the launcher reports as failed" in one.fix.text
    # launchers that name the first without its status; an error file without one is of any worker
    unknown = (table[0]._replace(exitcode=None), table[1]._replace(exitcode=None))
    (one,) = the_cause_is_in_the_log(timeline(TABLE, workers=unknown))
    assert "log of rank 2, which the launcher reports as failed" in one.fix.text
