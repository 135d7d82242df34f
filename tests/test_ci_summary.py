"""What `.ci/run` prints at its end: nothing that failed or was flaky is hidden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import ci_summary

OUTPUT = """\
.R..F
=========================== rerun test summary info ============================
RERUN tests/test_a.py::test_sometimes[x y]
tmp_path = ...
    def test_sometimes(tmp_path):
>       assert 0
PASSED tests/test_a.py::test_sometimes[x y]
RERUN tests/test_a.py::test_never
FAILED tests/test_a.py::test_never
============================= slowest 20 durations =============================
12.50s call     tests/test_a.py::test_never
3.25s setup    tests/test_b.py::test_b
=========================== short test summary info ============================
FAILED tests/test_a.py::test_never - assert 0
============ 1 failed, 3 passed, 2 skipped, 2 rerun in 75.87s (0:01:15) ============
"""


def step(output: str = "", retcode: int = 0, elapsed: float = 1.0) -> dict[str, Any]:
    return {"command": ["python", "-m", "pytest"], "output": output, "err": "", "retcode": retcode, "elapsed": elapsed}


def environment(*test: dict[str, Any], setup: dict[str, Any] | None = None, skipped: bool = False) -> dict[str, Any]:
    return {"setup": [setup or step(elapsed=8.0)], "test": list(test), "result": {"skipped": skipped}}


def written(folder: Path, **environments: dict[str, Any]) -> str:
    path = folder / "result.json"
    path.write_text(json.dumps({"testenvs": environments}))
    return str(path)


def test_a_failed_run_ends_with_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = environment(step(OUTPUT, retcode=1, elapsed=80.0), step("== 4 passed in 1.00s ==", elapsed=2.0))
    quiet = environment(step(elapsed=3.0))
    assert ci_summary.main(written(tmp_path, torch=torch, quiet=quiet, full={}, py314=environment(skipped=True))) == 1
    shown = capsys.readouterr().out
    assert "torch              90       8 +    82" in shown
    assert "py314" not in shown
    assert shown.index("12.5 s  torch: tests/test_a.py::test_never (call)") < shown.index(
        "3.2 s  torch: tests/test_b.py"
    )
    assert "passed when run again: 1\n  torch: tests/test_a.py::test_sometimes[x y]\n" in shown
    assert "torch: tests/test_a.py::test_never\n" not in shown.partition("run again: 1")[2].partition("====")[0]
    assert "==== torch: python -m pytest ended with 1; the end of its output:" in shown
    assert shown.endswith("7 passed, 1 failed, 2 skipped\n")


def test_a_good_run_is_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = environment(step("==== 4 passed in 1.00s ===="))
    assert ci_summary.main(written(tmp_path, torch=torch, quiet=environment(step()))) == 0
    assert "run again: 0\n4 passed, 0 failed, 0 skipped\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "environments",
    [
        {"lint": environment(step())},
        {"torch": environment(skipped=True), "quiet": environment(step())},
        {"torch": environment(step()), "lint": environment(step())},
        {"torch": environment(setup=step("no such wheel", retcode=1)), "quiet": environment(step())},
    ],
    ids=["neither", "torch skipped", "without the quiet tests", "torch not installed"],
)
def test_a_run_without_torch_fails(tmp_path: Path, environments: dict[str, dict[str, Any]]) -> None:
    assert ci_summary.main(written(tmp_path, **environments)) == 1
