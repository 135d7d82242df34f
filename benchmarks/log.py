"""How fast `distcheck log` reads, against `grep -E` with the same signatures joined: ratios of one run.

    python benchmarks/log.py [--size 1000] [--files 4] [--runs 3] [--folder DIR] [--repeat notice|failure] [--json]

It writes a log of 512 ranks: training steps, progress bars, NCCL's lines, harmless warnings, and at its end a real
failure: one rank runs out of memory, the others lose it, torchrun writes its table. Each program is run in turn, one
round after the other, with the file in the page cache, and its best round counts. Nothing else should run meanwhile.
grep only prints matching lines; distcheck also parses and ranks them, and finds the root cause. With ``--repeat`` one
line in six is a line that all ranks repeat: a harmless warning of torch, or NCCL's line about a failed call.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RANKS = 512
GPUS = 8
#: Seconds after which a program is not waited for.
LIMIT_S = 900
#: What distcheck may need of memory, in bytes, and how much slower than grep it may be.
MOST_MEMORY = 150e6
LEAST_RATIO = 1 / 3
#: Lines of other text between two repeated ones.
APART = 5
#: What all ranks repeat, with the rank, its node, GPU and process, and a number that differs.
REPEATED = {
    "notice": "[rank{rank}]:[W301 00:00:01.{number:09} reducer.cpp:1457] Warning: find_unused_parameters=True was "
    "specified in DDP constructor, but did not find any unused parameters in the forward pass. (function operator())",
    "failure": "node{node:03}:{pid}:{pid} [{gpu}] NCCL WARN Call to ibv_modify_qp failed with error Connection "
    "timed out errno {number}",
}


def step_lines(step: int, chance: random.Random) -> str:
    """What all ranks print at one step."""
    lines = []
    clock = f"2026-03-01 {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"
    for rank in range(RANKS):
        loss, speed = chance.random() * 3, chance.randint(9000, 12000)
        lines.append(
            f"[rank{rank}]: {clock},{chance.randint(0, 999):03} INFO train.py:212 step {step} loss {loss:.4f} "
            f"lr 3.0e-04 grad_norm {chance.random():.3f} tokens/s {speed} mem 61.2GB"
        )
        if rank % 64 == 0:
            lines.append(
                f"[rank{rank}]: Epoch 3:  {step % 100}%|####      | {step}/90000 [00:10<01:33, {loss:.2f}it/s]"
            )
        if rank % 128 == 5 and step % 50 == 0:
            lines.append(f"[rank{rank}]: validation: error rate {chance.random():.3f}, top-5 {chance.random():.3f}")
    return "\n".join(lines) + "\n"


def start_lines() -> str:
    """Return the first output of a healthy job, with harmless warnings."""
    lines = []
    for rank in range(RANKS):
        host, gpu, pid = f"node{rank // GPUS:03}", rank % GPUS, 4000 + rank
        here = f"{host}:{pid}:{pid + 90} [{gpu}] NCCL INFO"
        lines += [
            f"[rank{rank}]:[W301 00:00:00.100000000 socket.cpp:752] [c10d] The client socket cannot be initialized to "
            f"connect to [{host}]:29500 (errno: 97 - Address family not supported by protocol).",
            f"{here} NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.{rank // GPUS}.4<0>",
            f"{here} ncclCommInitRank comm 0x{rank:x}f0 rank {rank} nranks {RANKS} cudaDev {gpu} nvmlDev {gpu} "
            "busId 1b000 commId 0xb3f00 - Init COMPLETE",
        ]
        lines += [
            f"{here} Channel {channel:02}/0 : {rank}[{gpu}] -> {(rank + 1) % RANKS}[{(gpu + 1) % GPUS}] via P2P/CUMEM"
            for channel in range(16)
        ]
    return "\n".join(lines) + "\n"


def end_lines() -> str:
    """The failure: rank 317 runs out of memory."""
    lines = [
        "[rank317]: Traceback (most recent call last):",
        '[rank317]:   File "/workspace/train.py", line 301, in <module>',
        "[rank317]:     main()",
        '[rank317]:   File "/workspace/train.py", line 212, in main',
        "[rank317]:     loss.backward()",
        "[rank317]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity "
        "of 79.15 GiB of which 1.20 GiB is free.",
    ]
    lines += [
        f"[rank{rank}]:[E301 10:00:00.100000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=90017, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) "
        f"ran for 60{rank:04} milliseconds before timing out."
        for rank in range(RANKS)
        if rank != 317
    ]
    lines += [
        "E0301 10:10:00.100000 4000 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) "
        "local_rank: 5 (pid: 4317) of binary: /usr/bin/python",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ]
    return "\n".join(lines) + "\n"


def with_repeated(lines: str, repeat: str, chance: random.Random) -> str:
    """Add a repeated line after each few lines."""
    made = []
    for number, line in enumerate(lines.splitlines()):
        made.append(line)
        if number % APART == APART - 1:
            rank = number % RANKS
            node, gpu = divmod(rank, GPUS)
            made.append(
                REPEATED[repeat].format(
                    rank=rank, node=node, gpu=gpu, pid=4000 + rank, number=chance.randint(4000, 9999)
                )
            )
    return "\n".join(made) + "\n"


def write_log(path: Path, size: int, repeat: str | None = None) -> int:
    """Write a log of about so many bytes; its true size."""
    chance = random.Random(1)
    # a block of steps again and again: what is measured is the reading
    texts = [step_lines(step, chance) for step in range(200)]
    steps = [(with_repeated(text, repeat, chance) if repeat else text).encode() for text in texts]
    with path.open("wb") as stream:
        stream.write(start_lines().encode())
        number = 0
        while stream.tell() < size:
            stream.write(steps[number % len(steps)])
            number += 1
        stream.write(end_lines().encode())
        return stream.tell()


def extended(pattern: str) -> str:
    """A signature in the syntax of `grep -E`."""
    from distcheck.checks.logs.patterns import IGNORE_CASE, tokens_of

    classes = {"\\d": "0-9", "\\w": "[:alnum:]_", "\\s": "[:space:]", "\\n": "", "\\t": "\t", "\\r": "\r"}
    plain = {"\\d": "[0-9]", "\\D": "[^0-9]", "\\S": "[^[:space:]]"}
    fold = pattern.startswith(IGNORE_CASE)
    parts = []
    for token in tokens_of(pattern.removeprefix(IGNORE_CASE)):
        if token.kind == "open":
            parts.append("(")
        elif token.kind == "repeat":
            parts.append(token.raw[:-1] if len(token.raw) > 1 and token.raw.endswith("?") else token.raw)
        elif token.kind == "class":
            parts.append(_class(token.raw, classes))
        elif token.kind == "literal":
            letter = token.text
            if fold and letter.isalpha():
                parts.append(f"[{letter.lower()}{letter.upper()}]")
            else:
                parts.append(("\\" if letter in ".[]{}()\\*+?|^$" else "") + letter)
        elif token.kind == "space":
            parts.append("[[:space:]]")
        else:
            parts.append(plain.get(token.raw, token.raw))
    return "".join(parts)


def _class(raw: str, names: dict[str, str]) -> str:
    """A bracket expression, in which POSIX knows no backslash."""
    body, begin = raw[1:-1], ""
    if body.startswith("^"):
        body, begin = body[1:], "^"
    first = last = rest = ""
    position = 0
    while position < len(body):
        escaped = body[position] == "\\"
        piece = body[position : position + 1 + escaped]
        position += len(piece)
        if piece in names:
            rest += names[piece]
        elif piece[-1] == "]":
            first = "]"
        elif piece == "\\-" or (piece == "-" and position == len(body)):
            last = "-"
        else:
            rest += piece[-1]
    inside = f"{first}{rest}{last}"
    return f"[{begin}{inside}]" if inside else "."


class Cost(NamedTuple):
    """What a program cost in its best round."""

    wall_s: float
    #: of one core: what other programs do meanwhile disturbs it less
    processor_s: float
    peak_bytes: float


def measure(command: list[str], runs: int, **more: Any) -> Cost:
    """Run a program several times."""
    wall = processor = float("inf")
    peak = 0.0
    for _ in range(runs):
        start = time.perf_counter()
        # a grep that writes to /dev/null ends at the first line that fits
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(command, stdout=output, stderr=output, **more)
            _, status, usage = os.wait4(child.pid, 0)
        wall = min(wall, time.perf_counter() - start)
        processor = min(processor, usage.ru_utime + usage.ru_stime)
        peak = max(peak, usage.ru_maxrss * 1024.0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode < 0 or (command[0] == "grep" and child.returncode > 1):
            sys.exit(f"{command[:3]} ended with {child.returncode}")
    return Cost(wall, processor, peak)


def limits() -> None:
    """What a program that runs wild may use."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="megabytes of the log")
    parser.add_argument("--files", type=int, default=os.cpu_count() or 1, help="files that are read at once")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", help="where the logs are written (default: a temporary folder)")
    parser.add_argument("--repeat", choices=tuple(REPEATED), help="one line in six is one that all ranks repeat")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    from distcheck.checks.logs.reading import signatures

    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        found = run(
            Path(folder), arguments.size * 10**6, arguments.files, arguments.runs, signatures(), arguments.repeat
        )
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {found['grep']}")
    print(
        f"{found['signatures']} signatures, one log of {found['bytes'] / 1e6:.0f} MB, {found['files']} of a part each"
    )
    for name, figure in found["mb_per_s"].items():
        print(f"  {figure:8.0f} MB/s  {name}")
    for name, figure in found["ratios"].items():
        print(f"  {figure:8.2f}       {name}")
    for name, figure in found["peak_mb"].items():
        print(f"  {figure:8.0f} MB    {name}")


def run(folder: Path, size: int, files: int, runs: int, rows: Any, repeat: str | None = None) -> dict[str, Any]:
    """All figures."""
    one = folder / "one" / "train.log"
    many = folder / "many"
    one.parent.mkdir()
    many.mkdir()
    total = write_log(one, size, repeat)
    parts = sum(write_log(many / f"rank_{number}.log", size // files, repeat) for number in range(files))
    script = folder / "signatures"
    script.write_text("\n".join(extended(row.pattern) for row in rows) + "\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "distcheck", "log"]
    options: dict[str, Any] = {"env": environment, "preexec_fn": limits}
    grep = measure(["grep", "-E", "-f", str(script), str(one)], runs, **options)
    ours = measure([*command, "--jobs", "1", str(one)], runs, **options)
    all_cores = measure([*command, "--jobs", str(os.cpu_count() or 1), str(many)], runs, **options)
    version = subprocess.run(["grep", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return {
        "grep": version,
        "signatures": len(rows),
        "bytes": total,
        "files": files,
        "mb_per_s": {
            "grep -E, LC_ALL=C, one file": total / grep.wall_s / 1e6,
            "distcheck log, one file, one core": total / ours.wall_s / 1e6,
            f"distcheck log, {files} files, all cores": parts / all_cores.wall_s / 1e6,
            "grep -E, by processor time": total / grep.processor_s / 1e6,
            "distcheck log, one file, by processor time": total / ours.processor_s / 1e6,
        },
        "ratios": {
            f"distcheck log / grep -E, one core (target: at least {LEAST_RATIO:.2f})": grep.wall_s / ours.wall_s,
            "the same by processor time": grep.processor_s / ours.processor_s,
            "distcheck log, several files on all cores / one file": parts / all_cores.wall_s / (total / ours.wall_s),
        },
        "peak_mb": {
            f"distcheck log, one file (target: at most {MOST_MEMORY / 1e6:.0f})": ours.peak_bytes / 1e6,
            "grep -E": grep.peak_bytes / 1e6,
        },
    }


if __name__ == "__main__":
    main()
