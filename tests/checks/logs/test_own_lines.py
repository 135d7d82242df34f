"""The script next to a log decides why a rank ended early; a path that a log names makes distcheck read nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distcheck.checks.logs import own_lines
from distcheck.checks.logs.diagnose import diagnose, read_timeline

from .cases import FOLDER, expectation_of

LOG = expectation_of((FOLDER / "DC702" / "bad_exits_early_of_two.log").read_bytes())[1].decode()
#: The log has the call in line 10, in main().
BRANCH = "\n" * 7 + "def main():\n    if dist.get_rank() == 0:\n        dist.all_reduce(x)\n\n\n\nmain()\n"
EXIT = "\n" * 6 + "def main():\n    if rank:\n        return\n    dist.all_reduce(x)\n\n\n\nmain()\n"


def code(folder: Path, script: Path) -> str:
    log = folder / "run.log"
    log.write_text(LOG.replace("/workspace/early.py", str(script)))
    return str(diagnose(read_timeline([str(log)])).findings[0].code)


@pytest.mark.parametrize(("source", "expected"), [(BRANCH, "DC701"), (EXIT, "DC702")])
def test_a_branch_on_the_rank_around_the_line_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(source)
    assert code(tmp_path, tmp_path / "train.py") == expected
    assert code(tmp_path, Path("train.py")) == expected


@pytest.mark.parametrize(
    "source",
    [BRANCH.replace("all_reduce(x)", "all_reduce(y)"), "\n" + BRANCH, BRANCH[:60], BRANCH + "def:\n", ""],
    ids=["other-text", "moved", "cut-off", "no-python", "empty"],
)
def test_a_script_that_has_changed_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(source)
    assert code(tmp_path, tmp_path / "train.py") == "DC702"


def test_only_scripts_below_the_working_directory_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "here-too"
    for folder in (here, elsewhere):
        folder.mkdir()
        (folder / "train.py").write_text(BRANCH)
    (here / "link.py").symlink_to(elsewhere / "train.py")
    monkeypatch.chdir(here)
    assert code(here, here / "train.py") == "DC701"
    for path in (elsewhere / "train.py", here / "link.py", Path("../here-too/train.py"), here / "absent.py", here):
        assert code(here, path) == "DC702", path


def test_no_script_is_waited_for_or_read_without_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.py")
        assert code(tmp_path, tmp_path / "pipe.py") == "DC702"
    (tmp_path / "train.py").write_text(BRANCH)
    monkeypatch.setattr(own_lines, "_LARGEST", len(BRANCH) - 1)
    assert code(tmp_path, tmp_path / "train.py") == "DC702"
