"""What is made of a rehearsal that is over: findings, what lint says of them, what the failure of a rank means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distcheck import rules
from distcheck.cli import rehearse_report
from distcheck.cli.rehearse_report import report_of
from distcheck.core.configuration import Configuration
from distcheck.core.model import Finding, Fix, Report, Severity, Where
from distcheck.reporters import FORMATS, render
from distcheck.rules import Selection
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.coordination.model import CallMismatch, CollectiveCall, Frame, Position, Positions
from distcheck.runtime.rehearsal.simulation.cli_args import ParsedCommand
from distcheck.runtime.rehearsal.simulation.launcher import ENDED, HUNG, TIME, RehearsalResult
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2, seconds=60.0)
SAVES = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.Linear(2, 2)
torch.save(
    model.state_dict(),
    "model.pt",
)
"""
RAISED = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SAVES)
    return tmp_path


def result(*ends: End, why: str = ENDED, verdict: Positions | None = None, **more: Any) -> RehearsalResult:
    given = ends or (End(0, 10, "steps", 0, 3), End(1, 11, "steps", 0, 3))
    return RehearsalResult(
        Rehearsal(PLAN, given), why, verdict, more.get("outputs", {}), (), more.get("written", ""), 5.0
    )


def reported(done: RehearsalResult, selection: Selection = Selection()) -> Report:
    return report_of(ParsedCommand(PLAN, left_out=(("numbers", "nobody knows"),)), done, selection, Configuration())


def saved(line: int, code: str = "DC720") -> Finding:
    rule = rules.known()[code]
    return rule.found(
        "two ranks write it", fix=Fix("let one", where="code"), where=Where("train.py", line, ranks="0-1")
    )


def heard(finding: Finding) -> tuple[list[Finding], int]:
    linted = rehearse_report._lint(ParsedCommand(PLAN), [finding], Configuration())
    return rehearse_report._apply_comments([finding], linted)


# what lint says


@pytest.mark.parametrize("line", [6, 7, 9])
def test_what_lint_reads_in_the_same_statement_is_confirmed(line: int, folder: Path) -> None:
    (found,), others = heard(saved(line))
    assert found.message == "two ranks write it; lint also reports it: confirmed in rehearsal"
    assert found.evidence["confirmed_in_rehearsal"] is True
    _, all_of_it = heard(saved(line, "DC732"))
    assert others == all_of_it - 1


@pytest.mark.parametrize("finding", [(5, "DC720"), (6, "DC732")])
def test_what_lint_reads_elsewhere_or_of_another_rule_confirms_nothing(finding: tuple[int, str], folder: Path) -> None:
    (found,), _ = heard(saved(*finding))
    assert found.message == "two ranks write it"
    assert "confirmed_in_rehearsal" not in found.evidence


def test_a_comment_silences_what_was_rehearsed_too(folder: Path) -> None:
    (folder / "train.py").write_text(SAVES.replace('"model.pt",\n)', '"model.pt",\n)  # noqa: DC720'))
    assert heard(saved(9))[0] == []
    assert len(heard(saved(9, "DC732"))[0]) == 1


def test_how_much_more_lint_has_is_said_with_what_to_type(folder: Path) -> None:
    closing = reported(result()).subject["closing"]
    assert [line for line in closing if line.startswith("lint, which only reads, has ")]
    assert any(line.endswith("distcheck lint train.py") for line in closing)


def test_a_module_is_read_where_it_lies(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__main__.py").write_text(SAVES)
    plan = PLAN._replace(target="package", module=True)
    linted = rehearse_report._lint(ParsedCommand(plan), [], Configuration())
    assert linted is not None
    assert list(linted.files) == ["package/__main__.py"]
    assert rehearse_report._lint(ParsedCommand(plan._replace(target="json.tool")), [], Configuration()) is None


# failures


def test_a_failure_that_no_rule_explains_is_the_scripts_own(folder: Path) -> None:
    ends = (End(0, 10, "steps", 0, 3), End(1, 11, "raised", 1, 0, "ValueError: no", "train.py:5", "main"))
    report = reported(result(*ends, outputs={1: ("", "Traceback (most recent call last):\nValueError: no\n")}))
    assert report.subject["failed"] == "the script itself failed, and no rule knows why"
    assert report.subject["closing"][0].startswith("rank 1 raised ValueError: no at train.py:5")
    assert "  | ValueError: no" in report.subject["closing"]
    assert not report.at_least(Severity.ERROR)


def test_what_can_not_be_simulated_is_no_fault_of_the_script(folder: Path) -> None:
    detail = "distcheck.runtime.rehearsal.fake_cuda.limits.CannotSimulateError: triton can't be rehearsed without a GPU"
    ends = tuple(End(rank, 10, "raised", 1, 0, detail, "train.py:5", "main") for rank in range(2))
    report = reported(result(*ends))
    assert report.subject["failed"].startswith("the script needs what only a real GPU has")
    assert any(detail in item.why for item in report.not_checked)


def test_a_torch_that_can_not_be_patched_is_no_fault_of_the_script(folder: Path) -> None:
    detail = (
        "distcheck.runtime.rehearsal.fake_cuda.limits.CannotSimulateError: GPUs can't be simulated with torch 2.3.1"
    )
    report = reported(result(End(0, 10, "raised", 1, 0, detail, "train.py:5", "main")))
    assert report.subject["failed"].startswith("GPUs can't be simulated with this torch; --gpus-per-node 0")


def test_a_failure_that_a_rule_explains_is_a_finding_at_its_line(folder: Path) -> None:
    ends = (End(0, 10, "steps", 0, 3), End(1, 11, "raised", 1, 0, RAISED, "train.py:5", "main"))
    report = reported(result(*ends, outputs={1: ("", f"Traceback (most recent call last):\n{RAISED}\n")}))
    (found,) = report.at_least(Severity.ERROR)
    assert (found.where.path, found.where.line, found.where.rank) == ("train.py", 5, 1)
    assert found.evidence["source"] == "model = torch.nn.Linear(2, 2)"
    assert report.subject["failed"] == ""


@pytest.mark.parametrize(("visible", "told"), [(2, []), (1, ["DC301"])])
def test_gpus_are_too_few_only_if_a_rank_sees_fewer_than_its_node_has_ranks(
    visible: int, told: list[str], folder: Path
) -> None:
    text = "RuntimeError: CUDA error: invalid device ordinal"
    done = result(
        End(0, 10, "steps", 0, 3),
        End(1, 11, "raised", 1, 0, text, "train.py:5", "main"),
        outputs={1: ("", f"Traceback (most recent call last):\n{text}\n")},
    )
    row = LoggedEvent("devices.refused", 1, 11, 1.0, 0, "train.py:5", data={"index": 6, "visible": visible})
    report = reported(done._replace(rehearsal=done.rehearsal._replace(rows=(row,))))
    assert [one.code for one in report.at_least(Severity.ERROR)] == told


@pytest.mark.parametrize(("dtype", "code"), [("bfloat16", "DC709"), ("float32", "DC517")])
def test_what_the_transport_prints_of_messages_that_differ_is_no_finding_of_its_own(
    dtype: str, code: str, folder: Path
) -> None:
    text = (
        "what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 4096 vs 2048. "
        "Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?"
    )
    done = result(
        End(0, 10, "steps", 0, 3), End(1, 11, "killed", -6, 0, "SIGABRT", "", ""), outputs={1: ("", f"{text}\n")}
    )
    sides = ((0, "send", "isend", 1, "float32"), (1, "recv", "irecv", 0, dtype))
    rows = tuple(
        LoggedEvent(
            "messages.pair", rank, 10 + rank, 1.0, 0, "train.py:5",
            data={"direction": direction, "operation": operation, "peer": peer, "size": (2, 16), "dtype": of,
                  "group": "0", "life": 0, "tag": 0, "nth": 0},
        )
        for rank, direction, operation, peer, of in sides
    )  # fmt: skip
    report = reported(done._replace(rehearsal=done.rehearsal._replace(rows=rows)))
    assert [one.code for one in report.at_least(Severity.ERROR)] == [code]


GUARDED = """\
import torch.distributed as dist
import torch.multiprocessing as mp


def is_main():
    return dist.get_rank() == 0


def worker(rank):
    dist.init_process_group("gloo")
    if is_main:
        open("lock", "x")
    other = open("other", "x")


mp.spawn(worker, nprocs=2)
"""


@pytest.mark.parametrize(
    ("line", "code"), [(16, "DC745"), (12, "DC222"), (13, None)], ids=["the statement", "the test around it", "neither"]
)
def test_what_lint_reads_where_a_rank_raised_explains_it(line: int, code: str | None, folder: Path) -> None:
    (folder / "train.py").write_text(GUARDED)
    ends = (End(0, 10, "raised", 1, detail="OSError: no", place=f"train.py:{line}"), End(1, 11, "finished"))
    found = [one for one in reported(result(*ends)).findings if "raised OSError" in one.message]
    assert [one.code for one in found] == ([] if code is None else [code])
    assert all(one.where.ranks == "0" for one in found)


LACKING = """\
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        folder = "runs/1"
    print(folder)


main()
"""


@pytest.mark.parametrize(
    ("line", "detail", "known"),
    [
        (8, "UnboundLocalError: cannot access local variable 'folder'", True), (8, "OSError: no space left", False),
        (5, "UnboundLocalError: cannot access local variable 'folder'", False),
    ],
    ids=["the name", "another exception", "another line"],
)  # fmt: skip
def test_a_name_that_a_rank_lacks_explains_what_it_raised(line: int, detail: str, known: bool, folder: Path) -> None:
    (folder / "train.py").write_text(LACKING)
    ends = (End(0, 10, "finished"), End(1, 11, "raised", 1, detail=detail, place=f"train.py:{line}"))
    found = [one.code for one in reported(result(*ends)).findings if "raised" in one.message]
    assert found == ["DC708"] * known


def test_the_outputs_of_ranks_that_end_well_mean_nothing(folder: Path) -> None:
    report = reported(result(outputs={0: ("", RAISED), 1: ("", RAISED)}))
    assert not report.at_least(Severity.WARNING)


def verdict(state: str, detail: str = "") -> Positions:
    call = CollectiveCall(1, "barrier", place="train.py:9", function="main")
    own = (Frame("train.py", 5, "main", own=True),)
    return Positions(
        (
            Position(0, "node 0", 10, "waiting", call, 0, 9.0, (Frame("train.py", 9, "main", own=True),)),
            Position(1, "node 0", 11, state, None, 0, 9.0, own, 0 if state == "left" else 1, detail),
        ),
        2, hang_timeout_s=5.0, groups={"0": (0, 1)},
    )  # fmt: skip


def test_a_hang_is_told_with_the_stacks_of_all(folder: Path) -> None:
    ends = (End(0, 10, "stopped"), End(1, 11, "finished", 0))
    report = reported(result(*ends, why=HUNG, verdict=verdict("left")))
    assert [one.code for one in report.at_least(Severity.ERROR)] in (["DC702"], ["DC519"])
    (job,) = report.subject["jobs"]
    assert [rank["rank"] for rank in job["ranks"]] == [0, 1]
    assert job["seen"] == "no progress for 5 s"


def test_whoever_only_waits_for_a_rank_whose_failure_is_explained_is_not_told(folder: Path) -> None:
    ends = (End(0, 10, "stopped"), End(1, 11, "raised", 1, 0, RAISED, "train.py:5", "main"))
    outputs = {1: ("", f"Traceback (most recent call last):\n{RAISED}\n")}
    report = reported(result(*ends, why=HUNG, verdict=verdict("raised", RAISED), outputs=outputs))
    assert [one.where.line for one in report.at_least(Severity.ERROR)] == [5]
    assert "jobs" not in report.subject
    # where it is not, that others wait is all that is known
    ends = (End(0, 10, "stopped"), End(1, 11, "raised", 1, 0, "ValueError: no", "train.py:5", "main"))
    report = reported(result(*ends, why=HUNG, verdict=verdict("raised", "ValueError: no")))
    assert [one.where.line for one in report.at_least(Severity.ERROR)] == [9]


def uneven(batches: dict[str, int]) -> Finding:
    return rules.DC519.found(
        "ranks have different numbers of batches", fix=Fix("drop the rest", where="code"),
        where=Where("train.py", 5), evidence={"batches": batches},
    )  # fmt: skip


def crossed() -> Finding:
    evidence = {"group": "0", "number": 16, "calls": ["rank 0: broadcast", "rank 1: barrier"]}
    return rules.DC517.found("they differ", fix=Fix("fix", where="code"), where=Where("train.py", 9), evidence=evidence)


def waiting() -> Finding:
    evidence = {"waiting": "0", "missing": "1", "call": "barrier"}
    return rules.DC511.found("0 waits", fix=Fix("fix", where="code"), where=Where("train.py", 9), evidence=evidence)


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ({"0": 4, "1": 3}, ["DC519"]),
        # who waits has fewer
        ({"0": 3, "1": 4}, ["DC519", "DC511"]),
        # nobody knows of rank 1
        ({"0": 4, "2": 3}, ["DC519", "DC517", "DC511"]),
        ({"0": 4, "1": 4, "2": 3}, ["DC519", "DC517", "DC511"]),
    ],
)
def test_what_uneven_data_has_led_to_is_not_told_beside_it(batches: dict[str, int], told: list[str]) -> None:
    calls = (((0,), CollectiveCall(16, "broadcast")), ((1,), CollectiveCall(16, "barrier")))
    done = result(verdict=Positions((), 2, mismatches=(CallMismatch("0", 16, calls),)))
    found = rehearse_report._without_consequences([uneven(batches), crossed(), waiting()], [], done)
    assert [one.code for one in found] == told


# the rest


def test_time_that_was_up_before_the_first_step_is_a_failure(folder: Path) -> None:
    stopped = [End(rank, 10, "stopped", 0, 0) for rank in range(2)]
    assert reported(result(*stopped, why=TIME)).subject["failed"].startswith("time was up before the first step")
    assert reported(result(*(end._replace(steps=1) for end in stopped), why=TIME)).subject["failed"] == ""


def test_what_was_rehearsed_stands_in_the_first_line(folder: Path) -> None:
    report = reported(result(written="would have written 1 file (model.pt); nothing of it was kept"))
    assert report.subject["line"] == ["train.py", "1 node x 2 ranks (torchrun)", "3 steps", "5 s"]
    text = render(report, "full")
    assert text.startswith("distcheck rehearse · train.py · 1 node x 2 ranks (torchrun) · 3 steps · 5 s\n")
    assert "\nthe script would have written 1 file (model.pt); nothing of it was kept\n" in text
    assert "numbers: nobody knows" in text


def test_rules_that_are_not_selected_keep_silent(folder: Path) -> None:
    ends = (End(0, 10, "stopped"), End(1, 11, "finished", 0))
    done = result(*ends, why=HUNG, verdict=verdict("left"))
    assert not reported(done, Selection(("DC201",))).findings


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_tells_a_hang_with_its_line(name: str, folder: Path) -> None:
    ends = (End(0, 10, "stopped"), End(1, 11, "finished", 0))
    report = reported(result(*ends, why=HUNG, verdict=verdict("left")))._replace(facts={})
    text = render(report, name)
    (code,) = [one.code for one in report.at_least(Severity.ERROR)]
    assert code in text
    # which counts, and tells no places
    assert "train.py" in text or name == "prometheus"
