"""How fast and how large ``distcheck env`` is, as ratios against real things in the same run.

    python benchmarks/env.py [--runs 30] [--torch-python PYTHON_WITH_TORCH]

Commands are run in turn, one round after the other, so that a machine whose speed drifts slows all of them alike; the
median of each is compared. Peak memory is the largest of the processes of one run, as the kernel counts it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: A launch that all probes of launches, names and ports check.
PLANNED = ["--nnodes=1", "--nproc-per-node=2", "--master-addr=localhost", "--master-port=29511"]


def run_once(command: list[str], folder: str) -> tuple[float, float]:
    """Seconds of wall time, and peak memory in MiB, of one run of a command."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return elapsed, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--torch-python", help="a Python that has torch, for the comparison with collect_env")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    distcheck = shutil.which("distcheck", path=str(Path(sys.executable).parent)) or sys.exit("install distcheck first")
    python = sys.executable
    commands = {
        "distcheck env": [distcheck, "env"],
        "distcheck env -- torchrun": [distcheck, "env", "--", "torchrun", *PLANNED, "train.py"],
        "import click, tabulate, netifaces": [python, "-c", "import click, tabulate, netifaces"],
        "distcheck --help": [distcheck, "--help"],
        "import click": [python, "-c", "import click"],
    }
    slow = {}
    if arguments.torch_python:
        slow["collect_env"] = [arguments.torch_python, "-m", "torch.utils.collect_env"]
    with tempfile.TemporaryDirectory() as folder:
        figures = {name: [] for name in (*commands, *slow)}
        for command in (commands | slow).values():
            run_once(command, folder)
        for round_number in range(arguments.runs):
            for name, command in commands.items():
                figures[name].append(run_once(command, folder))
            if round_number < 5:
                for name, command in slow.items():
                    figures[name].append(run_once(command, folder))
    median = {name: statistics.median(seconds for seconds, _ in rows) for name, rows in figures.items()}
    peak = {name: max(size for _, size in rows) for name, rows in figures.items()}
    ratios = [
        (
            "distcheck env / import click, tabulate, netifaces",
            "distcheck env",
            "import click, tabulate, netifaces",
            "≤ 1.6",
        ),
        (
            "distcheck env -- torchrun … / import click, tabulate, netifaces",
            "distcheck env -- torchrun",
            "import click, tabulate, netifaces",
            "≤ 1.6",
        ),
        ("distcheck --help / import click", "distcheck --help", "import click", "≤ 1.3"),
    ]
    if slow:
        ratios.append(("collect_env / distcheck env", "collect_env", "distcheck env", "≥ 15"))
    if arguments.json:
        print(
            json.dumps(
                {
                    "median_s": median,
                    "peak_mib": peak,
                    "ratios": {name: median[a] / median[b] for name, a, b, _ in ratios},
                }
            )
        )
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {arguments.runs} rounds")
    for name, seconds in median.items():
        print(f"  {seconds * 1000:8.1f} ms  {peak[name]:6.1f} MiB  {name}")
    for name, left, right, target in ratios:
        print(f"  {median[left] / median[right]:8.2f}  (target {target})  {name}")
    print(f"  {peak['distcheck env']:8.1f} MiB peak (target ≤ 40)  distcheck env")


if __name__ == "__main__":
    main()
