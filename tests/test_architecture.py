"""``env`` never imports torch. import-linter checks which package may import which, ruff what no module imports at its top."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "distcheck"


@pytest.mark.parametrize("command", ["", "torchrun --nproc-per-node=2 train.py"])
def test_torch_is_never_imported_by_env(command: str) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from distcheck.checks.host.examine import examine\n"
        "from distcheck.launch.command import parse_command\n"
        "from distcheck.launch.reader import make_launch\n"
        "from distcheck.core.world import World\n"
        f"words = {command.split()!r}\n"
        "launch = make_launch({}, command=parse_command(words) if words else None)\n"
        "report = examine(launch, World(), every_fact=True)\n"
        "assert not [item for item in report.findings if item.code.startswith('DC9')], report.findings\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PACKAGE.parent, timeout=60)
