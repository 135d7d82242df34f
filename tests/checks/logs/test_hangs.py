"""Who waits where: watchdogs' lines, tracebacks and flight recorders compared. Whole logs: the folders DC5.., DC7..."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distcheck.checks.logs.diagnose import diagnose, read_timeline
from distcheck.checks.logs.hangs import collectives_end, recorders_agree
from distcheck.checks.logs.joining import every_rank_meets
from distcheck.checks.logs.model import (
    Collective,
    Dump,
    Event,
    LineAuthor,
    LogSource,
    Timeline,
    Traceback,
    WorkerFailure,
)
from distcheck.checks.logs.nccl_errors import no_collective_failed
from distcheck.core.model import Finding, Severity
from distcheck.rules.signatures import Kind

from .cases import FOLDER, expectation_of


def wait(rank: int, sequence: int, operation: str = "ALLREDUCE", elements: int = 64, line: int = 0) -> Event:
    values = {"sequence": str(sequence), "operation": operation, "numel_in": str(elements), "timeout_ms": "600000"}
    return Event(
        "watchdog-timeout", Kind.TIMEOUT, LineAuthor(rank), 0, line or 10 + rank, None, "Watchdog caught", values
    )


def standing(rank: int, enqueued: int, group: str = "") -> Event:
    values = {"enqueued": str(enqueued), "completed": str(enqueued), "group": group}
    return Event("watchdog-dump", Kind.TIMEOUT, LineAuthor(rank), 0, 30 + rank, None, "Received a dump signal", values)


def timeline(*events: Event, ranks: int | None = None, **more: object) -> Timeline:
    known = Timeline((LogSource("train.log", lines=99),), events, world_size=ranks, world_size_known=ranks is not None)
    return known._replace(**more)  # type: ignore[arg-type]


def only(found: Iterator[Finding]) -> Finding:
    (one,) = found
    return one


def told(*events: Event, ranks: int | None = None) -> tuple[str, int | None]:
    one = only(collectives_end(timeline(*events, ranks=ranks)))
    return one.code, one.where.rank


def test_nobody_waits() -> None:
    assert not list(collectives_end(timeline(ranks=4)))


@pytest.mark.parametrize(
    ("events", "ranks", "expected"),
    [
        ([wait(0, 9), wait(1, 9), wait(3, 9)], 4, ("DC511", 2)),
        ([wait(0, 9), wait(1, 9)], 2, ("DC511", None)),
        ([wait(0, 9)], 4, ("DC511", None)),
        ([wait(0, 9), wait(1, 9), wait(2, 9, "BROADCAST")], 3, ("DC517", 2)),
        ([wait(0, 9), wait(1, 9), wait(2, 9, elements=65)], 3, ("DC517", 2)),
        ([wait(0, 9, "SEND"), wait(1, 9, "RECV")], 2, ("DC511", None)),
        ([wait(0, 9, "_ALLGATHER_BASE"), wait(1, 9, "ALLTOALL_BASE", 5)], 2, ("DC511", None)),
        ([wait(0, 9), wait(1, 10), wait(2, 10)], 3, ("DC519", 0)),
        ([wait(0, 9, "BARRIER"), wait(1, 10), wait(2, 10)], 3, ("DC701", 0)),
        ([wait(0, 9), wait(2, 9), standing(1, 8)], 3, ("DC701", 1)),
        ([wait(0, 9), standing(1, 8), standing(2, 8)], 3, ("DC701", 0)),
        ([wait(0, 9), wait(2, 9), standing(1, 9)], 3, ("DC511", 1)),
        ([wait(0, 9), wait(2, 9), standing(1, 1 << 40)], 3, ("DC511", 1)),
        # one rank can't go back in one group
        ([wait(0, 962, line=1), wait(0, 959, line=2), wait(7, 640)], 8, ("DC511", None)),
        # but a watchdog repeats its first wait
        ([wait(0, 10, line=1), wait(0, 11, line=2), wait(0, 10, line=3), wait(1, 9)], 2, ("DC519", 1)),
        ([wait(0, 9, ""), wait(1, 9, "_ALLGATHER_BASE")], 2, ("DC511", None)),
    ],
)
def test_waits_compared(events: list[Event], ranks: int, expected: tuple[str, int | None]) -> None:
    assert told(*events, ranks=ranks) == expected


@pytest.mark.parametrize(
    ("operation", "code"), [("_ALLGATHER_BA[451/1919]\nn=64, NumelOut", "DC511"), ("BROADCAST, NumelIn=64", "DC517")]
)
def test_an_operation_that_a_terminal_cut_off_is_not_known(operation: str, code: str, tmp_path: Path) -> None:
    line = "[rank{}]: [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType={}, NumelOut=512)\n"
    path = tmp_path / "run.log"
    path.write_text(line.format(2, 2, operation) + line.format(0, 0, "_ALLGATHER_BASE, NumelIn=64"), "utf-8")
    found = diagnose(read_timeline([str(path)])).story
    assert found is not None and found["code"] == code


def test_what_failed_before_is_the_reason() -> None:
    failure = Event("exception", Kind.FAILURE, LineAuthor(2), 0, 3, None, "KeyError: 'labels'")
    one = only(collectives_end(timeline(failure, wait(0, 9), wait(1, 10), ranks=3)))
    assert (one.code, one.where.rank, one.evidence["role"]) == ("DC511", 2, "timeout")


@pytest.mark.parametrize(("exitcode", "failed"), [(3, True), (-15, False), (143, False)])
def test_a_rank_that_sigterm_ended_had_not_failed_before(exitcode: int, failed: bool) -> None:
    row = WorkerFailure(2, 2, None, exitcode, None, first=True)
    one = only(collectives_end(timeline(wait(0, 9), wait(1, 9), ranks=3, workers=(row,))))
    assert (one.where.rank, "rank 2 failed before" in one.message) == (2, failed)


def test_what_failed_after_is_not() -> None:
    failure = Event("exception", Kind.FAILURE, LineAuthor(2), 0, 90, None, "KeyError: 'labels'")
    assert told(wait(0, 9), wait(1, 9), failure, ranks=3) == ("DC511", 2)
    assert only(collectives_end(timeline(wait(0, 9), wait(1, 9), failure, ranks=3))).message.endswith("never came")


def test_a_job_that_went_on_is_no_error() -> None:
    one = only(collectives_end(timeline(wait(0, 9), wait(1, 10), ranks=2, went_on=True)))
    assert one.severity is Severity.INFO and one.evidence["role"] == "context"


def calls(*operations: str, group: str = "0 default_pg", sizes: str = "[20]") -> tuple[Collective, ...]:
    return tuple(
        Collective(group, number, name, sizes, "Float", "scheduled", f"train.py:{len(name)} in main")
        for number, name in enumerate(operations, 1)
    )


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([calls("all_reduce", "barrier"), calls("all_reduce", "barrier")], None),
        ([calls("all_reduce", "barrier"), calls("all_reduce")], ("DC701", 1)),
        ([calls("all_reduce", "all_reduce"), calls("all_reduce")], ("DC519", 1)),
        ([calls("all_reduce"), calls("all_reduce", sizes="[21]")], ("DC517", None)),
        ([calls("all_reduce"), calls("broadcast"), calls("broadcast")], ("DC701", 0)),
        ([calls("all_gather"), calls("all_gather", sizes="[21]")], None),
        ([calls("all_reduce"), calls("broadcast", group="1 pair")], None),
        ([calls("all_reduce")], None),
    ],
)
def test_flight_recorders_compared(
    entries: list[tuple[Collective, ...]], expected: tuple[str, int | None] | None
) -> None:
    dumps = tuple(Dump(rank, 0, calls) for rank, calls in enumerate(entries))
    found = list(recorders_agree(timeline(ranks=len(entries), dumps=dumps)))
    assert [(one.code, one.where.rank) for one in found] == ([] if expected is None else [expected])


def test_a_recorder_names_lines() -> None:
    dumps = (Dump(0, 0, calls("all_reduce", "barrier")), Dump(1, 0, calls("all_reduce")))
    message = only(recorders_agree(timeline(ranks=2, dumps=dumps))).message
    assert (
        "barrier #2" in message and "train.py:7" in message and "all_reduce #1" in message and "train.py:10" in message
    )


def missing(**values: str) -> Event:
    name = "store-key-missing" if "key" in values or "missing" in values else "clients-missing"
    return Event(name, Kind.TIMEOUT, LineAuthor(0), 0, 7, None, "wait timeout", values)


def test_the_rank_that_never_came() -> None:
    one = only(every_rank_meets(timeline(missing(missing="3"), ranks=4)))
    assert (one.code, one.where.rank) == ("DC501", 3)
    assert not list(every_rank_meets(timeline(missing(key="/none/torchelastic/agent/terminal_state/1"))))
    one = only(every_rank_meets(timeline(missing(joined="1", expected="4"))))
    assert one.where.rank is None and "1 of 4" in one.message


def known_up_to(highest: int, *events: Event, **more: object) -> Finding:
    """What is told where the size of the job is only guessed from the ranks that are seen."""
    return only(collectives_end(timeline(*events)._replace(world_size=highest + 1, **more)))  # type: ignore[arg-type]


def test_nobody_is_called_complete_without_a_known_size() -> None:
    told_of = known_up_to(1, wait(0, 9), wait(1, 9)).message
    assert "no rank is missing" not in told_of and "others may be missing" in told_of
    assert "no rank is missing" in only(collectives_end(timeline(wait(0, 9), wait(1, 9), ranks=2))).message


def test_a_gap_among_the_ranks_is_somebody() -> None:
    waits = [wait(rank, 9) for rank in range(64) if rank != 37]
    assert known_up_to(63, *waits).where.rank == 37
    few = known_up_to(3, wait(0, 9), wait(3, 9))
    assert (
        few.where.rank is None and "ranks 1-2 logged no such wait" in few.message and few.evidence["role"] == "timeout"
    )


def test_the_words_of_one_rank_accuse_nobody() -> None:
    assert known_up_to(1, wait(1, 9)).where.rank is None


def test_a_rank_that_others_were_told_by() -> None:
    values = {"enqueued": "61", "completed": "60", "from": "17"}
    one = known_up_to(
        2, Event("watchdog-dump", Kind.TIMEOUT, LineAuthor(2), 0, 5, None, "Received a dump signal", values)
    )
    assert "rank 17 saw first" in one.message and "rank 17" in one.fix.text and one.where.rank is None


def test_gloo_gets_no_advice_about_gpus() -> None:
    ended = [
        Event("gloo-timeout", Kind.TIMEOUT, LineAuthor(rank), 0, 4 + rank, None, "Timed out", {}) for rank in (0, 1)
    ]
    text = only(collectives_end(timeline(*ended, ranks=2))).fix.text
    assert "Xid" not in text and "IOMMU" not in text and "NCCL" not in text and "py-spy" in text


def test_a_class_and_a_last_error_are_of_one_rank() -> None:
    first = Event("nccl-error", Kind.FAILURE, LineAuthor(0), 0, 3, None, "ncclSystemError", {"class": "SystemError"})
    other = Traceback((), "torch.distributed.DistBackendError", "ncclRemoteError\nLast error:\nclosed by node09")
    theirs = Event("exception", Kind.FAILURE, LineAuthor(1), 0, 9, None, "DistBackendError", traceback=other)
    assert "node09" not in only(no_collective_failed(timeline(first, theirs, ranks=2))).message
    own = only(no_collective_failed(timeline(first, theirs._replace(who=LineAuthor(0)), ranks=2)))
    assert own.message.endswith("closed by node09")


def test_no_advice_to_read_a_warning_that_the_text_has(tmp_path: Path) -> None:
    told = {}
    for name in ("bad_with_a_warning", "bad_class_only"):
        _, data = expectation_of((FOLDER / "DC512" / f"{name}.log").read_bytes())
        (tmp_path / name).write_bytes(data)
        told[name] = diagnose(read_timeline([str(tmp_path / name)])).story
    assert "Call to bind failed : Cannot assign requested address" in told["bad_with_a_warning"]["why"]
    assert "NCCL_DEBUG" not in told["bad_with_a_warning"]["fix"]["text"]
    assert [line["line"] for line in told["bad_with_a_warning"]["evidence"]][:2] == [1, 2]
    assert "NCCL_DEBUG=WARN" in told["bad_class_only"]["fix"]["text"]
