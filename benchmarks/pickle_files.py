"""How fast and how small ``distcheck pickle FILE`` is, as ratios against other scanners in the same run.

    python benchmarks/pickle_files.py [--scanners ENVIRONMENT/bin] [--runs 5]

Files are made here: checkpoints small and large, a sparse one of 10 GB, raw pickles of many opcodes, a folder of a
thousand. Whole commands are run, start-up included, in turn, one round after the other, so that a machine whose speed
drifts slows all of them alike; the median of each is compared. The memory is the largest resident size of one process,
as the kernel reports it when the command has ended. picklescan, fickling and modelscan are compared where they are
installed: next to this Python, or in the folder of ``--scanners``. A command that outlasts ``--limit`` is ended,
and one that reports that it could not read a file is skipped for that file; both are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import shutil
import signal
import statistics
import struct
import sys
import tempfile
import threading
import time
import traceback
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

# as protocol 2 writes them; torch is not needed to make the files
KEYS = (b"X\7\0\0\0storage", b"ctorch\nFloatStorage\n", b"X\3\0\0\0cpu")


def text(value: str) -> bytes:
    """BINUNICODE."""
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value: int) -> bytes:
    """BININT, LONG1."""
    if value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def tensor(key: str, count: int, *, legacy: bool = False) -> bytes:
    """A tensor of one dimension as torch.save writes it."""
    kept = b"(" + KEYS[0] + KEYS[1] + text(key) + KEYS[2] + number(count) + (b"N" if legacy else b"") + b"tQ"
    rest = b"K\0" + number(count) + b"\x85K\1\x85\x89ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + kept + rest + b"tR"


def state_dict(sizes: Sequence[int], *, legacy: bool = False) -> bytes:
    """The pickle of a dictionary of tensors of so many elements."""
    rows = b"".join(
        text(f"layer{place}.weight") + tensor(str(place), size, legacy=legacy) for place, size in enumerate(sizes)
    )
    return b"\x80\2}(" + rows + b"u."


def torch_zip(path: Path, sizes: Sequence[int]) -> None:
    """A checkpoint of tensors of so many float32 elements, with bytes that do not compress."""
    block = os.urandom(1 << 20)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", state_dict(sizes))
        archive.writestr("archive/byteorder", "little")
        for place, size in enumerate(sizes):
            with archive.open(f"archive/data/{place}", "w", force_zip64=size > 1 << 28) as member:
                for start in range(0, 4 * size, len(block)):
                    member.write(block[: 4 * size - start])
        archive.writestr("archive/version", "3\n")


def torch_legacy(path: Path, sizes: Sequence[int]) -> None:
    """The same in the format from before zip files."""
    block = os.urandom(1 << 20)
    header = b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}."
    keys = b"\x80\2](" + b"".join(text(str(place)) for place in range(len(sizes))) + b"e."
    with open(path, "wb") as file:
        file.write(header + state_dict(sizes, legacy=True) + keys)
        for size in sizes:
            file.write(struct.pack("<q", size))
            for start in range(0, 4 * size, len(block)):
                file.write(block[: 4 * size - start])


def sparse_zip(path: Path, size: int) -> None:
    """A checkpoint with one tensor of so many bytes that takes no room on the disk."""
    directory = b""
    with open(path, "wb") as file:
        for name, content in (
            ("archive/data.pkl", state_dict([size // 4])),
            ("archive/byteorder", b"little"),
            ("archive/version", b"3\n"),
            ("archive/data/0", None),
        ):
            place, length = file.tell(), size if content is None else len(content)
            sums = 0 if content is None else zlib.crc32(content)
            wide = struct.pack("<HHQQ", 1, 16, length, length)
            fields = (0, 0, 0, 0, sums, 0xFFFFFFFF, 0xFFFFFFFF, len(name))
            file.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, *fields, len(wide)) + name.encode() + wide)
            if content is None:
                file.seek(length, os.SEEK_CUR)
            else:
                file.write(content)
            wide = struct.pack("<HHQQQ", 1, 24, length, length, place)
            directory += struct.pack(
                "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 45, 45, *fields, len(wide), 0, 0, 0, 0, 0xFFFFFFFF
            )
            directory += name.encode() + wide
        start = file.tell()
        file.write(directory)
        file.write(struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 4, 4, len(directory), start))
        file.write(struct.pack("<4sIQI", b"PK\6\7", 0, start + len(directory), 1))
        file.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 4, 4, len(directory), 0xFFFFFFFF, 0))


def integers(path: Path, count: int) -> None:
    """A raw pickle: a dictionary of so many integers."""
    path.write_bytes(pickle.dumps({value: 7 * value for value in range(count)}, 2))


def dictionaries(path: Path, count: int) -> None:
    """A raw pickle: a list of so many dictionaries."""
    path.write_bytes(pickle.dumps([{"id": value} for value in range(count)], 2))


def folder(path: Path, count: int) -> None:
    """A folder of small checkpoints."""
    path.mkdir()
    torch_zip(path / "first.pt", [8, 8])
    content = (path / "first.pt").read_bytes()
    for place in range(1, count):
        (path / f"{place:04}.pt").write_bytes(content)


#: what is scanned → how its file ends, and how it is made
FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "small checkpoint": (".pt", lambda path: torch_zip(path, [8, 8])),
    "200 MB checkpoint": (".pt", lambda path: torch_zip(path, [25_000_000] * 2)),
    "200 MB legacy checkpoint": (".pt", lambda path: torch_legacy(path, [25_000_000] * 2)),
    "10 GB sparse checkpoint": (".pt", lambda path: sparse_zip(path, 10_000_000_000)),
    "checkpoint of 5,000 tensors": (".pt", lambda path: torch_zip(path, [4] * 5000)),
    "10 MB pickle, 2e6 integers": (".pkl", lambda path: integers(path, 1_000_000)),
    "pickle of 200,000 dictionaries": (".pkl", lambda path: dictionaries(path, 200_000)),
    "folder of 1,000 checkpoints": ("", lambda path: folder(path, 1000)),
}
#: command → what stands before the path
OTHERS = {"picklescan": ["-p"], "modelscan": ["-p"], "fickling": ["--check-safety"]}


class Run(NamedTuple):
    """One run of a command."""

    seconds: float
    #: largest resident size of the process, or of a child that it waited for
    peak_mib: float
    #: -9 where it was ended at the limit
    status: int


def run_once(command: Sequence[str], limit: float, output: str = os.devnull) -> Run:
    """Run a command to its end, or to the limit, in seconds."""
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    start = time.perf_counter()
    child = os.posix_spawn(
        command[0],
        command,
        {**os.environ, "NO_COLOR": "1"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, writing, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setpgroup=0,
    )
    alarm = threading.Timer(limit, os.killpg, (child, signal.SIGKILL))
    alarm.start()
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - start
    alarm.cancel()
    return Run(seconds, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status))


def in_a_child(make: Callable[[Path], None], path: Path) -> None:
    """Make a file in another process: the kernel counts this one's memory as that of the commands that it starts."""
    child = os.fork()
    if not child:
        try:
            make(path)
        except BaseException:  # noqa: BLE001 - reported, and ended with
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{path.name} could not be made")


def did_scan(run: Run, output: str) -> bool:
    """Whether a command read the file: 0 and 1 are verdicts of these four, other statuses and tracebacks are none."""
    with open(output, encoding="utf-8", errors="replace") as file:
        return run.status in (0, 1) and "Traceback" not in file.read()


def main() -> None:
    """Make the files, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scanners", metavar="FOLDER", help="where the other scanners' commands are")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one run of a command")
    parser.add_argument("--only", action="append", metavar="TEXT", help="only files whose name holds this")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    commands = {"distcheck": [sys.executable, "-m", "distcheck", "pickle"]}
    for name, options in OTHERS.items():
        where = os.path.abspath(arguments.scanners or Path(sys.executable).parent)
        if found := shutil.which(name, path=where) or shutil.which(name):
            commands[name] = [found, *options]
    rows: dict[str, dict[str, dict[str, float]]] = {}
    apart: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        # where no project's settings are found, and a command may leave a file
        os.chdir(scratch)
        output = str(Path(scratch, "output"))
        for place, (label, (ending, make)) in enumerate(FILES.items()):
            if arguments.only and not any(part in label for part in arguments.only):
                continue
            path = Path(scratch, f"{place}{ending}")
            in_a_child(make, path)
            chosen: dict[str, list[str]] = {}
            for name, command in commands.items():  # this round warms the disk's cache
                run = run_once([*command, str(path)], arguments.limit, output)
                if run.status == -signal.SIGKILL:
                    apart.setdefault(label, {})[name] = f"not done after {arguments.limit:g} s"
                elif not did_scan(run, output):
                    apart.setdefault(label, {})[name] = f"does not read it (status {run.status})"
                else:
                    chosen[name] = [*command, str(path)]
            runs: dict[str, list[Run]] = {}
            for _ in range(arguments.runs):
                for name, command in chosen.items():
                    runs.setdefault(name, []).append(run_once(command, arguments.limit))
            medians = {name: statistics.median(run.seconds for run in each) for name, each in runs.items()}
            rows[label] = {
                name: {
                    "median_s": medians[name],
                    "peak_mib": max(run.peak_mib for run in each),
                    "ratio": medians[name] / medians["distcheck"],
                }
                for name, each in runs.items()
            }
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if arguments.json:
        print(json.dumps({"files": rows, "apart": apart}))
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {arguments.runs} rounds; ratios to distcheck")
    for label, figures in rows.items():
        print(label)
        for name, figure in figures.items():
            print(f"  {figure['median_s']:8.3f} s  {figure['ratio']:7.1f}  {figure['peak_mib']:7.1f} MiB  {name}")
        for name, why in apart.get(label, {}).items():
            print(f"  {name} {why}")


if __name__ == "__main__":
    main()
