"""The fixes of launch lines that end before their options: as bash reads the script, and as a second check finds nothing."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from distcheck.checks.launch_files.cut_lines import launch_lines_are_whole
from distcheck.core.fixes import apply_fixes

from .judging import findings, said

LAUNCH = "torchrun --standalone --nproc-per-node=8 train.py"
WHOLE = f"#!/bin/bash\n{LAUNCH} \\\n  --lr 1e-4\n"


@pytest.mark.parametrize(
    "text",
    [
        f"#!/bin/bash\n{LAUNCH} \\ \n  --lr 1e-4\n",
        f"#!/bin/bash\n{LAUNCH} \\\t  # the rate\n  --lr 1e-4\n",
        f"#!/bin/bash\n{LAUNCH}\n  --lr 1e-4\n",
        f"#!/bin/bash\n{LAUNCH}  \n  --lr 1e-4\n",
    ],
)
def test_the_fix_works(text: str) -> None:
    (finding,) = findings(launch_lines_are_whole, text)
    edited = apply_fixes([finding.fix], {"run.sh": text.encode()}, others={"run.sh": lambda path, data: None})
    assert edited.files["run.sh"].decode() == WHOLE
    assert said(launch_lines_are_whole, WHOLE) == []


def test_bash_agrees() -> None:
    # what bash passes to the launcher before and after the fix
    for text, passed in ((WHOLE, True), (WHOLE.replace("\\\n", "\\ # the rate\n"), False)):
        shell = f"torchrun() {{ printf '%q ' \"$@\"; }}\n{text}"
        ran = subprocess.run(["bash"], input=shell, text=True, capture_output=True, check=False)
        assert ("--lr" in shlex.split(ran.stdout)) is passed
        assert ("--lr: command not found" in ran.stderr) is not passed


@pytest.mark.parametrize("between", ["  # --epochs 3 \\\n", "\n"])
def test_lines_between_are_left_to_the_author(between: str) -> None:
    (finding,) = findings(launch_lines_are_whole, f"#!/bin/bash\n{LAUNCH} \\\n{between}  --lr 1e-4\n")
    assert not finding.fix.edits


@pytest.mark.parametrize(
    ("launch", "named"),
    [
        (LAUNCH, "train.py"),
        ("srun --ntasks=8 python train.py", "train.py"),
        ("srun --ntasks=8 --gres=gpu:8", "the launch"),
    ],
)
def test_the_message_names_what_lacks_the_option(launch: str, named: str) -> None:
    found = findings(launch_lines_are_whole, f"#!/bin/bash\n{launch}\n    --lr 1e-4\n")
    assert [finding.message.rpartition("as a command, and ")[2] for finding in found] == [f"{named} does not get it"]
