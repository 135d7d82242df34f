"""The fixes of a batch script's head: as bash reads the script, and as a second check finds nothing."""

from __future__ import annotations

import subprocess

import pytest

from distcheck.checks.launch_files.batch_header import sbatch_reads_the_head
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
