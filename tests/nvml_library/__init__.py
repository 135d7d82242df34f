"""A stand-in for libnvidia-ml.so.1, compiled from C, and machines that have it: real calls of nvidia-ml-py reach it.

A test describes the GPUs and their faults in one JSON object (see ``library.c``). The programs run as a user runs them;
only the driver's files and the installed torch are those of a folder.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import write_files

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_a_compiler = pytest.mark.skipif(
    COMPILER is None or not sys.platform.startswith("linux"), reason="needs Linux and a compiler for C"
)

#: Runs distcheck on a machine whose driver's files, and torch, are in a folder of its own.
_PROGRAM = """
import os, sys
from distcheck.core.world import World

machine = {machine!r}
if not {own_torch}:
    World.python_path = (machine + "/site-packages",)
real = World.path
here = ("/dev/nvidia", "/proc/driver")
World.path = lambda self, path: machine + path if path == "/dev" or path.startswith(here) else real(self, path)

{prelude}
from distcheck.{module} import main
main()
"""


@functools.cache
def _library() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="nvml-")
    source = Path(__file__).with_name("library.c")
    target = Path(folder.name) / "libnvidia-ml.so.1"
    subprocess.run(
        [str(COMPILER), "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(target), str(source)], check=True
    )
    return folder


def variables(folder: Path, described: dict[str, Any]) -> dict[str, str]:
    """Return what makes a process load the library, and describe these GPUs to it."""
    path = folder / "nvml.json"
    path.write_text(json.dumps(described))
    return {"LD_LIBRARY_PATH": _library().name, "STANDIN_NVML": str(path)}


def command(
    folder: Path,
    described: dict[str, Any],
    *words: str,
    module: str = "__main__",
    prelude: str = "",
    own_torch: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Return what runs distcheck on a machine with these GPUs and with a CUDA build of torch, and its variables.

    :param prelude: Python that runs before distcheck does
    :param own_torch: the files of torch are those of this Python
    """
    count = int(described.get("gpus", 1))
    machine = folder / "machine"
    files = {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 2025\n",
        **{f"proc/driver/nvidia/gpus/0000:{number:02d}:00.0/information": "" for number in range(count)},
        **{f"dev/nvidia{number}": "" for number in range(count)},
        "dev/nvidiactl": "",
        "site-packages/torch/__init__.py": "",
        "site-packages/torch/version.py": "__version__ = '2.13.0+cu130'\ncuda = '13.0'\nhip = None\n",
        "site-packages/torch/_C.so": "",
        "site-packages/torch/lib/libtorch_cuda.so": "",
    }
    write_files(machine, files)
    program = folder / "program.py"
    program.write_text(_PROGRAM.format(machine=str(machine), module=module, prelude=prelude, own_torch=own_torch))
    found = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1", **variables(folder, described)}
    return [sys.executable, str(program), *words], found


def run(
    folder: Path,
    described: dict[str, Any],
    *words: str,
    module: str = "__main__",
    own_torch: bool = False,
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run distcheck on such a machine."""
    program, found = command(folder, described, *words, module=module, own_torch=own_torch)
    return subprocess.run(
        program, capture_output=True, text=True, cwd=folder, timeout=300, check=False,
        env={"PATH": os.environ["PATH"], **found, **environ},
    )  # fmt: skip
