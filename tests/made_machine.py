"""``distcheck`` on a machine of ``tests/hosts``, run as a user runs it: what the command line and its exit status say.

A test may add files, drop some, and name paths of which a read fails. Only the machine is another one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.recorded import HOSTS, RecordedWorld, write_files

_PROGRAM = """
import sys
from pathlib import Path

from distcheck.core.world import World
from tests.made_machine import MadeWorld

real = World.__init__


def start(self, environ=None, *, root="/"):
    if type(self) is World:
        self.__class__ = MadeWorld
        MadeWorld.__init__(self, Path({root!r}), {record!r})
    else:
        real(self, environ, root=root)


World.__init__ = start
from distcheck.__main__ import main
main()
"""


class MadeWorld(RecordedWorld):
    """A recorded machine; ``refused`` maps the beginning of a path to the number of the error that its reader gets."""

    def _check(self, path: str) -> None:
        for beginning, number in self.record.get("refused", {}).items():
            if path.startswith(beginning):
                raise OSError(number, os.strerror(number), path)

    def read_bytes(self, path: str, limit: int = 1 << 22) -> bytes:
        self._check(path)
        return super().read_bytes(path, limit)

    def list_folder(self, path: str) -> tuple[str, ...]:
        self._check(path)
        return super().list_folder(path)


def files_of(host: str, *parts: str) -> dict[str, Any]:
    """Return the files of a recorded machine, or those whose path contains one of the parts."""
    files = json.loads((HOSTS / host / "files.json").read_text())
    return {path: content for path, content in files.items() if not parts or any(part in path for part in parts)}


def run(
    folder: Path, host: str, files: Mapping[str, Any], *words: str, **record: Any
) -> subprocess.CompletedProcess[str]:
    """Run distcheck on the machine ``host`` with these files; ``record`` changes its answers."""
    write_files(folder / "root", files)
    record = {**json.loads((HOSTS / host / "world.json").read_text()), **record}
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(root=str(folder / "root"), record=record), *words],
        capture_output=True, text=True, cwd=folder, timeout=120, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
