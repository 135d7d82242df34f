"""The fixes of a batch script's head: as bash reads the script, and as a second check finds nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from distcheck.checks.launch_files.batch_header import sbatch_reads_the_head
from distcheck.cli.main import group
from distcheck.core.fixes import apply_fixes

from .judging import findings, said

STEP = "srun torchrun --standalone --nproc-per-node=8 train.py\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (f"\n#!/bin/bash\n#SBATCH --nodes=1\n{STEP}", f"#!/bin/bash\n\n#SBATCH --nodes=1\n{STEP}"),
        (f"# one\n#!/bin/bash\n#SBATCH --nodes=1\n{STEP}", f"#!/bin/bash\n# one\n#SBATCH --nodes=1\n{STEP}"),
        (f"#!/bin/bash\n#SBATCH -J a\n#SBATCH --nodes=$N\n{STEP}", f"#!/bin/bash\n#SBATCH -J a\n{STEP}"),
        (f"#!/bin/bash\n#SBATCH -J a\n#SBATCH -N $N\n{STEP}", f"#!/bin/bash\n#SBATCH -J a\n{STEP}"),
        (
            f"#!/bin/bash\n#SBATCH --nodes=1\n\nset -e\n#SBATCH --mem=0\ncd x\n#SBATCH --time=1:00\n{STEP}",
            f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --mem=0\n#SBATCH --time=1:00\n\nset -e\ncd x\n{STEP}",
        ),
    ],
)
def test_the_fix_works(text: str, after: str) -> None:
    (finding,) = findings(sbatch_reads_the_head, text)
    edited = apply_fixes([finding.fix], {"run.sh": text.encode()}, others={"run.sh": lambda path, data: None})
    assert edited.files["run.sh"].decode() == after
    assert subprocess.run(["bash", "-n"], input=after, text=True, check=False).returncode == 0
    assert said(sbatch_reads_the_head, after) == []


def test_two_options_in_one_directive_are_left_to_the_author() -> None:
    text = f"#!/bin/bash\n#SBATCH -J a --nodes=$N\n{STEP}"
    (finding,) = findings(sbatch_reads_the_head, text)
    assert not finding.fix.edits
    assert "sbatch --nodes=$N run.sh" in finding.fix.text


@pytest.mark.parametrize(
    ("directive", "meant", "severity"),
    [
        ("--ntasks_per_node=8", "--ntasks-per-node=8", "error"),
        ("--cpus_per_task 8", "--cpus-per-task 8", "error"),
        ("--gpu=8", "--gpus=8", "error"),
        ("--node=2", "--nodes=2", "error"),
        ("--gpu-per-node=8", "--gpus-per-node=8", "warning"),
        ("--cpu-per-task=8", "--cpus-per-task=8", "warning"),
        ("--ntasks-per-nodes=8", "--ntasks-per-node=8", "warning"),
    ],
)
def test_an_option_that_sbatch_refuses_is_written_out(directive: str, meant: str, severity: str) -> None:
    text = f"#!/bin/bash\n#SBATCH -J a\n#SBATCH {directive}\n{STEP}"
    (finding,) = findings(sbatch_reads_the_head, text)
    assert (finding.where.line, finding.severity.word) == (3, severity)
    edited = apply_fixes([finding.fix], {"run.sh": text.encode()}, others={"run.sh": lambda path, data: None})
    after = edited.files["run.sh"].decode()
    assert after == f"#!/bin/bash\n#SBATCH -J a\n#SBATCH {meant}\n{STEP}"
    assert said(sbatch_reads_the_head, after) == []


@pytest.mark.parametrize(
    "directive",
    [
        "--ntasks-per-node=8",
        "--tasks-per-node=8",
        "--depend=singleton",  # getopt_long accepts a beginning that fits one option
        "--container-image=a.sqsh",
        "--gpu-power-cap=300",  # of a plug-in
        "-J --node",
        '--comment "--node"',
        "--job-name=a  # --node is another option",
    ],
)
def test_good_options_of_sbatch_and_of_plug_ins(directive: str) -> None:
    assert said(sbatch_reads_the_head, f"#!/bin/bash\n#SBATCH -J a\n#SBATCH {directive}\n{STEP}") == []


def test_the_start_of_several_options_names_them_all() -> None:
    (finding,) = findings(sbatch_reads_the_head, f"#!/bin/bash\n#SBATCH --mail=a@b.c\n{STEP}")
    assert "--mail-type, --mail-user" in finding.message
    assert not finding.fix.edits


JOB = "#!/bin/bash\n#SBATCH --nodes=1\n{directives}srun torchrun --standalone --nproc-per-node=8 train.py\n"


def folders(tmp_path: Path, directives: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    (tmp_path / "slurm").mkdir(exist_ok=True)
    (tmp_path / "slurm" / "job.sbatch").write_text(JOB.format(directives=directives))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(group, ["lint", "--isolated", "--select", "DC814", "--output-format", "json", "."])
    return list(json.loads(done.stdout)["findings"])


@pytest.mark.parametrize("option", ["--output=logs/%j.out", "-o ./logs/%x.out", "--error=logs/%j.err"])
def test_a_folder_of_the_output_that_is_not_there(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = folders(tmp_path, f"#SBATCH {option}\n", monkeypatch)
    assert (finding["severity"], finding["where"]["line"]) == ("info", 3)
    command = finding["fix"]["text"].partition(": ")[2].partition(" && ")[0]
    assert subprocess.run(["sh", "-c", command], check=False, cwd=tmp_path).returncode == 0
    assert folders(tmp_path, f"#SBATCH {option}\n", monkeypatch) == []


def test_a_folder_that_the_script_creates_too_late_and_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = "#SBATCH --output=logs/%j.out\nmkdir -p logs\n"
    (finding,) = folders(tmp_path, late, monkeypatch)
    assert finding["severity"] == "warning"
    (tmp_path / "logs").mkdir()
    (finding,) = folders(tmp_path, late, monkeypatch)
    assert finding["severity"] == "info"
    assert finding["message"].endswith("; it is there now")


def test_a_folder_of_the_output_that_is_a_part_of_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.sh").write_text("#!/bin/bash\nmkdir -p /data/catalog log2\ntorchrun other.py\n")
    (finding,) = folders(tmp_path, "#SBATCH --output=log/%j.out\n", monkeypatch)
    assert finding["severity"] == "info"


def test_good_a_folder_of_the_output_next_to_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slurm" / "logs").mkdir(parents=True)
    assert folders(tmp_path, "#SBATCH --output=logs/%j.out\n", monkeypatch) == []


@pytest.mark.parametrize(
    "directives",
    [
        "#SBATCH --output=%j.out\n",
        "#SBATCH --output=/scratch/logs/%j.out\n",
        "#SBATCH --output=%x/%j.out\n",
        "#SBATCH --output=logs/%j.out\n#SBATCH --chdir=/scratch\n",
    ],
)
def test_good_other_files_of_the_output(directives: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folders(tmp_path, directives, monkeypatch) == []


def test_good_a_script_that_submits_creates_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "submit.sh").write_text("#!/bin/bash\nmkdir -p logs && sbatch --gpus=8 slurm/job.sbatch\n")
    assert folders(tmp_path, "#SBATCH --output=logs/%j.out\n", monkeypatch) == []
