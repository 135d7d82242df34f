"""What ``distcheck lint`` says of our own examples: nothing above info, and not because it looks away."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import environment

ROOT = Path(__file__).parent.parent.parent


def codes(folder: Path) -> dict[str, str]:
    """Code to severity, of everything below a folder."""
    # in more than ten files a rule may be lower: here each has its own level
    words = ("--isolated", "--no-cache", "--preview", "--output-format", "json", str(folder))
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "lint", *words],
        env=environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    plain = json.loads(result.stdout)
    assert plain["not_checked"] == []
    return {item["code"]: item["severity"] for item in plain["findings"]}


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of the examples, without those that fail on purpose."""
    others = shutil.ignore_patterns("failures")
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=others))


def test_good_examples(examples: Path) -> None:
    assert {code: severity for code, severity in codes(examples).items() if severity != "info"} == {}


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        ("slurm/train.sbatch", '--nnodes="$SLURM_NNODES"', "--nnodes=3", "DC804"),
        ("slurm/train.sbatch", "--nproc-per-node=8", "--nproc-per-node=16", "DC301"),
        ("kubernetes/pytorchjob.yaml", "mountPath: /dev/shm", "mountPath: /scratch", "DC320"),
        ("kubernetes/indexed-job.yaml", '--node-rank="$JOB_COMPLETION_INDEX"', "--node-rank=0", "DC805"),
        ("kubernetes/indexed-job.yaml", "nvidia.com/gpu: 8", "nvidia.com/gpu: 4", "DC301"),
    ],
)
def test_bad_changes_of_them_are_seen(name: str, old: str, new: str, code: str, examples: Path) -> None:
    path = examples / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert codes(examples).get(code) in ("error", "warning")
