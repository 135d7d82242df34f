"""What the smoke test costs, and whether its figures are those of a bare loop: ratios of one run.

    python benchmarks/collective.py [--runs 5] [--pairs 40] [--parts start,loop,watchdog] [--json]

Run it with a Python that has torch and distcheck. Commands are run in turn, one round after the other, and loops
alternate within the same processes, so that a machine whose speed drifts slows both sides alike. Nothing else should
run meanwhile: gloo's single iterations reach ten times their median on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

#: What a user would write to see whether a group comes up: nothing is proved, nothing is measured.
BARE = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""

#: What is compared of the whole commands.
START_RATIOS = (
    ("torchrun, 2 ranks: smoke test without the sweep / bare script (target: at most 1.6)", "quick 2", "bare 2"),
    ("torchrun, 4 ranks: smoke test without the sweep / bare script (target: at most 1.6)", "quick 4", "bare 4"),
    ("torchrun, 2 ranks: smoke test with the sweep / bare script", "sweep 2", "bare 2"),
    ("torchrun, 4 ranks: smoke test with the sweep / bare script", "sweep 4", "bare 4"),
    (
        "distcheck collective --nproc 8 --quick / 8 bare ranks of torchrun (target: at most 0.5)",
        "own ranks 8",
        "bare 8",
    ),
)

#: Size at which gloo on loopback is at its best, and iterations of one side of a pair.
LOOP_BYTES = 4 << 20
LOOP_ITERATIONS = 10
#: Seconds after which a command hangs.
LIMIT_S = 300


def run_once(command: list[str], folder: str) -> float:
    """Seconds of wall time of a command that must end well."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        environment.pop(name, None)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    elapsed = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return elapsed


def measure_start(runs: int) -> dict[str, Any]:
    """Return the wall time of whole commands: the smoke test and a bare script, started the same way."""
    python = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "bare.py")
        script.write_text(BARE, encoding="utf-8")

        def torchrun(ranks: int, *rest: str) -> list[str]:
            return [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *rest]

        commands = {
            "bare 2": torchrun(2, str(script)),
            "quick 2": torchrun(2, "-m", "distcheck.collective", "--quick"),
            "sweep 2": torchrun(2, "-m", "distcheck.collective"),
            "bare 4": torchrun(4, str(script)),
            "quick 4": torchrun(4, "-m", "distcheck.collective", "--quick"),
            "sweep 4": torchrun(4, "-m", "distcheck.collective"),
            "bare 8": torchrun(8, str(script)),
            "own ranks 8": [python, "-m", "distcheck", "collective", "--nproc", "8", "--quick"],
            "own ranks 2, sweep": [python, "-m", "distcheck", "collective", "--nproc", "2"],
        }
        figures: dict[str, list[float]] = {name: [] for name in commands}
        run_once(commands["bare 2"], folder)
        for _ in range(runs):
            for name, command in commands.items():
                figures[name].append(run_once(command, folder))
    median = {name: statistics.median(rows) for name, rows in figures.items()}
    return {
        "median_s": median,
        "ratios": {text: median[left] / median[right] for text, left, right in START_RATIOS},
        "target": "the defaults end in under 15 s on two gloo ranks: "
        f"{median['own ranks 2, sweep']:.1f} s with own ranks, {median['sweep 2']:.1f} s under torchrun",
    }


def bare_loop(tensor: Any, iterations: int) -> float:
    """The loop that anybody would write: each all_reduce on the clock, the slowest rank counts, the median is taken."""
    import torch
    import torch.distributed as dist

    times = torch.zeros(iterations, dtype=torch.float64)
    for _ in range(3):
        dist.all_reduce(tensor)
    for index in range(iterations):
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        times[index] = time.perf_counter() - begin
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return float(statistics.median(times.tolist()))


def loop_rank(rank: int, folder: str, ranks: int, pairs: int) -> None:
    """One rank: pairs of measurements, each side first in turn."""
    import torch
    import torch.distributed as dist

    from distcheck.runtime.smoke_test.bandwidth import measure
    from distcheck.runtime.smoke_test.live_group import LiveGroup, Operations
    from distcheck.runtime.smoke_test.model import Options

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", ranks), rank=rank, world_size=ranks)
    options = Options(min_bytes=LOOP_BYTES, max_bytes=LOOP_BYTES, iterations=LOOP_ITERATIONS)
    live = LiveGroup(
        rank, ranks, "gloo", torch.device("cpu"), options, Operations(), (0,) * ranks, os.cpu_count() or 1,
        lambda step: None,
    )  # fmt: skip
    tensor = torch.zeros(LOOP_BYTES // 4)
    bare_loop(tensor, LOOP_ITERATIONS)
    rows = []
    for number in range(pairs):
        if number % 2:
            plain = bare_loop(tensor, LOOP_ITERATIONS)
            ours = measure(live).bandwidth[0].time.median_s
        else:
            ours = measure(live).bandwidth[0].time.median_s
            plain = bare_loop(tensor, LOOP_ITERATIONS)
        rows.append((ours, plain))
    if rank == 0:
        Path(folder, "pairs.json").write_text(json.dumps(rows), encoding="utf-8")
    dist.destroy_process_group()


def measure_loop(pairs: int) -> dict[str, Any]:
    """Return the bus bandwidth of this measurement and of a bare loop in the same processes."""
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(loop_rank, (folder, 2, pairs), nprocs=2, start_method="fork")
        rows = json.loads(Path(folder, "pairs.json").read_text(encoding="utf-8"))
    ratios = [plain / ours for ours, plain in rows]
    return {
        "pairs": pairs,
        "median_s": {
            "measure": statistics.median(ours for ours, _ in rows),
            "bare loop": statistics.median(plain for _, plain in rows),
        },
        "ratios": {
            "2 ranks, 4 MiB: busbw of the smoke test / bare loop (target: 0.97 to 1.03)": statistics.median(ratios)
        },
        "quartiles": statistics.quantiles(ratios, n=4),
    }


def without_watchdog(rank: int, folder: str, ranks: int) -> None:
    """Run one rank that measures without a supervisor: forked like those of the smoke test, no step announced."""
    import torch
    import torch.distributed as dist

    from distcheck.runtime.smoke_test.bandwidth import measure
    from distcheck.runtime.smoke_test.live_group import LiveGroup, Operations
    from distcheck.runtime.smoke_test.model import Options

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", ranks), rank=rank, world_size=ranks)
    options = Options(min_bytes=LOOP_BYTES, max_bytes=LOOP_BYTES)
    live = LiveGroup(
        rank, ranks, "gloo", torch.device("cpu"), options, Operations(), (0,) * ranks, os.cpu_count() or 1,
        lambda step: None,
    )  # fmt: skip
    found = measure(live)
    if rank == 0:
        Path(folder, "busbw").write_text(str(found.bandwidth[0].busbw_gbytes_per_s), encoding="utf-8")
    dist.destroy_process_group()


def measure_watchdog(pairs: int) -> dict[str, Any]:
    """Return the bus bandwidth with and without the supervisor: whole runs in turn."""
    import torch.multiprocessing

    size = str(LOOP_BYTES)
    command = [sys.executable, "-m", "distcheck", "collective", "--nproc", "2", "-b", size, "-e", size, "--no-pairs"]
    watched, alone = [], []
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            run_once([*command, "--output-format", "json", "-o", "report.json"], folder)
            report = json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))
            watched.append(report["measurements"]["measured"]["bandwidth"][0]["busbw_gbytes_per_s"])
            torch.multiprocessing.start_processes(without_watchdog, (folder, 2), nprocs=2, start_method="fork")
            alone.append(float(Path(folder, "busbw").read_text(encoding="utf-8")))
    return {
        "pairs": pairs,
        "median_gbytes_per_s": {"watched": statistics.median(watched), "alone": statistics.median(alone)},
        "ratios": {
            "2 ranks, 4 MiB: busbw with / without the supervisor": statistics.median(
                one / other for one, other in zip(watched, alone, strict=True)
            )
        },
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="rounds of whole commands")
    parser.add_argument("--pairs", type=int, default=40, help="pairs of loops in the same processes")
    parser.add_argument("--watchdog-pairs", type=int, default=15, help="pairs of whole runs")
    parser.add_argument("--parts", default="start,loop,watchdog")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    parts = {
        "start": lambda: measure_start(arguments.runs),
        "loop": lambda: measure_loop(arguments.pairs),
        "watchdog": lambda: measure_watchdog(arguments.watchdog_pairs),
    }
    found = {name: parts[name]() for name in arguments.parts.split(",")}
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for name, figures in found.items():
        print(name)
        for key, value in figures.items():
            if key == "ratios":
                for text, ratio in value.items():
                    print(f"  {ratio:8.2f}  {text}")
            else:
                print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
