"""The scripts of examples/training are silent under `lint`, `watch` and `rehearse`; each planted fault is found where it is."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from distcheck import rules

from .faults import EXAMPLES, FAULTS, Fault, source_of

ROOT = Path(__file__).parents[3]
#: Ranks share the cores of whatever machine this is; importing torch alone takes seconds for each.
LIMIT_S = 280
#: What the script is given so that its two epochs are few steps.
SHORT = ("--batch-size", "32")
NAMES = ("ddp", "fsdp", "spawn", "accelerated", "trainer")

needs_accelerate = pytest.mark.skipif(
    importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed"
)
torch_examples = [
    pytest.param(name, marks=[needs_accelerate] if name == "accelerated" else [], id=name) for name in NAMES
]


class Rehearsed(NamedTuple):
    status: int
    report: dict[str, Any]
    output: str

    def above_info(self) -> list[dict[str, Any]]:
        return [finding for finding in self.report["findings"] if finding["severity"] != "info"]


def rehearse(folder: Path, example: str, source: str, arguments: tuple[str, ...], nnodes: int) -> Rehearsed:
    """Rehearse a script as a user would, on nodes of two ranks and two GPUs each."""
    (folder / f"{example}.py").write_text(source, encoding="utf-8")
    own = ("--nnodes", str(nnodes)) if example == "spawn" else ()
    command = [
        sys.executable, "-m", "distcheck", "rehearse", "--nnodes", str(nnodes), "--nproc-per-node", "2", "--steps", "30",
        "--output-format", "json", "-o", "report.json", f"{example}.py", *arguments, *own,
    ]  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    output = ran.stdout + ran.stderr
    assert (folder / "report.json").exists(), output
    return Rehearsed(ran.returncode, json.loads((folder / "report.json").read_text(encoding="utf-8")), output)


def lint(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "distcheck", "lint", "--isolated", "--no-cache", *names]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_examples_are_silent_under_lint() -> None:
    ran = lint(EXAMPLES, ".")
    assert ran.returncode == 0, ran.stdout
    assert "0 errors, 0 warnings, 0 info" in ran.stdout + ran.stderr


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_one_edit_of_an_example(fault: Fault) -> None:
    compile(fault.source(), fault.example, "exec")
    assert fault.number() > 0
    assert fault.source() != source_of(fault.example)


def test_each_rule_of_rehearsals_has_a_fault() -> None:
    rehearsed = {rule.code for rule in rules.ALL if "rehearse" in rule.ways and not rule.code.startswith("DC9")}
    assert rehearsed == {fault.code for fault in FAULTS}


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("example", torch_examples)
@pytest.mark.sampled(every=5)
def test_a_right_script_is_silent_under_rehearse(tmp_path: Path, example: str) -> None:
    rehearsed = rehearse(tmp_path, example, source_of(example), SHORT, nnodes=2)
    assert rehearsed.above_info() == [], rehearsed.output
    assert rehearsed.status == 0, rehearsed.output
    # what it would have written was not written
    assert {path.name for path in tmp_path.iterdir()} == {f"{example}.py", "report.json"}


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("example", torch_examples)
@pytest.mark.sampled(every=5)
def test_a_right_script_is_as_it_is_under_watch(tmp_path: Path, example: str) -> None:
    (tmp_path / f"{example}.py").write_text(source_of(example), encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2"] if example != "spawn" else []
    command = [sys.executable, *launcher, "-m", "distcheck.watch", "--hang-timeout", "5", "-q", f"{example}.py"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "epoch 1: " in ran.stdout
    assert not [line for line in ran.stderr.splitlines() if line.startswith("distcheck")], ran.stderr
    assert (tmp_path / "checkpoints").is_dir()


def planted(*sizes: int) -> list[Any]:
    """Every fault on two nodes, and a few, one of each kind of evidence, on four."""
    on_four = {"DC201-ddp", "DC519-ddp", "DC701-trainer", "DC750-ddp"}
    return [
        pytest.param(
            fault,
            nnodes,
            id=f"{fault.name}-{nnodes}x2",
            marks=[needs_accelerate] if fault.example == "accelerated" else [],
        )
        for nnodes in sizes
        for fault in FAULTS
        if nnodes == 2 or fault.name in on_four
    ]


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("fault", "nnodes"), planted(2, 4))
@pytest.mark.sampled(every=16)
def test_a_planted_fault_is_found(tmp_path: Path, fault: Fault, nnodes: int) -> None:
    rehearsed = rehearse(tmp_path, fault.example, fault.source(), fault.arguments, nnodes)
    told = [finding for finding in rehearsed.report["findings"] if finding["code"] == fault.code]
    # as one text, which pytest prints whole
    assert told, json.dumps({name: rehearsed.report[name] for name in ("findings", "not_checked", "summary")})
    assert [finding["severity"] for finding in told] in [[level] for level in fault.severity.split("/")], (
        rehearsed.output
    )
    where = told[0]["where"]
    assert (where["path"], where["line"]) == (f"{fault.example}.py", fault.number()), rehearsed.output
    expected = fault.expected_ranks(nnodes, 2)
    if expected:
        assert ranks_of(where) == list(expected), rehearsed.output
    others = {finding["code"] for finding in rehearsed.above_info()} - {fault.code}
    assert others <= fault.follows, rehearsed.output
    raised = any(end["how"] == "raised" for end in rehearsed.report["subject"]["ends"])
    if told[0]["severity"] == "error":
        assert rehearsed.status == 1, rehearsed.output
    else:
        assert (rehearsed.status != 0) == raised, rehearsed.output


def ranks_of(where: dict[str, Any]) -> list[int]:
    """The ranks of a place, as numbers."""
    if "rank" in where:
        return [where["rank"]]
    found: list[int] = []
    for part in str(where.get("ranks", "")).split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
