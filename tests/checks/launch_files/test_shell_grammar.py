"""Where the grammar of the shell is not installed, what holds shell is said to be unread, and all else is judged."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.launch_files import shell_grammar
from distcheck.checks.launch_files.shell_grammar import why_missing

from .reading import read

WITHOUT = """
import sys
sys.modules["tree_sitter"] = None
from distcheck.cli.fast_path import main
main()
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
    - name: main
      image: train
      env: [{name: NCCL_DEBUGG, value: INFO}]
      command: [COMMAND]
      resources: {limits: {nvidia.com/gpu: 4}}
"""
IN_SHELL = POD.replace("COMMAND", 'bash, -c, "torchrun --nproc-per-node=8 train.py"')
WITHOUT_SHELL = POD.replace("COMMAND", "torchrun, --nproc-per-node=8, train.py")
#: A file of each kind that holds shell, all with a launch line.
FILES = {
    "run.sh": "#!/bin/bash\ntorchrun --nproc_per_node=8 --nnodes=2 train.py\n",
    "job.sbatch": "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes=4 train.py\n",
    "Makefile": "train:\n\ttorchrun --nnodes=2 train.py\n",
    "Dockerfile": "FROM pytorch\nENV NCCL_DEBUGG=INFO\nCMD torchrun --nnodes=2 train.py\n",
    ".github/workflows/a.yml": "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: torchrun train.py\n",
    "pod.yaml": IN_SHELL,
    "README.md": "```bash\ntorchrun --nnodes=2 train.py\n```\n",
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    why_missing.cache_clear()
    shell_grammar._grammar.cache_clear()
    yield
    why_missing.cache_clear()
    shell_grammar._grammar.cache_clear()


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)


def lint(folder: Path, *words: str, without: bool) -> tuple[int, dict[str, Any]]:
    program = WITHOUT if without else "from distcheck.cli.fast_path import main; main()"
    command = [sys.executable, "-c", program, "lint", "--output-format", "json", *words]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env={"PYTHONPATH": root}
    )
    assert done.returncode in (0, 1, 2, 3), done.stderr
    return done.returncode, json.loads(done.stdout)


def test_it_is_here() -> None:
    assert why_missing() is None


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize("path", FILES)
def test_each_kind_of_file_says_that_its_shell_was_not_read(path: str) -> None:
    file = read(path, FILES[path])
    assert file.sites == ()
    assert file.why_no_shell is not None
    assert file.why_no_shell.startswith("tree-sitter does not import (")
    assert "pip install 'tree-sitter>=0.25' 'tree-sitter-bash>=0.25'" in file.why_no_shell
    assert file.faults == ()


@pytest.mark.parametrize("path", FILES)
def test_with_the_grammar_nothing_is_said(path: str) -> None:
    file = read(path, FILES[path])
    assert len(file.sites) == 1
    assert (file.why_no_shell, file.problems) == (None, ())


@pytest.mark.usefixtures("missing")
def test_what_needs_no_shell_is_read() -> None:
    file = read("pod.yaml", WITHOUT_SHELL)
    assert (len(file.sites), file.why_no_shell) == (1, None)
    both = read("pod.yaml", f"{IN_SHELL}---\n{WITHOUT_SHELL}---\na: [\n")
    assert len(both.sites) == 1
    assert both.why_no_shell is not None
    assert [line for _, line, _ in both.faults] == [24]


def test_an_old_grammar_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    old = types.ModuleType("tree_sitter")
    monkeypatch.setitem(sys.modules, "tree_sitter", old)
    assert (why_missing() or "").startswith("the tree-sitter that is installed is older than 0.25; pip install")
    why_missing.cache_clear()

    def refuse(_: object) -> None:
        raise ValueError("Incompatible Language version 15. Must be between 13 and 14")

    old.__dict__.update(QueryCursor=object, Language=refuse)
    assert "do not fit together (Incompatible Language version 15" in (why_missing() or "")


def test_lint_judges_what_it_can_and_says_the_rest(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch.distributed as dist\ndist.init_process_group('nccl')\n")
    (tmp_path / "plain.yaml").write_text(WITHOUT_SHELL.replace("name: train", "name: plain"))
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    _, whole = lint(tmp_path, "-v", without=False)
    status, part = lint(tmp_path, "-v", without=True)
    assert status == 1
    assert not whole["not_checked"]

    def found(report: dict[str, Any]) -> set[tuple[str, str, int | None]]:
        return {(one["code"], one["where"]["path"], one["where"].get("line")) for one in report["findings"]}

    assert found(part) < found(whole)
    assert {path for _, path, _ in found(part)} >= {"plain.yaml", "pod.yaml", "Dockerfile"}
    assert not any(one["code"] == "DC904" for one in part["findings"])
    (said,) = part["not_checked"]
    assert said["what"].count("the shell in ") == 4
    assert "the shell in 3 more files" in said["what"]
    assert said["why"].startswith("tree-sitter does not import")
    # no rule that may stand in a shell counts as looked for
    assert lint(tmp_path, "--exit-zero", "--must-check", "DC801", "--fail-on", "never", without=False)[0] == 0
    assert lint(tmp_path, "--must-check", "DC801", "--fail-on", "never", without=True)[0] == 3
    assert lint(tmp_path, "--strict", "--fail-on", "never", without=True)[0] == 3
    assert lint(tmp_path, "--fail-on", "never", "train.py", without=True)[0] == 0


def test_a_script_alone_that_can_not_be_read_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(FILES["run.sh"])
    assert lint(tmp_path, "run.sh", without=True)[0] == 2
