"""Folders of killed rehearsals are removed, and no other ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from distcheck.runtime.rehearsal.simulation.own_folders import OwnFolder, sweep

_MAKE = """\
import os, sys
from distcheck.runtime.rehearsal.simulation.own_folders import OwnFolder
folder = OwnFolder(sys.argv[1])
os.makedirs(folder.path + "/overlay/work", mode=0o700)
os.chmod(folder.path + "/overlay/work", 0)
print(folder.path, flush=True)
input()
"""


def test_a_folder_lives_as_long_as_its_owner(tmp_path: Path) -> None:
    """The number of the process is no proof: another container may share the folder."""
    command = [sys.executable, "-c", _MAKE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        path = owner.stdout.readline().strip()
        sweep(str(tmp_path))
        assert os.path.isdir(path)
        owner.kill()
        owner.wait()
        sweep(str(tmp_path))
        assert not os.path.exists(path)


def test_only_folders_of_rehearsals_are_removed(tmp_path: Path) -> None:
    mine = OwnFolder(str(tmp_path))
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "lock").touch()
    (tmp_path / "distcheck-rehearsal-link").symlink_to(kept)
    (tmp_path / "distcheck-rehearsal-notes").mkdir()  # without a lock
    pipe = tmp_path / "distcheck-rehearsal-pipe"
    pipe.mkdir()
    os.mkfifo(pipe / "draft")
    before = sorted(tmp_path.rglob("*"))
    sweep(str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
    mine.remove()
    assert not os.path.exists(mine.path)
    sweep(str(tmp_path / "missing"))
