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
