"""How fast and how large ``distcheck lint`` is, as ratios against Ruff, Flake8, TorchFix and ShellCheck in one run.

    python benchmarks/lint.py [--from FOLDER …] [--torch-python PYTHON_WITH_TORCH] [--runs 5]
    python benchmarks/lint.py --projects [--package FOLDER …] [--runs 5]

A tree of Python files is copied from installed packages (or from the folders given). Commands are run in turn, one
round after the other, so that a machine whose speed drifts slows all of them alike; the median of each is compared.
Flake8 and TorchFix, which take minutes where the others take seconds, are compared on a part of the tree. Memory is
measured on a tree of its own: the proportional set sizes of all processes, added up while they run. Launch files are
the cases of our own tests, one for ten Python files: once with the tree, and the shell files among them once by
themselves, against ShellCheck. A tool that is not installed is skipped; give its path where it is not next to this
Python.

``--projects`` compares distcheck with ``ruff check --select F --no-cache`` on single packages, each as a project of its
own: cold, warm, after one file was changed (the editor case), and with 1, 2, 4 and 8 copies in one run. It prints wall
time, CPU time of all processes, and peak memory. On a machine with other load, compare CPU time.
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
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

#: Seconds between two reads of the memory of a run.
SAMPLE_S = 0.02
#: (figure, against, target): both are names of commands; the ratio is the first's median to the second's.
RATIOS = (
    ("distcheck lint, cold", "ruff check", "≤ 4"),
    ("distcheck lint, warm", "ruff check", "≤ 1"),
    ("flake8", "distcheck lint, part", "≥ 20"),
    ("torchfix", "distcheck lint, part", "≥ 100"),
    ("distcheck lint, cold, with launch files", "distcheck lint, cold", "≤ 1.3"),
    ("distcheck lint, shell files", "shellcheck", "< 1"),
)
#: How many copies of a package are checked in one run.
COPIES = (1, 2, 4, 8)
#: Launch files as they are in projects and on clusters: the cases of the tests.
LAUNCH_FILES = Path(__file__).resolve().parent.parent / "tests" / "launch"
SHELL = (".sh", ".sbatch", ".slurm")


def sources(folders: Sequence[str], pythons: Iterable[str]) -> list[Path]:
    """Python files below folders, or below the packages of some Pythons, in a fixed order."""
    if not folders:
        folders = [sysconfig.get_paths()["purelib"]]
        for python in pythons:
            query = [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
            folders = [*folders, subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip()]
    found: dict[Path, None] = {}
    for folder in folders:
        found.update(dict.fromkeys(sorted(Path(folder).resolve().rglob("*.py"))))
    return [path for path in found if path.is_file()]


def build(files: Sequence[Path], count: int, target: Path) -> tuple[int, int]:
    """Copy files until there are enough; repeat them, marked as copies, where there are too few.

    :return: files and lines that were written
    """
    written = lines = 0
    for copy in range(1 + count // len(files)):
        for number, path in enumerate(files):
            if written == count:
                return written, lines
            text = path.read_bytes()
            if copy:
                text += b"\n# copy %d\n" % copy
            # the last folders of a path stay, so that imports between the files of a package can be linked
            place = target / f"{copy}" / Path(*path.parts[-4:-1]) / path.name
            if place.exists():
                place = target / f"{copy}" / f"other{number}" / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text)
            written += 1
            lines += text.count(b"\n")
    return written, lines


def build_launch_files(files: Sequence[Path], count: int, target: Path) -> list[Path]:
    """Copy launch files, each into a folder of its own, until there are enough; the paths of the copies."""
    written = []
    for number in range(count):
        path = files[number % len(files)]
        place = target / f"launch{number}" / path.name
        place.parent.mkdir(parents=True)
        shutil.copyfile(path, place)
        written.append(place)
    return written


def run_once(command: Sequence[str], folder: Path) -> float:
    """Seconds of wall time of one run of a command."""
    start = time.perf_counter()
    status = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    elapsed = time.perf_counter() - start
    if status not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {status}")
    return elapsed


class Cost(NamedTuple):
    """Seconds of one run: by the clock, and of all processes."""

    wall_s: float
    cpu_s: float


def cost_of(command: Sequence[str], folder: Path) -> Cost:
    """Run a command once, and return what it took."""
    before = os.times()
    wall_s = run_once(command, folder)
    after = os.times()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return Cost(wall_s, spent)


def median_cost(runs: Iterable[Cost]) -> Cost:
    """Return the median of wall times, and of CPU times."""
    found = list(runs)
    return Cost(statistics.median(run.wall_s for run in found), statistics.median(run.cpu_s for run in found))


def packages(folder: Path, number: int) -> list[Path]:
    """Return packages among the installed ones: the largest, and ones of about half the size each."""
    sizes = {
        path: sum(1 for _ in path.rglob("*.py")) for path in sorted(folder.iterdir()) if (path / "__init__.py").exists()
    }
    chosen: list[Path] = []
    for path in sorted(sizes, key=lambda path: -sizes[path]):
        if len(chosen) < number and (not chosen or sizes[path] <= sizes[chosen[-1]] / 2):
            chosen.append(path)
    return chosen


def copy_project(package: Path, target: Path) -> list[Path]:
    """Copy the Python files of a package as a project; return the copies."""
    copies = []
    for path in sorted(package.rglob("*.py")):
        copy = target / package.name / path.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        copies.append(copy)
    (target / "pyproject.toml").write_text("")
    return copies


def compare_projects(chosen: Sequence[Path], runs: int, lint: Sequence[str], ruff: str) -> None:
    """Print a table for each package."""
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {runs} rounds; s of wall time and of CPU time")
    for package in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            folder, store = Path(scratch, "project"), Path(scratch, "store")
            files = copy_project(package, folder / "1")
            commands = {
                "ruff": [ruff, "check", "--select", "F", "--no-cache", "--isolated", "-q", str(folder)],
                "cold": [*lint, "--no-cache", str(folder)],
                "warm": [*lint, "--cache-dir", str(store), str(folder)],
            }
            # what was written a moment ago is read again
            time.sleep(2.5)
            for command in commands.values():
                run_once(command, folder)
            costs: dict[str, list[Cost]] = {}
            for number in range(runs):
                for name, command in commands.items():
                    costs.setdefault(name, []).append(cost_of(command, folder))
                changed = files[number % len(files)]
                changed.write_bytes(changed.read_bytes() + b"\n# changed\n")
                costs.setdefault("one file changed", []).append(cost_of(commands["warm"], folder))
                # once more, so that the next round finds nothing changed
                run_once(commands["warm"], folder)
            base = median_cost(costs["ruff"])
            print(f"{package.name}, {len(files)} files")
            for name, found in costs.items():
                cost = median_cost(found)
                print(
                    f"  {cost.wall_s:8.2f} {cost.cpu_s:8.2f}  {name}"
                    + ("" if name == "ruff" else f": {cost.wall_s / base.wall_s:.1f} × Ruff")
                )
            first: Cost | None = None
            for copies in COPIES:
                for number in range(1, copies + 1):
                    if not (folder / str(number)).exists():
                        copy_project(package, folder / str(number))
                cost = median_cost(cost_of(commands["cold"], folder) for _ in range(max(1, runs // 2)))
                first = first or cost
                peak = peak_memory(commands["cold"], folder)
                print(
                    f"  {cost.wall_s:8.2f} {cost.cpu_s:8.2f}  {copies} cop{'y' if copies == 1 else 'ies'}: "
                    f"{cost.cpu_s / first.cpu_s:.1f} × one in CPU time, {peak:.0f} MiB"
                )


def peak_memory(command: Sequence[str], folder: Path) -> float:
    """Most memory that a command and its children held at one time, in MiB, as proportional set sizes."""
    process = psutil.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_proportional(each) for each in _family(process)))
        time.sleep(SAMPLE_S)
    return peak / 1024**2


def _family(process: psutil.Process) -> Iterator[psutil.Process]:
    yield process
    try:
        yield from process.children(recursive=True)
    except psutil.Error:
        return


def _proportional(process: psutil.Process) -> int:
    """Return bytes, with shared pages in part; the resident size if the system does not report that."""
    try:
        sizes = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(sizes, "pss", sizes.rss))


def tool(given: str | None, name: str) -> str | None:
    """Return the path of a tool: as given, next to this Python, or in PATH."""
    if given:
        return given
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def main() -> None:
    """Build the trees, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="folders", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--torch-python", action="append", default=[], help="take the packages of this Python as well")
    parser.add_argument(
        "--files", type=int, help="so many files, repeated where there are fewer  [default: all that are found]"
    )
    parser.add_argument("--part", type=int, default=500, help="files for the comparison with Flake8 and TorchFix")
    parser.add_argument("--shell-files", type=int, default=300, help="for the comparison with ShellCheck")
    parser.add_argument("--memory-files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--slow-runs", type=int, default=1, help="rounds that include Flake8 and TorchFix")
    for name in ("ruff", "flake8", "torchfix", "shellcheck"):
        parser.add_argument(f"--{name}", metavar="PATH")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--projects", action="store_true", help="compare with Ruff on single packages, and stop")
    parser.add_argument(
        "--package", action="append", default=[], metavar="FOLDER", help="with --projects: this one  [default: three]"
    )
    arguments = parser.parse_args()
    lint = [sys.executable, "-m", "distcheck", "lint", "--isolated", "--no-respect-gitignore", "--statistics"]
    if arguments.projects:
        ruff = tool(arguments.ruff, "ruff")
        if ruff is None:
            sys.exit("no ruff to compare with; give --ruff PATH")
        installed = Path(sysconfig.get_paths()["purelib"])
        chosen = [Path(folder).resolve() for folder in arguments.package] or packages(installed, 3)
        compare_projects(chosen, arguments.runs, lint, ruff)
        return
    files = sources(arguments.folders, arguments.torch_python)
    launch_files = [
        path
        for path in sorted(LAUNCH_FILES.rglob("*"))
        if path.is_file() and path.suffix not in (".py", ".pyc", ".expect") and "__pycache__" not in path.parts
    ]
    if not files:
        sys.exit("no Python file to build a tree from; give --from FOLDER")
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        whole, part, large, store, mixed = (
            Path(scratch, name) for name in ("whole", "part", "large", "store", "mixed")
        )
        counts = build(files, arguments.files or len(files), whole)
        build(files, arguments.files or len(files), mixed)
        launch_copies = build_launch_files(launch_files, counts[0] // 10, mixed)
        shell_files = [str(path) for path in launch_copies if path.suffix in SHELL][: arguments.shell_files]
        step = max(1, len(files) // arguments.part)
        part_counts = build(files[::step], arguments.part, part)
        commands = {
            "distcheck lint, cold": [*lint, "--no-cache", str(whole)],
            "distcheck lint, warm": [*lint, "--cache-dir", str(store), str(whole)],
            "distcheck lint, cold, one process": [*lint, "--no-cache", "-j", "1", str(whole)],
            "distcheck lint, cold, with launch files": [*lint, "--no-cache", str(mixed)],
            "distcheck lint, shell files": [*lint, "--no-cache", *shell_files],
        }
        if shellcheck := tool(arguments.shellcheck, "shellcheck"):
            commands["shellcheck"] = [shellcheck, *shell_files]
        slow = {"distcheck lint, part": [*lint, "--no-cache", str(part)]}
        if ruff := tool(arguments.ruff, "ruff"):
            commands["ruff check"] = [ruff, "check", "--no-cache", "--isolated", "-q", str(whole)]
        if flake8 := tool(arguments.flake8, "flake8"):
            plug_ins = subprocess.run([flake8, "--version"], capture_output=True, text=True).stdout
            if "torchfix" in plug_ins.lower():
                print(f"{flake8} runs TorchFix as well: give --flake8 one without it; skipped", file=sys.stderr)
            else:
                slow["flake8"] = [flake8, "--isolated", str(part)]
        if torchfix := tool(arguments.torchfix, "torchfix"):
            slow["torchfix"] = [torchfix, str(part)]
        run_once(commands["distcheck lint, warm"], whole)
        for command in commands.values():
            run_once(command, whole)
        for number in range(arguments.runs):
            for name, command in commands.items():
                figures.setdefault(name, []).append(run_once(command, whole))
            if number < arguments.slow_runs:
                for name, command in slow.items():
                    figures.setdefault(name, []).append(run_once(command, part))
        large_counts = build(files, arguments.memory_files, large)
        memory = peak_memory([*lint, "--no-cache", str(large)], large)
    median = {name: statistics.median(rows) for name, rows in figures.items()}
    ratios = {
        f"{left} / {right}": (median[left] / median[right], target)
        for left, right, target in RATIOS
        if left in median and right in median
    }
    if arguments.json:
        print(
            json.dumps(
                {
                    "files": counts[0],
                    "lines": counts[1],
                    "median_s": median,
                    "peak_mib": memory,
                    "ratios": {name: ratio for name, (ratio, _) in ratios.items()},
                }
            )
        )
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {arguments.runs} rounds")
    print(f"{counts[0]:,} files, {counts[1]:,} lines; the part: {part_counts[0]:,} files, {part_counts[1]:,} lines")
    print(f"{len(launch_copies):,} launch files; {len(shell_files):,} shell files for ShellCheck")
    for name, seconds in median.items():
        print(f"  {seconds:8.2f} s  {name}")
    for name, (ratio, target) in ratios.items():
        print(f"  {ratio:8.2f}  (target {target})  {name}")
    print(f"  {memory:8.1f} MiB peak on {large_counts[0]:,} files (target ≤ 300)")


if __name__ == "__main__":
    main()
