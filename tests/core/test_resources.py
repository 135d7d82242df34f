"""Files that come with the package: from a folder and from a zip, and an error for one that is not there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from distcheck.core.resources import read_shipped

PACKAGE = Path(__file__).parents[2] / "distcheck"
READ = """
import sys
sys.path.insert(0, sys.argv[1])
from distcheck.core import resources
assert resources.__file__.startswith(sys.argv[1]), resources.__file__
sys.stdout.buffer.write(resources.read_shipped("distcheck.core", "variables.jsonl"))
try:
    resources.read_shipped("distcheck.core", "nothing.jsonl")
except FileNotFoundError as error:
    sys.stderr.write(error.filename)
"""


def test_from_a_folder() -> None:
    assert read_shipped("distcheck.core", "variables.jsonl") == (PACKAGE / "core/variables.jsonl").read_bytes()
    with pytest.raises(FileNotFoundError, match=r"nothing\.(md|jsonl)"):
        read_shipped("distcheck.rules", "pages/nothing.md")


def test_from_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "some.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ("__init__.py", "_version.py", "core/__init__.py", "core/resources.py", "core/variables.jsonl"):
            packed.write(PACKAGE / name, f"distcheck/{name}")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", READ, str(archive)], capture_output=True, timeout=60, check=True
    )
    assert done.stdout == (PACKAGE / "core/variables.jsonl").read_bytes()
    assert done.stderr == b"distcheck.core: nothing.jsonl"
