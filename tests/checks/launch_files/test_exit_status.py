"""What DC813 advises is what bash does: each line is run with a launch that fails."""

from __future__ import annotations

import shutil
import subprocess

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
        # both findings of a pipe in the background, and each fix alone is too little
        ("launch | cat &", 'set -o pipefail\nlaunch | cat &\nwait "$!"'),
        ('launch | cat &\nwait "$!"', 'set -o pipefail\nlaunch | cat &\nwait "$!"'),
        ("launch &\nwait", 'launch &\npids+=($!)\nfor pid in "${pids[@]}"; do wait "$pid" || exit 3; done'),
        ("launch\necho done", "launch\nstatus=$?\necho done\nexit $status"),
    ],
)
def test_the_status_is_kept_by_what_is_advised(lost: str, kept: str) -> None:
    assert status(lost) == 0
    assert status(kept) == 3
