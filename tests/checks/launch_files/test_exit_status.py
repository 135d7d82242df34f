"""What DC813 advises is what bash does: each line is run with a launch that fails."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
LAUNCH = "launch() { return 3; }\n"


def status(script: str) -> int:
    return subprocess.run(["bash", "-c", LAUNCH + script], check=False, capture_output=True).returncode


@pytest.mark.parametrize(
    ("lost", "kept"),
    [
        ("launch\ntrue", "launch || exit\ntrue"),
        ("launch\ntrue", "set -e\nlaunch\ntrue"),
        ("launch | cat", "set -o pipefail\nlaunch | cat"),
        ("launch &", 'launch &\nwait "$!"'),
        # without the braces, `wait` gets the status of `cat` if the pipe has ended before
        ("launch | cat &", '{ set -o pipefail; launch | cat; } &\nwait "$!"'),
        ('launch | cat &\nwait "$!"', '{ set -o pipefail; launch | cat; } &\nsleep 0.2\nwait "$!"'),
        ("launch &\nwait", 'launch &\npids+=($!)\nfor pid in "${pids[@]}"; do wait "$pid" || exit 3; done'),
        ("launch\necho done", "launch\nstatus=$?\necho done\nexit $status"),
        (
            "launch\nif [ $? -ne 0 ]; then echo failed; fi",
            "launch\nstatus=$?\nif [ $status -ne 0 ]; then echo failed; fi\nexit $status",
        ),
        (
            "end() { exit 0; }\ntrap end EXIT INT TERM\nset -e\nlaunch",
            "end() { status=$?; exit $status; }\ntrap end EXIT INT TERM\nset -e\nlaunch",
        ),
    ],
)
def test_the_status_is_kept_by_what_is_advised(lost: str, kept: str) -> None:
    assert status(lost) == 0
    assert status(kept) == 3


def test_a_pipe_in_the_background_gets_braces(tmp_path: Path) -> None:
    """The fix is that of the test above, and what it prints has no finding."""
    launch = "torchrun --standalone --nproc-per-node=2 train.py | tee log"
    fixes = {}
    for name, line in {"lost": f"{launch} &", "kept": f'{{ set -o pipefail; {launch}; }} &\nwait "$!"'}.items():
        path = tmp_path / f"{name}.sh"
        path.write_text(f"#!/bin/bash\n{line}\nwait\n")
        done = subprocess.run(
            [sys.executable, "-m", "distcheck", "lint", "--select", "DC813", "--output-format", "json", str(path)],
            check=False,
            capture_output=True,
            text=True,
        )
        fixes[name] = [finding["fix"]["text"] for finding in json.loads(done.stdout)["findings"]]
    assert fixes["kept"] == []
    assert 'write `{ set -o pipefail; … | tee log; } &`, and `wait "$!"` after it' in fixes["lost"]


@pytest.mark.parametrize(
    ("fixed", "expected"),
    [
        ('sys.exit(os.waitstatus_to_exitcode(os.system("exit 3")))', 3),
        ('subprocess.run("exit 3", shell=True, check=True)', 1),
        ('subprocess.run(["bash", "-c", "exit 3"], check=True)', 1),
    ],
)
def test_a_script_in_python_fails_with_what_is_advised(fixed: str, expected: int) -> None:
    script = f"import os, subprocess, sys\n{fixed}"
    assert subprocess.run([sys.executable, "-c", script], check=False, capture_output=True).returncode == expected
