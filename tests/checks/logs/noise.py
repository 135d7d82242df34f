"""Makes logs longer, mixed up, cut and told in another style, without changing what happened.

For the properties that hold for every labelled log: the same cause is told after each of these. All functions take and
give bytes, depend on nothing but their arguments (the seed among them), and keep the order of each writer's lines.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

#: How a line names its rank; the text that is left of the line follows.
_RANK = re.compile(
    rb"^(?P<before>(?:\d{4}-\d\d-\d\dT\S+Z )?)(?:\[rank(?P<rank>\d+)\]: ?|\[default(?P<local>\d+)\]: ?"
    rb"|(?P<task>\d{1,4}): |\[1,(?P<mpi>\d+)\]<std(?:err|out)>: ?)"
)
#: Where NCCL names the host that a line is from.
_NCCL_HOST = re.compile(rb"([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] ")
_WORDS = ("batch", "shard", "bucket", "prefetch", "tokens", "images", "clips", "graphs")

Line = Callable[[random.Random, int], str]


# lines of a training that is well


def _step(rng: random.Random, number: int) -> str:
    return f"step {number:>7} | loss {rng.uniform(1.1, 3.4):.4f} | lr {rng.uniform(1e-5, 3e-4):.2e} | {rng.randint(900, 9000)} tok/s"


def _huggingface(rng: random.Random, number: int) -> str:
    return str(
        {
            "loss": round(rng.uniform(0.2, 3.0), 4),
            "grad_norm": round(rng.uniform(0.1, 2.0), 6),
            "learning_rate": 2e-05,
            "epoch": round(number / 977, 2),
        }
    )


def _progress_bar(rng: random.Random, number: int) -> str:
    percent = number % 101
    bars = "█" * (percent // 10)
    done = [
        f"\r{share:>3}%|{bars:<10}| {share * 12}/1200 [00:{share % 60:02}<02:11,  {rng.uniform(2, 9):.2f}it/s]"
        for share in (percent, 100)
    ]
    return "".join(done)


def _lightning(rng: random.Random, number: int) -> str:
    return f"Epoch {number % 40}: 100%|██████████| 391/391 [01:04<00:00,  6.0{rng.randint(0, 9)}it/s, v_num=3, train_loss={rng.uniform(0.1, 2):.3f}]"


def _deepspeed(rng: random.Random, number: int) -> str:
    return (
        f"[2026-11-22 07:{number // 60 % 60:02}:{number % 60:02},{rng.randint(0, 999):03}] [INFO] [logging.py:96:log_dist] [Rank 0] "
        f"step={number}, skipped=0, lr=[1e-05], mom=[[0.9, 0.95]]"
    )


def _megatron(rng: random.Random, number: int) -> str:
    return (
        f" iteration {number:>8}/  500000 | consumed samples: {number * 256:>12} | elapsed time per iteration (ms): "
        f"{rng.uniform(300, 900):.1f} | learning rate: 1.500E-04 | lm loss: {rng.uniform(1, 8):.6E} | number of nan iterations:   0 |"
    )


def _json(rng: random.Random, number: int) -> str:
    return f'{{"step": {number}, "loss": {rng.uniform(0.5, 4):.5f}, "tps": {rng.randint(1000, 9999)}, "mfu": {rng.uniform(20, 55):.2f}}}'


PROGRESS: tuple[Line, ...] = (_step, _huggingface, _progress_bar, _lightning, _deepspeed, _megatron, _json)


# lines that may stand anywhere


def _data(rng: random.Random, number: int) -> str:
    return f"INFO:data: {rng.choice(_WORDS)} {number} of {rng.choice(_WORDS)} took {rng.uniform(0.1, 9):.2f} s"


def _future_warning(rng: random.Random, number: int) -> str:
    return (
        f"/opt/env/lib/python3.11/site-packages/lib{number % 7}/utils.py:{rng.randint(10, 900)}: FutureWarning: `clean_up` was "
        "not set. It will be set to `True` by default."
    )


def _tokenizers(rng: random.Random, number: int) -> str:
    return "huggingface/tokenizers: The current process just got forked, after parallelism has already been used."


def _wandb(rng: random.Random, number: int) -> str:
    return f"wandb: Tracking run with wandb version 0.19.{number % 10}; wandb: ⭐️ View project at https://wandb.example/run{rng.randint(1, 99)}"


def _table(rng: random.Random, number: int) -> str:
    return f"| {rng.choice(_WORDS):<12} | {number:>9} | {rng.uniform(0, 100):>8.2f} |  None |"


def _smi(rng: random.Random, number: int) -> str:
    return f"|  {number % 8}  NVIDIA A100-SXM4-80GB   On  | 00000000:{number % 99:02}:00.0 Off | {rng.randint(30, 70)}C  P0  {rng.randint(60, 400)}W / 400W |"


def _compile(rng: random.Random, number: int) -> str:
    return f"I1122 07:11:{number % 60:02}.{rng.randint(0, 999999):06} 811 torch/_dynamo/utils.py:1603] [0/{number % 9}] compiling function forward"


def _checkpoint(rng: random.Random, number: int) -> str:
    return f"INFO - saved checkpoint-{number} ({rng.uniform(0.2, 30):.1f} GB) in {rng.uniform(1, 90):.1f} s"


def _errors_counted(rng: random.Random, number: int) -> str:
    return f"val {number}: word error rate {rng.uniform(1, 30):.2f} %, 0 errors, 0 failed samples, no exceptions"


NEUTRAL: tuple[Line, ...] = (
    _data,
    _future_warning,
    _tokenizers,
    _wandb,
    _table,
    _smi,
    _compile,
    _checkpoint,
    _errors_counted,
)


def _nccl_info(host: str) -> Line:
    def line(rng: random.Random, number: int) -> str:
        device = number % 4
        text = rng.choice(
            (
                f"Channel {number % 16:02}/16 : {device}[{device}] -> {device + 1}[{device + 1}] via P2P/CUMEM/read",
                "Connected all rings",
                "Connected all trees",
                "threadThresholds 8/8/64 | 64/8/64 | 512 | 512",
            )
        )
        return f"{host}:{4100 + device}:{4300 + device} [{device}] NCCL INFO {text}"

    return line


def training_noise(count: int, seed: int = 0, *, kinds: Sequence[Line] = PROGRESS + NEUTRAL) -> list[bytes]:
    """So many lines of an ordinary training, in runs of one style as programs write them."""
    rng = random.Random(seed)
    lines: list[bytes] = []
    while len(lines) < count:
        kind = rng.choice(kinds)
        for _ in range(min(rng.randint(1, 40), count - len(lines))):
            lines.append(kind(rng, len(lines)).encode())
    return lines


# what is done to a log


def interleave(logs: Sequence[bytes], seed: int = 0) -> bytes:
    """The lines of several writers in one file, at random, each writer's in its order."""
    rng = random.Random(seed)
    queues = [log.splitlines() for log in logs]
    order = [number for number, queue in enumerate(queues) for _ in queue]
    rng.shuffle(order)
    places = [iter(queue) for queue in queues]
    return b"\n".join(next(places[number]) for number in order) + b"\n"


def shuffle_ranks(log: bytes, seed: int = 0) -> bytes:
    """The lines of one log mixed anew among its ranks; lines without a rank stay where they are.

    What one rank wrote keeps its order, as the lines between two that have no rank do.
    """
    rng = random.Random(seed)
    done: list[bytes] = []
    batch: list[bytes] = []
    for line in [*log.splitlines(), None]:
        if line is not None and _RANK.match(line):
            batch.append(line)
            continue
        if batch:
            by_rank: dict[bytes, list[bytes]] = {}
            for one in batch:
                match = _RANK.match(one)
                by_rank.setdefault(match[0][len(match["before"]) :].rstrip() if match else b"", []).append(one)
            done += interleave([b"\n".join(lines) for lines in by_rank.values()], rng.randrange(1 << 30)).splitlines()
            batch = []
        if line is not None:
            done.append(line)
    return b"\n".join(done) + b"\n"


#: How launchers write the number of a process before its lines.
STYLES: dict[str, str] = {
    "rank": "[rank{number}]: ",
    "default": "[default{number}]:",
    "slurm": "{number}: ",
    "mpi": "[1,{number}]<stderr>: ",
    "kubernetes": "2026-11-22T08:03:{second:02}.{fraction:09}Z [rank{number}]: ",
    "colour": "\x1b[3{colour}m[rank{number}]: \x1b[0m",
    "none": "",
}


def reprefix(log: bytes, style: str) -> bytes:
    """The same lines as another launcher would have them, one of STYLES; lines without a rank are left alone.

    ``default`` and ``slurm`` say the local rank and the task: for a job on one node these are the rank.
    """
    lines = []
    for count, line in enumerate(log.splitlines()):
        match = _RANK.match(line)
        if match is None:
            lines.append(line)
            continue
        number = next(int(match[name]) for name in ("rank", "local", "task", "mpi") if match[name] is not None)
        prefix = STYLES[style].format(number=number, second=count // 1000 % 60, fraction=count, colour=1 + number % 6)
        lines.append(prefix.encode() + line[match.end() :])
    return b"\n".join(lines) + b"\n"


def truncate_ends(log: bytes, head: int, tail: int) -> bytes:
    """The log without its first and its last lines: of a scrolled terminal, of a pasted text."""
    lines = log.splitlines()
    return b"\n".join(lines[head : max(len(lines) - tail, head)]) + b"\n"


def drop_rank_file(texts: dict[str, bytes], name: str) -> dict[str, bytes]:
    """A folder of logs without one of its files, as where a node's disk went with it."""
    return {other: data for other, data in texts.items() if other != name}


def drop_rank(log: bytes, rank: int) -> bytes:
    """A log without the lines that one rank wrote."""
    kept = []
    for line in log.splitlines():
        match = _RANK.match(line)
        numbers = [match[name] for name in ("rank", "local", "task", "mpi")] if match else []
        if str(rank).encode() not in numbers:
            kept.append(line)
    return b"\n".join(kept) + b"\n"


def surround_with_noise(log: bytes, lines: int = 100_000, seed: int = 0) -> bytes:
    """The log behind and among lines of an ordinary training.

    Steps come before only: a job that steps on has survived. What may stand anywhere comes between its lines as well,
    but not into a traceback, which one process writes at once.
    """
    rng = random.Random(seed)
    host = _NCCL_HOST.search(log)
    neutral = NEUTRAL if host is None else (*NEUTRAL, _nccl_info(host[1].decode("latin-1")))
    before = training_noise(lines * 9 // 10, seed, kinds=PROGRESS + neutral)
    among = training_noise(lines - len(before), seed + 1, kinds=neutral)
    own = log.splitlines()
    gaps = sorted(rng.choices(_gaps(own), k=len(among)))
    result, used = list(before), 0
    for number, line in enumerate(own):
        while used < len(gaps) and gaps[used] <= number:
            result.append(among[used])
            used += 1
        result.append(line)
    return b"\n".join([*result, *among[used:]]) + b"\n"


def _gaps(lines: Sequence[bytes]) -> list[int]:
    """Before which lines something of another writer may stand: not within a traceback or a launcher's table."""
    gaps: list[int] = [0]
    inside = False
    for number, line in enumerate(lines):
        match = _RANK.match(line)
        text = line[match.end() :] if match else line
        if text.startswith((b"Traceback (most recent", b"=====", b"-----", b"*****")):
            inside = True
        elif inside and text[:1] not in (b" ", b"\t", b"") and number + 1 < len(lines):
            following = lines[number + 1]
            other = _RANK.match(following)
            text_after = following[other.end() :] if other else following
            inside = text_after[:1] in (b" ", b"\t", b"") or not re.match(
                rb"(?:Traceback|\[|\w+: |srun|W\d|E\d|step )", text_after
            )
        elif not inside and text[:1] not in (b" ", b"\t", b""):
            gaps.append(number)
    return gaps
