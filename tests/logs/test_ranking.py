"""Which of several findings is told as the cause, on hand-made timelines."""

from __future__ import annotations

import jsonschema
import pytest

from distcheck import rules
from distcheck.logs.model import Event, Frame, Source, Timeline, Traceback, Who, WorkerFailure, found
from distcheck.logs.ranking import EXPLAINS, rank_findings
from distcheck.logs.story import tell
from distcheck.model import Finding, Fix, Severity, Where
from distcheck.rules.signatures import Kind
from tests.reporters.test_reporters import SCHEMA

FIX = Fix("mend it")


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
) -> Event:
    return Event(
        name, kind, Who(rank=rank), source, line, time, f"text of line {line}", attempt=attempt, traceback=traceback
    )


def timeline(*events: Event, **more: object) -> Timeline:
    sources = (Source("train.log", lines=1000), Source("other.log", lines=1000))
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


def test_running_out_of_gpu_memory_is_told_though_no_rule_names_it() -> None:
    raised = event(Kind.CAUSE, 5, rank=2, name="cuda-out-of-memory")
    waited = event(Kind.TIMEOUT, 9, rank=0)
    of = timeline(raised, waited)
    ranked = rank_findings(of, [finding("DC511", of, waited)])
    assert (ranked.outcome, ranked.first) == ("unnamed", raised)
    told = tell(of, ranked)
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
    frames = (Frame("/workspace/train.py", 33, "main"), Frame("/usr/lib/python3.11/socket.py", 12, "bind"))
    raised = event(Kind.CAUSE, 5, rank=2, time=1.5, traceback=Traceback(frames, "OSError", "no"))
    of = timeline(raised, event(Kind.LOST, 8, rank=0), event(Kind.LOST, 9, rank=1), world_size=4, world_size_known=True)
    ranked = rank_findings(of, [finding("DC401", of, raised)])
    told = tell(of, ranked, every_event=True)
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
    assert (ranked.first.source, ranked.first.line, ranked.first.who) == (1, 0, Who(5, 1, "node2"))
    assert (ranked.first.kind, ranked.first.text) == (Kind.CAUSE, "from a recorder")


def test_a_lost_peer_before_the_first_timeout_leaves_the_cause_unseen() -> None:
    lost, late = event(Kind.LOST, 3, rank=0, name="peer-lost", time=1.0), event(Kind.TIMEOUT, 5, rank=1, time=2.0)
    of = timeline(lost, late)
    ranked = rank_findings(of, [finding("DC511", of, late, role="timeout")])
    assert (ranked.outcome, ranked.lead, ranked.first) == ("consequences", None, lost)


@pytest.mark.parametrize(
    ("exitcode", "loser", "outcome", "words"),
    [
        (1, None, "unnamed", "exit code 1,"),
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
        assert (ranked.first.who, ranked.first.line) == (Who(2, 1, "node2"), 9)
