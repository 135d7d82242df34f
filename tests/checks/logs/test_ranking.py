"""Which of several findings is told as the cause, on hand-made timelines."""

from __future__ import annotations

import jsonschema
import pytest

from distcheck import rules
from distcheck.checks.logs.model import (
    Event,
    LineAuthor,
    LogSource,
    RankStream,
    Timeline,
    Traceback,
    TracebackFrame,
    WorkerFailure,
    found,
)
from distcheck.checks.logs.ranking import EXPLAINS, rank_findings
from distcheck.checks.logs.summary import summarize
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.rules.signatures import Kind
from tests.reporters.test_reporters import SCHEMA

FIX = Fix("fix it")


def event(
    kind: Kind,
    line: int,
    *,
    rank: int | None = None,
    name: str = "something",
    time: float | None = None,
    attempt: int = 0,
    source: int = 0,
    traceback: Traceback | None = None,
    text: str = "",
) -> Event:
    text = text or f"text of line {line}"
    return Event(name, kind, LineAuthor(rank=rank), source, line, time, text, attempt=attempt, traceback=traceback)


def timeline(*events: Event, **more: object) -> Timeline:
    sources = (LogSource("train.log", lines=1000), LogSource("other.log", lines=1000))
    return Timeline(sources, tuple(events), **more)  # type: ignore[arg-type]


def finding(
    code: str, of: Timeline, *events: Event, role: str | None = None, severity: Severity | None = None
) -> Finding:
    return found(rules.find(code), of, events, f"{code} it is", fix=FIX, role=role, severity=severity)


def test_a_named_cause_comes_before_what_it_led_to() -> None:
    lost, taken = event(Kind.LOST, 3, rank=0), event(Kind.CAUSE, 9, rank=1)
    of = timeline(lost, event(Kind.TIMEOUT, 5, rank=2), taken)
    findings = [
        finding("DC511", of, of.events[1]),
        finding("DC518", of, lost, role="lost"),
        finding("DC401", of, taken),
    ]
    ranked = rank_findings(of, findings)
    assert (ranked.outcome, ranked.lead and ranked.lead.code, ranked.first) == ("cause", "DC401", taken)
    assert ranked.findings[0].code == "DC401"


@pytest.mark.parametrize(("cause", "consequences"), EXPLAINS.items())
def test_what_explains_another_comes_first_whatever_the_order_of_lines(
    cause: str, consequences: tuple[str, ...]
) -> None:
    for other in consequences:
        if rules.find(other).severity is Severity.INFO and Severity.ERROR not in rules.find(other).severities:
            continue
        early, late = event(Kind.CAUSE, 1, rank=0), event(Kind.CAUSE, 2, rank=1)
        of = timeline(early, late)
        loud = max(rules.find(other).severities)
        first, second = (
            finding(other, of, early, severity=loud),
            finding(cause, of, late, severity=max(rules.find(cause).severities)),
        )
        mutual = cause in EXPLAINS.get(other, ())
        ranked = rank_findings(of, [first, second])
        assert ranked.lead is not None
        assert ranked.lead.code == (other if mutual else cause)


@pytest.mark.parametrize(("line", "code"), [(4, None), (5, "DC511"), (6, "DC511")])
def test_a_peer_that_is_lost_by_the_line_of_a_time_out_did_not_die_before_it(line: int, code: str | None) -> None:
    """A time-out of gloo can say in one line that it closes the connection."""
    late = event(Kind.TIMEOUT, 5, rank=0, name="gloo-timeout")
    lost = event(Kind.LOST, line, rank=0, name="connection-lost")
    of = timeline(*((lost, late) if line < 5 else (late, lost)))
    ranked = rank_findings(of, [finding("DC511", of, late, role="timeout")])
    assert (ranked.lead and ranked.lead.code) == code


def test_two_causes_the_first_is_told() -> None:
    first, second = event(Kind.CAUSE, 4, rank=1), event(Kind.CAUSE, 8, rank=0)
    of = timeline(first, second)
    ranked = rank_findings(of, [finding("DC612", of, second), finding("DC321", of, first, severity=Severity.ERROR)])
    assert ranked.lead is not None
    assert ranked.lead.code == "DC321"


def test_of_two_causes_the_worse_is_told_whatever_the_order_of_lines() -> None:
    first, second = event(Kind.CAUSE, 4, rank=1), event(Kind.CAUSE, 8, rank=0)
    of = timeline(first, second)
    mild = finding("DC321", of, first, severity=Severity.WARNING)
    ranked = rank_findings(of, [mild, finding("DC612", of, second, severity=Severity.ERROR)])
    assert ranked.lead is not None
    assert ranked.lead.code == "DC612"


def test_the_rank_that_the_launcher_saw_fail_first_counts_more_than_the_order_of_files() -> None:
    first, second = event(Kind.CAUSE, 4, rank=0), event(Kind.CAUSE, 4, rank=3, source=1)
    of = timeline(first, second, workers=(WorkerFailure(3, 3, None, 1, None, first=True),))
    ranked = rank_findings(of, [finding("DC612", of, first), finding("DC602", of, second)])
    assert ranked.lead is not None
    assert ranked.lead.code == "DC602"


def test_an_ordinary_exception_is_no_rule_and_its_consequences_are_no_cause() -> None:
    raised, lost = event(Kind.FAILURE, 5, rank=2, name="exception"), event(Kind.LOST, 2, rank=0)
    of = timeline(lost, raised)
    ranked = rank_findings(of, [finding("DC518", of, lost, role="lost", severity=Severity.INFO)])
    assert (ranked.outcome, ranked.lead, ranked.first) == ("unnamed", None, raised)


def test_a_failure_of_the_first_start_counts_more_than_a_named_cause_of_a_later_one() -> None:
    raised = event(Kind.FAILURE, 5, rank=2, name="exception")
    taken = event(Kind.CAUSE, 50, rank=0, attempt=1)
    of = timeline(raised, taken, attempts=2)
    ranked = rank_findings(of, [finding("DC401", of, taken)])
    assert (ranked.outcome, ranked.first) == ("unnamed", raised)


def test_a_failure_of_a_later_start_displaces_no_finding_about_the_first_one() -> None:
    late, raised = event(Kind.TIMEOUT, 5, rank=0), event(Kind.FAILURE, 50, rank=2, name="exception", attempt=1)
    of = timeline(late, raised, attempts=2)
    ranked = rank_findings(of, [finding("DC511", of, late)])
    assert (ranked.outcome, ranked.first) == ("cause", late)


def test_an_exception_that_a_rule_names_is_not_unnamed() -> None:
    raised = event(Kind.FAILURE, 5, rank=2, name="exception")
    of = timeline(raised)
    ranked = rank_findings(of, [finding("DC512", of, raised)])
    assert (ranked.outcome, ranked.lead and ranked.lead.code) == ("cause", "DC512")


def test_a_lost_peer_explains_no_timeout() -> None:
    lost, late = event(Kind.LOST, 3, rank=0), event(Kind.TIMEOUT, 5, rank=1)
    of = timeline(lost, late)
    ranked = rank_findings(of, [finding("DC301", of, lost), finding("DC511", of, late)])
    assert [(item.code, item.severity) for item in ranked.findings] == [
        ("DC511", Severity.ERROR),
        ("DC301", Severity.ERROR),
    ]


def test_running_out_of_gpu_memory_is_told_though_no_rule_names_it() -> None:
    raised = event(Kind.CAUSE, 5, rank=2, name="cuda-out-of-memory")
    waited = event(Kind.TIMEOUT, 9, rank=0)
    of = timeline(raised, waited)
    ranked = rank_findings(of, [finding("DC511", of, waited)])
    assert (ranked.outcome, ranked.first) == ("unnamed", raised)
    told = summarize(of, ranked)
    assert told["guilty"] == {"rank": 2}
    assert "batch" in told["fix"]["text"]


def test_only_consequences_are_said_to_be_that() -> None:
    of = timeline(event(Kind.LOST, 2, rank=0), event(Kind.SIGNAL, 3, rank=1))
    ranked = rank_findings(of, [])
    assert (ranked.outcome, ranked.first) == ("consequences", of.events[0])


def test_what_stands_beside_is_never_the_cause() -> None:
    notice = event(Kind.NOTICE, 1)
    of = timeline(notice)
    ranked = rank_findings(of, [finding("DC516", of, notice)])
    assert (ranked.outcome, ranked.lead) == ("clean", None)
    assert [item.code for item in ranked.findings] == ["DC516"]


def test_a_job_that_went_on_has_no_failure() -> None:
    of = timeline(event(Kind.FAILURE, 2, rank=0, name="exception"), went_on=True)
    assert rank_findings(of, []).outcome == "clean"


def test_an_error_like_line_in_the_middle_is_no_failure() -> None:
    assert rank_findings(timeline(event(Kind.FAILURE, 20, name="error-line")), []).outcome == "clean"
    assert rank_findings(timeline(event(Kind.FAILURE, 990, name="error-line")), []).outcome == "unnamed"


def test_a_line_that_only_looks_like_an_error_displaces_no_finding() -> None:
    waited, looks = event(Kind.TIMEOUT, 985, rank=0), event(Kind.FAILURE, 990, rank=1, name="error-line")
    of = timeline(waited, looks)
    ranked = rank_findings(of, [finding("DC511", of, waited)])
    assert (ranked.outcome, ranked.lead and ranked.lead.code) == ("cause", "DC511")


@pytest.mark.parametrize("exitcode", [-15, 143])
def test_a_rank_that_sigterm_ended_is_not_the_first_death(exitcode: int) -> None:
    table = event(Kind.TABLE, 9, name="elastic-report")
    row = WorkerFailure(0, 0, None, exitcode, None, first=True, line=9)
    ranked = rank_findings(timeline(table, workers=(row,)), [])
    assert (ranked.outcome, ranked.first) == ("consequences", table)
    ranked = rank_findings(timeline(table, workers=(row._replace(exitcode=3),)), [])
    assert (ranked.outcome, ranked.first and ranked.first.signature) == ("unnamed", "ended")


def test_the_story_fits_the_published_schema() -> None:
    frames = (
        TracebackFrame("/workspace/train.py", 33, "main"),
        TracebackFrame("/usr/lib/python3.11/socket.py", 12, "bind"),
    )
    raised = event(Kind.CAUSE, 5, rank=2, time=1.5, traceback=Traceback(frames, "OSError", "no"))
    of = timeline(raised, event(Kind.LOST, 8, rank=0), event(Kind.LOST, 9, rank=1), world_size=4, world_size_known=True)
    ranked = rank_findings(of, [finding("DC401", of, raised)])
    told = summarize(of, ranked, every_event=True)
    jsonschema.validate(told, {"$ref": "#/$defs/story", "$defs": SCHEMA["$defs"]})
    assert told["place"] == "/workspace/train.py:33 in main"
    assert told["led_to"] == ["ranks 0-1 lost their peers (train.log:8)"]
    assert told["first"]["time"] == "1970-01-01T00:00:01.500"
    assert len(told["events"]) == 3


def test_what_the_first_start_died_of_is_no_consequence_of_a_later_one() -> None:
    first, second = event(Kind.FAILURE, 4, rank=1), event(Kind.CAUSE, 90, rank=0, attempt=1)
    of = timeline(first, second, attempts=2)
    ranked = rank_findings(of, [finding("DC401", of, second), finding("DC512", of, first)])
    assert ranked.lead is not None
    assert ranked.lead.code == "DC512"
    assert [item.severity for item in ranked.findings] == [Severity.ERROR, Severity.ERROR]


def test_a_consequence_names_its_cause() -> None:
    late, taken = event(Kind.TIMEOUT, 3, rank=0), event(Kind.CAUSE, 9, rank=1)
    of = timeline(late, taken)
    ranked = rank_findings(of, [finding("DC511", of, late), finding("DC401", of, taken)])
    assert [(each.code, each.severity, each.evidence.get("explained_by")) for each in ranked.findings] == [
        ("DC401", Severity.ERROR, None),
        ("DC511", Severity.INFO, "DC401"),
    ]


def test_a_consequence_of_what_no_rule_names_names_no_cause() -> None:
    raised, late = event(Kind.CAUSE, 3, rank=1, name="exception"), event(Kind.TIMEOUT, 5, rank=0)
    of = timeline(raised, late)
    ranked = rank_findings(of, [finding("DC511", of, late)])
    assert (ranked.outcome, ranked.first) == ("unnamed", raised)
    assert ranked.findings[0].severity is Severity.INFO
    assert "explained_by" not in ranked.findings[0].evidence


def test_a_finding_without_a_line_is_shown_with_its_file_and_rank() -> None:
    of = timeline(event(Kind.TIMEOUT, 3, rank=0))
    where = Where(path="other.log", rank=5, local_rank=1, host="node2")
    cause = rules.find("DC401").found("from a recorder", where=where, fix=FIX, evidence={"role": "cause"})
    ranked = rank_findings(of, [cause])
    assert ranked.first is not None
    assert (ranked.first.source, ranked.first.line, ranked.first.who) == (1, 0, LineAuthor(5, 1, "node2"))
    assert (ranked.first.kind, ranked.first.text) == (Kind.CAUSE, "from a recorder")


@pytest.mark.parametrize("name", ["gloo-timeout", "watchdog-timeout"])
def test_a_lost_peer_before_the_first_timeout_leaves_the_cause_unseen(name: str) -> None:
    lost = event(Kind.LOST, 3, rank=0, name="peer-lost", time=1.0)
    late = event(Kind.TIMEOUT, 5, rank=1, name=name, time=2.0)
    of = timeline(lost, late)
    ranked = rank_findings(of, [finding("DC511", of, late, role="timeout")])
    assert (ranked.outcome, ranked.lead, ranked.first) == ("consequences", None, lost)


def test_a_barrier_that_names_who_did_not_come_is_told_though_a_peer_was_lost_before() -> None:
    lost = event(Kind.LOST, 3, rank=0, name="peer-lost", time=1.0)
    late = event(Kind.TIMEOUT, 5, rank=1, name="monitored-barrier", time=2.0)
    of = timeline(lost, late)
    ranked = rank_findings(of, [finding("DC511", of, late, role="timeout")])
    assert (ranked.outcome, ranked.first) == ("cause", late)


@pytest.mark.parametrize(
    ("exitcode", "loser", "outcome", "words"),
    [
        (1, None, "unnamed", "exit code 1,"),
        (-1, None, "unnamed", "exit code -1 (SIGHUP)"),
        (-11, None, "unnamed", "exit code -11 (SIGSEGV)"),
        (139, None, "unnamed", "exit code 139 (SIGSEGV)"),
        (1, 2, "consequences", None),
        (1, 3, "unnamed", "exit code 1,"),
        (0, None, "clean", None),
        (137, None, "clean", None),
    ],
)
def test_the_first_process_that_died_by_itself(
    exitcode: int, loser: int | None, outcome: str, words: str | None
) -> None:
    row = WorkerFailure(2, 1, "node2", exitcode, None, first=True, line=9)
    lost = [] if loser is None else [event(Kind.LOST, 3, rank=loser)]
    ranked = rank_findings(timeline(*lost, workers=(row,)), [])
    assert ranked.outcome == outcome
    if words is not None:
        assert ranked.first is not None
        assert words in ranked.first.text
        assert (ranked.first.who, ranked.first.line) == (LineAuthor(2, 1, "node2"), 9)


def test_a_rank_whose_notice_is_in_the_log_lost_no_peer() -> None:
    row = WorkerFailure(2, 1, "node2", 1, None, first=True, line=9)
    assert rank_findings(timeline(event(Kind.NOTICE, 3, rank=2), workers=(row,)), []).outcome == "unnamed"


def test_of_two_causes_of_one_severity_the_earlier_line_is_told_whatever_their_codes() -> None:
    first, second = event(Kind.CAUSE, 4, rank=1), event(Kind.CAUSE, 8, rank=0)
    of = timeline(first, second)
    ranked = rank_findings(of, [finding("DC321", of, second, severity=Severity.ERROR), finding("DC612", of, first)])
    assert ranked.lead is not None
    assert ranked.lead.code == "DC612"


@pytest.mark.parametrize(
    ("unnamed", "named", "outcome"),
    [
        # one file without a clock: the lines
        ({"line": 3}, {"line": 5}, "unnamed"),
        ({"line": 5}, {"line": 3}, "cause"),
        # a clock: the times
        ({"line": 5, "time": 1.0}, {"line": 3, "time": 2.0}, "unnamed"),
        ({"line": 3, "time": 2.0}, {"line": 5, "time": 1.0}, "cause"),
        ({"line": 3, "time": 2.0}, {"line": 5, "time": 2.0}, "unnamed"),
        # two files without a common clock: no order, and what has a name is told
        ({"line": 3}, {"line": 5, "source": 1}, "cause"),
        ({"line": 3, "source": 1}, {"line": 5}, "cause"),
        ({"line": 3, "time": 1.0}, {"line": 5, "source": 1}, "cause"),
    ],
)
def test_of_a_named_and_an_unnamed_cause_the_one_that_was_surely_first_is_told(
    unnamed: dict[str, float], named: dict[str, float], outcome: str
) -> None:
    first = event(Kind.CAUSE, name="cuda-out-of-memory", rank=1, **unnamed)  # type: ignore[arg-type]
    second = event(Kind.CAUSE, rank=0, **named)  # type: ignore[arg-type]
    of = timeline(first, second)
    assert rank_findings(of, [finding("DC401", of, second)]).outcome == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("torch.distributed.DistBackendError: NCCL error", "cause"), ("ValueError: no such file", "unnamed")],
)
def test_an_exception_that_repeats_a_timeout_is_not_told_before_it(text: str, outcome: str) -> None:
    late, raised = event(Kind.TIMEOUT, 3, rank=0), event(Kind.FAILURE, 5, rank=1, name="exception", text=text)
    of = timeline(late, raised)
    assert rank_findings(of, [finding("DC511", of, late)]).outcome == outcome


def test_an_exception_is_told_before_a_timeout_that_stands_in_no_line() -> None:
    raised = event(Kind.FAILURE, 5, rank=1, name="exception")
    of = timeline(raised)
    recorded = rules.find("DC511").found("waited", where=Where(path="t"), fix=FIX, evidence={"role": "timeout"})
    assert rank_findings(of, [recorded]).first == raised


def test_a_finding_without_a_line_is_not_about_the_first_line_of_its_file() -> None:
    of = timeline(event(Kind.TIMEOUT, 1, rank=0))
    cause = rules.find("DC401").found("x", where=Where(path="train.log", rank=5), fix=FIX, evidence={"role": "cause"})
    ranked = rank_findings(of, [cause])
    assert ranked.first is not None
    assert (ranked.first.signature, ranked.first.who) == ("finding", LineAuthor(5))


@pytest.mark.parametrize(
    ("lost", "late"),
    [
        ({"source": 1}, {}),
        ({}, {"source": 1}),
        ({"time": 9.0}, {"source": 1}),
        ({"source": 1}, {"time": 1.0}),
    ],
)
def test_a_peer_lost_in_a_file_without_a_common_clock_leaves_the_cause_unseen(
    lost: dict[str, float], late: dict[str, float]
) -> None:
    first = event(Kind.LOST, 9, rank=0, name="peer-lost", **lost)  # type: ignore[arg-type]
    second = event(Kind.TIMEOUT, 5, rank=1, **late)  # type: ignore[arg-type]
    of = timeline(first, second)
    ranked = rank_findings(of, [finding("DC511", of, second, role="timeout")])
    assert (ranked.outcome, ranked.lead) == ("consequences", None)


def test_a_peer_lost_after_the_timeout_was_lost_by_it() -> None:
    lost, late = event(Kind.LOST, 3, rank=0, name="peer-lost", time=9.0), event(Kind.TIMEOUT, 5, rank=1, time=2.0)
    of = timeline(late, lost._replace(source=1))
    ranked = rank_findings(of, [finding("DC511", of, late, role="timeout")])
    assert (ranked.outcome, ranked.lead and ranked.lead.code) == ("cause", "DC511")


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ({"line": 100}, "unnamed"),
        ({"line": 41}, "unnamed"),
        ({"line": 40}, "cause"),
        ({"line": 101}, "cause"),
        ({"line": 100, "source": 1}, "cause"),
        ({"line": 100, "first": False}, "cause"),
    ],
)
def test_an_exception_whose_end_is_cut_off_counts_only_in_the_row_of_the_first_failure(
    row: dict[str, int], outcome: str
) -> None:
    late = event(Kind.TIMEOUT, 3, rank=0)
    cut = event(Kind.FAILURE, 100, rank=1, name="exception", traceback=Traceback((), "", ""))
    worker = WorkerFailure(
        **{"rank": 1, "local_rank": 1, "host": None, "exitcode": 1, "time": None, "first": True, **row}
    )  # type: ignore[arg-type]
    of = timeline(late, cut, workers=(worker,))
    assert rank_findings(of, [finding("DC511", of, late)]).outcome == outcome


def test_an_exception_in_another_file_is_not_in_the_row_of_the_first_failure() -> None:
    late = event(Kind.TIMEOUT, 3, rank=0)
    cut = event(Kind.FAILURE, 100, rank=1, name="exception", source=1, traceback=Traceback((), "", ""))
    worker = WorkerFailure(1, 1, None, 1, None, first=True, line=99, source=0)
    of = timeline(late, cut, workers=(worker,))
    assert rank_findings(of, [finding("DC511", of, late)]).outcome == "cause"


@pytest.mark.parametrize(("attempt", "code"), [(0, None), (1, "DC511")])
def test_a_peer_that_is_lost_in_a_later_attempt_did_not_die_before(attempt: int, code: str | None) -> None:
    late = event(Kind.TIMEOUT, 5, rank=0, name="gloo-timeout")
    lost = event(Kind.LOST, 3, rank=1, name="connection-lost", attempt=attempt, source=1)
    of = timeline(late, lost)
    ranked = rank_findings(of, [finding("DC511", of, late, role="timeout")])
    assert (ranked.lead and ranked.lead.code) == code


@pytest.mark.parametrize(("attempt", "outcome"), [(0, "unnamed"), (1, "consequences")])
def test_a_rank_that_lost_a_peer_in_an_earlier_attempt_died_by_itself(attempt: int, outcome: str) -> None:
    lost = event(Kind.LOST, 3, rank=2, name="peer-lost", attempt=attempt)
    row = WorkerFailure(2, 2, None, 139, None, first=True, line=9, attempt=1)
    assert rank_findings(timeline(lost, workers=(row,)), []).outcome == outcome


@pytest.mark.parametrize(("time", "outcome"), [(4.0, "unnamed"), (6.0, "cause"), (None, "unnamed")])
def test_an_exception_of_the_script_after_a_time_out_by_the_clock_is_no_cause(time: float | None, outcome: str) -> None:
    late = event(Kind.TIMEOUT, 5, rank=0, time=5.0)
    raised = event(Kind.FAILURE, 9, rank=1, name="exception", time=time, traceback=Traceback((), "ValueError", "no"))
    of = timeline(late, raised)
    assert rank_findings(of, [finding("DC511", of, late, role="timeout")]).outcome == outcome


def test_where_only_consequences_are_seen_no_finding_is_an_error() -> None:
    lost, notice = event(Kind.LOST, 3, rank=0, name="peer-lost", time=1.0), event(Kind.NOTICE, 4)
    late = event(Kind.TIMEOUT, 5, rank=1, time=2.0)
    of = timeline(lost, notice, late)
    beside = finding("DC516", of, notice, severity=Severity.WARNING)
    ranked = rank_findings(of, [finding("DC511", of, late), beside])
    assert ranked.outcome == "consequences"
    assert [(item.code, item.severity) for item in ranked.findings] == [
        ("DC511", Severity.INFO),
        ("DC516", Severity.WARNING),
    ]


@pytest.mark.parametrize(
    ("exitcode", "spoke", "outcome"),
    [
        (1, False, "consequences"),
        (127, False, "consequences"),
        (1, True, "unnamed"),
        (128, False, "unnamed"),
        (139, False, "unnamed"),
        (-11, False, "unnamed"),
    ],
)
def test_a_rank_whose_words_are_in_another_file_is_not_said_to_have_died_without_any(
    exitcode: int, spoke: bool, outcome: str
) -> None:
    row = WorkerFailure(2, 2, None, exitcode, None, first=True, line=9)
    lost = event(Kind.LOST, 3, rank=0, name="peer-lost")
    of = timeline(lost, workers=(row,), rank_streams=(RankStream(LineAuthor(2), 0, 1, 2),) if spoke else ())
    assert rank_findings(of, []).outcome == outcome


@pytest.mark.parametrize(("row", "line", "expected"), [(7.0, 5.0, 7.0), (None, 5.0, 5.0), (None, None, None)])
def test_a_silent_death_has_the_time_of_its_row_or_else_of_its_line(
    row: float | None, line: float | None, expected: float | None
) -> None:
    table = event(Kind.TABLE, 9, name="elastic-report", time=line)
    ranked = rank_findings(timeline(table, workers=(WorkerFailure(2, 2, None, 1, row, first=True, line=9),)), [])
    assert ranked.first is not None
    assert (ranked.first.signature, ranked.first.time) == ("ended", expected)
