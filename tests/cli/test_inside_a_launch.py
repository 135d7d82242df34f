"""``distcheck env`` and ``preflight()`` inside real launches: one report a host, one verdict for all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from .test_cli import environment

pytestmark = pytest.mark.torch


def torchrun(tmp_path: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments],
        capture_output=True,
        text=True,
        env=environment(TMPDIR=str(scratch), **extra),
        cwd=tmp_path,
        timeout=120,
    )


def console_script(tmp_path: Path) -> str:
    """The command as --no-python starts it."""
    path = tmp_path / "distcheck"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m distcheck "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("ranks", [2, 4])
def test_good_one_report_a_host_and_silence(tmp_path: Path, ranks: int) -> None:
    result = torchrun(
        tmp_path,
        f"--nproc-per-node={ranks}",
        "--no-python",
        console_script(tmp_path),
        "env",
        "--backend",
        "gloo",
        "--output-format",
        "json",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    plain = json.loads(result.stdout)
    assert plain["stage"] == "rank"
    assert [item for item in plain["findings"] if item["severity"] != "info"] == []
    assert not any("record" in item["why"] for item in plain["not_checked"])
    assert [path.name for path in (tmp_path / "scratch").glob("distcheck-*")] == []


def test_bad_finding_of_all_ranks_is_said_once(tmp_path: Path) -> None:
    script = tmp_path / "each"
    script.write_text(
        f"#!/bin/sh\nWORLD_SIZE=abc exec {sys.executable} -m distcheck env --output-format json --select DC102\n"
    )
    script.chmod(0o755)
    result = torchrun(tmp_path, "--nproc-per-node=2", "--no-python", str(script))
    assert result.returncode == 1
    plain = json.loads(result.stdout)
    assert [(item["code"], item["where"].get("ranks", item["where"].get("rank"))) for item in plain["findings"]] == [
        ("DC102", "0-1")
    ]


def test_bad_a_rank_that_does_not_hand_in_is_not_checked(tmp_path: Path) -> None:
    script = tmp_path / "one"
    script.write_text(
        f'#!/bin/sh\n[ "$LOCAL_RANK" = 1 ] && exit 0\nexec {sys.executable} -m distcheck env --output-format json\n'
    )
    script.chmod(0o755)
    plain = json.loads(torchrun(tmp_path, "--nproc-per-node=2", "--no-python", str(script)).stdout)
    assert {"what": "local rank 1", "why": "its record did not come within 3 s"} in plain["not_checked"]


SCRIPT = """
import os, sys
import distcheck
if os.environ["RANK"] == os.environ.get("BAD_RANK"):
    os.environ["TORCH_FR_BUFFER_SIZE"] = "abc"
try:
    report = distcheck.preflight(select=["DC112"])
except distcheck.PreflightError as error:
    print(f"rank {os.environ['RANK']} raised: {str(error).splitlines()[0]}", flush=True)
    import time; time.sleep(1)
    sys.exit(0)
print(f"rank {os.environ['RANK']} goes on", flush=True)
"""


def test_good_preflight_lets_a_healthy_job_go_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    result = torchrun(tmp_path, "--nproc-per-node=2", "train.py")
    assert sorted(result.stdout.splitlines()) == ["rank 0 goes on", "rank 1 goes on"], result.stderr


def test_bad_preflight_stops_all_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    result = torchrun(tmp_path, "--nproc-per-node=2", "train.py", BAD_RANK="1")
    lines = sorted(result.stdout.splitlines())
    assert len(lines) == 2, result.stderr
    assert lines[0].startswith("rank 0 raised: distcheck found an error on another host")
    assert lines[1].startswith("rank 1 raised: ")


def test_bad_preflight_alone_raises_with_the_report(tmp_path: Path) -> None:
    program = "import distcheck\ntry:\n    distcheck.preflight(select=['DC101'])\nexcept distcheck.PreflightError as error:\n    print(error)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert "error DC101" in result.stdout
    assert os.linesep.join(["", ""]) in result.stdout


def test_a_second_preflight_meets_nothing_of_the_first(tmp_path: Path) -> None:
    script = """
    import os, time
    import distcheck
    for call in range(3):
        if os.environ["RANK"] == "1":
            time.sleep(0.3)
            os.environ["TORCH_FR_BUFFER_SIZE"] = "abc" if call == 1 else "10"
        try:
            distcheck.preflight(select=["DC112"])
            print(f"rank {os.environ['RANK']} call {call} clean", flush=True)
        except distcheck.PreflightError:
            print(f"rank {os.environ['RANK']} call {call} raised", flush=True)
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(script))
    result = torchrun(tmp_path, "--nproc-per-node=2", "train.py")
    said = [f"rank {rank} call {call} {'raised' if call == 1 else 'clean'}" for rank in (0, 1) for call in range(3)]
    assert sorted(result.stdout.splitlines()) == said, result.stderr
