"""Builds the sdist and the wheel, installs the wheel into an empty environment, and runs it as a user would.

Run from the root of a checkout, with the lock that holds what the wheel needs (tools/lock.py). It proves that the
package data is in both archives and that nothing is needed that the metadata does not name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def data_files() -> set[str]:
    """The files of the package that are no Python."""
    package = ROOT / "distcheck"
    return {
        str(path.relative_to(ROOT))
        for path in package.rglob("*")
        if path.suffix in (".md", ".json", ".jsonl", ".txt", ".typed") or path.name == "py.typed"
    }


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program, its output as text."""
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


def expect(condition: bool, what: str) -> None:
    """Print what was verified, or exit."""
    if not condition:
        sys.exit(f"package check: {what}: no")
    print(f"package check: {what}: yes")


def main() -> None:
    """Build, install, run."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        build(here / "dist", ROOT)
        (wheel,) = (here / "dist").glob("*.whl")
        (sdist,) = (here / "dist").glob("*.tar.gz")
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
        expect(data_files() <= names, "the wheel holds the package data")
        expect(not any(name.startswith("tests/") for name in names), "the wheel holds no tests")
        with tarfile.open(sdist) as archive:
            names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        expect(data_files() <= names, "the sdist holds the package data")
        expect({"tests/recorded.py", "tox.ini", "LICENSE"} <= names, "the sdist holds the tests")
        expect(
            built_again(sdist, here / "again") == sdist.read_bytes(),
            "the sdist of the unpacked sdist is the same bytes",
        )
        venv.create(here / "empty", with_pip=True)
        tools = here / "empty" / ("Scripts" if sys.platform == "win32" else "bin")
        python = ["--python", str(tools / "python")]
        lock = ["--constraints", sys.argv[1]]
        subprocess.run(
            [sys.executable, "-m", "uv", "pip", "install", "--quiet", *python, *lock, str(wheel)], check=True
        )
        # pip, which most users have, finds nothing that is missing
        subprocess.run(
            [str(tools / "pip"), "install", "--quiet", "--no-index", "--force-reinstall", "--no-deps", str(wheel)],
            check=True,
        )
        subprocess.run([str(tools / "pip"), "check"], check=True)
        smoke(tools, here)


def build(target: Path, root: Path, *kinds: str) -> None:
    """Build archives with the locked setuptools: an isolated build would take the newest, unverified."""
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(target), str(root)]
    subprocess.run(command, check=True, stdout=2)


def built_again(sdist: Path, here: Path) -> bytes:
    """An sdist made of an unpacked one, whose files have other times and rights."""
    with tarfile.open(sdist) as archive:
        archive.extractall(here, filter="data")
    (root,) = here.iterdir()
    for path in root.rglob("*"):
        os.utime(path, (1.6e9, 1.6e9))
        path.chmod(0o700 if path.is_dir() or path.stat().st_mode & 0o100 else 0o600)
    build(here / "dist", root, "--sdist")
    return (here / "dist" / sdist.name).read_bytes()


def smoke(tools: Path, here: Path) -> None:
    """What a user types first, in an empty environment and an empty folder."""
    empty = here / "folder"
    empty.mkdir()
    report = run(tools / "distcheck", "env", "--output-format", "json", cwd=empty)
    expect(report.returncode == 0, f"distcheck env ends with 0 ({report.stderr.strip()[:200]})")
    expect(json.loads(report.stdout)["schema_version"] == 1, "its JSON can be read")
    module = run(tools / "python", "-m", "distcheck", "env", "-q", cwd=empty)
    expect(module.returncode == 0, "python -m distcheck works")
    page = run(tools / "distcheck", "explain", "environment variable RANK expected, but not set", cwd=empty)
    expect("DC101" in page.stdout, "explain finds a rule by its message")
    expect(run(tools / "distcheck", "rules", "--prefix", "DC4").returncode == 0, "rules lists")
    (empty / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes=4 train.py\n")
    (empty / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - command: [torchrun, --nproc-per-node=8, train.py]\n"
        "      resources: {limits: {nvidia.com/gpu: 4}}\n"
    )
    lint = run(tools / "distcheck", "lint", "--no-cache", "--output-format", "concise", cwd=empty)
    expect("DC804" in lint.stdout and "DC301" in lint.stdout, "lint has what it reads launch files with")
    (empty / "train.log").write_text("[rank1]: RuntimeError: CUDA error: invalid device ordinal\n")
    log = run(tools / "distcheck", "log", "train.log", "--output-format", "json", cwd=empty)
    expect(json.loads(log.stdout)["story"]["code"] == "DC301", "log finds the cause")
    expect(run(tools / "python", "-c", "import re2").returncode == 0, "log has what it searches gigabytes with")
    ran = run(tools / "distcheck", "run", "--no-preflight", "--", "sh", "-c", "echo out; exit 7", cwd=empty)
    expect((ran.returncode, ran.stdout) == (7, "out\n"), "run keeps output and status")
    complete = run(tools / "distcheck", env={"PATH": str(tools), "_DISTCHECK_COMPLETE": "bash_source"})
    expect("complete" in complete.stdout, "shell completion has its script")
    torch = run(tools / "python", "-c", "import torch")
    expect(torch.returncode != 0, "no torch was pulled in")


if __name__ == "__main__":
    main()
