"""SIGKILL in the middle of `lint --fix`: each file is as before or fixed, and the next run leaves nothing else."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")]

_FILES = 12
#: So large that writing takes a while.
_PADDING = "# padding\n" * 50_000
_BEFORE = "import os\nimport torch\nif os.environ['RANK'] == 0:\n    print(torch)\n" + _PADDING
_COMMAND = [
    sys.executable,
    "-m",
    "distcheck",
    "lint",
    "--fix",
    "--isolated",
    "--no-cache",
    "-j",
    "1",
    "--select",
    "DC209",
    ".",
]


def _content(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in sorted(os.listdir(folder))}


def _started(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(_COMMAND, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=pytest.mark.full)])
def test_a_killed_fix_leaves_whole_files_and_the_next_run_no_draft(kills: int, tmp_path: Path) -> None:
    before = {f"a{number:02}.py": f"{_BEFORE}# {number}\n" for number in range(_FILES)}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    assert _started(tmp_path).wait() in (0, 1)
    after = _content(tmp_path)
    assert after.keys() == before.keys() and all(after[name] != before[name] for name in before)
    chance = random.Random(kills)
    drafts = partly = 0
    for kill in range(kills):
        for name, text in before.items():
            (tmp_path / name).write_text(text)
        stamps = {entry.name: entry.inode() for entry in os.scandir(tmp_path)}
        process = _started(tmp_path)
        # a third at any moment, the others after the first write
        if kill % 3 == 0:
            time.sleep(chance.uniform(0, 2))
        else:
            while process.poll() is None and {entry.name: entry.inode() for entry in os.scandir(tmp_path)} == stamps:
                pass
            time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        left = _content(tmp_path)
        drafts += len(left) > len(before)
        partly += after != {name: left[name] for name in before} != before
        assert all(left[name] in (before[name], after[name]) for name in before)
        assert _started(tmp_path).wait() in (0, 1)
        assert _content(tmp_path) == after
    print(f"{kills} kills: {partly} between two files, {drafts} with a draft")
    assert kills < 50 or (partly > 5 and drafts > 1)
