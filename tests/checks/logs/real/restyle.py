"""Other looks of the same output: how launchers label lines, in which order they come, what stands around them."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone

from .bench import Line

#: What torch and torchrun write before a line of a rank.
_RANK = re.compile(r"^\[(rank\d+)\]:")
#: From here on it is the launcher that speaks.
_LAUNCHER = re.compile(r"^[WE]\d{4} \S+ \d+ torch/distributed/elastic/")
_BEGAN = datetime(2025, 11, 22, 7, 43, 25, tzinfo=timezone.utc)


def plain(lines: Iterable[Line]) -> str:
    """As ``> train.log 2>&1`` has it."""
    return "".join(f"{line.text}\n" for line in lines)


def labelled(lines: Iterable[Line]) -> str:
    """As ``srun --label`` has it: ``3: text``."""
    return "".join(f"{line.process}: {line.text}\n" for line in lines)


def teed(lines: Iterable[Line]) -> str:
    """As torchrun's ``--tee 3`` has it: ``[default3]:text``."""
    return "".join(f"[default{line.process}]:{line.text}\n" for line in lines)


def of_mpirun(lines: Iterable[Line]) -> str:
    """As mpirun's ``--tag-output`` has it."""
    return "".join(f"[1,{line.process}]<stderr>:{line.text}\n" for line in lines)


def of_pods(lines: Iterable[Line]) -> str:
    """As ``kubectl logs --prefix --timestamps`` has it, a pod for each process."""
    return "".join(
        f"[pod/train-worker-{line.process}/pytorch] {_time(number)} {line.text}\n" for number, line in enumerate(lines)
    )


def of_containers(lines: Iterable[Line]) -> str:
    """As a container engine keeps it, behind the label of ``srun``."""
    return "".join(f"{_time(number)} stderr F {line.process}: {line.text}\n" for number, line in enumerate(lines))


def _time(number: int) -> str:
    return (_BEGAN + timedelta(milliseconds=7 * number)).isoformat(timespec="microseconds").replace("+00:00", "Z")


STYLES: Mapping[str, Callable[[Iterable[Line]], str]] = {
    "label": labelled,
    "tee": teed,
    "mpirun": of_mpirun,
    "pods": of_pods,
    "containers": of_containers,
}


def files(lines: Iterable[Line], name: str = "rank_{}.log") -> dict[str, str]:
    """A file for each process."""
    texts: dict[int, list[str]] = defaultdict(list)
    for line in lines:
        texts[line.process].append(f"{line.text}\n")
    return {name.format(process): "".join(text) for process, text in texts.items()}


def shuffled(lines: Sequence[Line], seed: int) -> list[Line]:
    """Other interleaving of the processes: the order within each stays."""
    chance = random.Random(seed)
    end = next((number for number, line in enumerate(lines) if _LAUNCHER.match(line.text)), len(lines))
    streams: dict[tuple[int, str], list[Line]] = defaultdict(list)
    for line in lines[:end]:
        match = _RANK.match(line.text)
        streams[line.process, match[1] if match else ""].append(line)
    order = [key for key, stream in streams.items() for _ in stream]
    chance.shuffle(order)
    waiting = {key: iter(stream) for key, stream in streams.items()}
    return [*(next(waiting[key]) for key in order), *lines[end:]]


def noise(count: int, seed: int) -> list[str]:
    """Ordinary lines of a training."""
    chance = random.Random(seed)
    made = []
    for step in range(count):
        kind = chance.randrange(12)
        if kind < 8:
            made.append(f"step {step} | loss {chance.random() * 4:.4f} | grad norm {chance.random():.3f} | lr 3.0e-04")
        elif kind == 8:
            made.append(f"[{_time(step)[:19]}] iteration {step}/ 500000 | consumed samples: {step * 64} | skipped: 0")
        elif kind == 9:
            made.append(f"INFO:data.shards:shard {step % 977} opened, 0 errors, 0 timeouts, {step} samples")
        elif kind == 10:
            made.append(f"/workspace/train.py:{step % 300}: UserWarning: a slow path is used for batch {step}")
        else:
            made.append(f"epoch {step % 7}: {step % 100:3d}%|####      | {step % 100}/100 [00:12<00:18, 4.91it/s]")
    return made


def in_noise(text: str, *, before: int, between: int, after: int, seed: int) -> str:
    """The text with noise before, between some of its lines, and after it."""
    chance = random.Random(seed)
    lines = text.splitlines(keepends=True)
    made = [f"{line}\n" for line in noise(before, seed)]
    inner = iter(noise(between, seed + 1))
    for line in lines:
        made.append(line)
        if chance.random() < 0.2:
            made += [f"{extra}\n" for extra, _ in zip(inner, range(chance.randrange(40)), strict=False)]
    made += [f"{line}\n" for line in noise(after, seed + 2)]
    return "".join(made)
