"""What finding all unpicklable members of a live object costs, as ratios against one ``pickle.dumps`` of it.

    python benchmarks/pickle_objects.py [--runs 5] [--slow-s 20] [--json]

Each object is pickled and searched in turn, one round after the other, and the medians are compared. Ray's
``inspect_serializability`` and dill's ``detect`` are run once on the same objects where they are installed next to this
Python, each in a process of its own that is ended after ``--slow-s`` seconds; for them what they found counts as well.
The state dict is omitted where there is no torch. Memory is the most that Python had allocated at once (tracemalloc),
in a run of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import pickle
import platform
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from distcheck.checks.pickles.objects import find_unpicklable

#: name of the object → the most that the search may cost, as a multiple of one pickle.dumps; None: no target
TARGETS = {
    "200,000 small objects": 1.5,
    "dict of 1,000,000 ints": 2.0,
    "1,000,000 small lists": None,
    "200 MB state dict": 0.1,
    "200 lists that share 1,000 objects": None,
}


class Small:
    """An object with three attributes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.text = f"x{number}"
        self.ratio = 1.5


class Holder:
    """An object with what it is given."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def state_dict() -> Any:
    """Fifty tensors of 4 MB."""
    import torch

    return {f"layer{number}.weight": torch.zeros(1_000_000) for number in range(50)}


def shared() -> Any:
    """Lists that hold the same objects."""
    parts = [Small(number) for number in range(1000)]
    return [list(parts) for _ in range(200)]


def nested(levels: int, inner: Any) -> Any:
    """A list in a list in a list."""
    for _ in range(levels):
        inner = [inner]
    return inner


def three_places() -> Any:
    """Three offenders that no pickler can write, at depths 1, 3 and 6."""
    import queue
    import sqlite3

    return Holder(
        db=sqlite3.connect(":memory:"),
        cfg={"opt": {"q": queue.SimpleQueue()}},
        trainer=Holder(loader=Holder(workers=[1, {"iter": (each for each in ())}])),
    )


def chain() -> Any:
    """Two hundred objects, each with ten thousand ints, and a lock at the end."""
    value: Any = threading.Lock()
    for _ in range(200):
        value = Holder(next=value, numbers=list(range(10_000)))
    return value


PICKLABLE: dict[str, Callable[[], Any]] = {
    "200,000 small objects": lambda: [Small(number) for number in range(200_000)],
    "dict of 1,000,000 ints": lambda: {number: number for number in range(1_000_000)},
    "1,000,000 small lists": lambda: [[number] for number in range(1_000_000)],
    "200 MB state dict": state_dict,
    "200 lists that share 1,000 objects": shared,
}
#: name → (how to make it, offenders that are in it)
UNPICKLABLE: dict[str, tuple[Callable[[], Any], int]] = {
    "three offenders at depths 1, 3 and 6": (three_places, 3),
    "1,000,000 ints and a lock": (lambda: {**PICKLABLE["dict of 1,000,000 ints"](), "lock": threading.Lock()}, 1),
    "10,000 lambdas": (lambda: [lambda: 0 for _ in range(10_000)], 10_000),
    "chain of 200 objects, 2,000,000 ints, a lock": (chain, 1),
    "5,000 nested lists, a lock": (lambda: nested(5000, threading.Lock()), 1),
    "100,000 nested lists, a lock": (lambda: nested(100_000, threading.Lock()), 1),
}  # fmt: skip


def seconds(function: Callable[[Any], Any], value: Any) -> float:
    """Seconds of one call, whatever it raises."""
    start = time.perf_counter()
    with contextlib.suppress(Exception):
        function(value)
    return time.perf_counter() - start


def peak_mib(function: Callable[[Any], Any], value: Any) -> float:
    """MiB that one call needed at most, as Python counts them."""
    tracemalloc.start()
    try:
        with contextlib.suppress(Exception):
            function(value)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def distcheck_places(value: Any) -> list[str]:
    """Paths that distcheck names, but for the depth itself."""
    return [each.path for each in find_unpicklable(value).offenders if each.kind != "too-deep"]


def ray_places(value: Any) -> list[str]:
    """What ray names: it prints much, and returns a set of failures."""
    from ray.util import inspect_serializability

    _, failures = inspect_serializability(value, name="obj", depth=10, print_file=io.StringIO())
    return [" → ".join(each.path) if hasattr(each, "path") else each.name for each in failures]


def dill_places(value: Any) -> list[str]:
    """Return what dill names: the attributes that fail, its own methods omitted."""
    from dill import detect

    found = detect.errors(value, depth=1)
    return [name for name in found if not name.startswith("__")] if isinstance(found, dict) else ["(the whole)"]


PEERS = {"ray": ray_places, "dill": dill_places}


def _peer(name: str, number: int, kind: str, answer: Any) -> None:
    make: Any = list(PICKLABLE.values())[number] if kind == "picklable" else list(UNPICKLABLE.values())[number][0]
    value = make()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        PEERS[name](1)  # what it imports is not counted
        start = time.perf_counter()
        try:
            places: Any = PEERS[name](value)
        except BaseException as error:  # noqa: BLE001 - it is the answer
            places = f"{type(error).__name__}"
    answer.send((time.perf_counter() - start, places))


def ask_peer(name: str, number: int, kind: str, limit_s: float) -> tuple[float | None, Any]:
    """Seconds and places of a peer on one object; None where it took too long."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_peer, args=(name, number, kind, theirs))
    process.start()
    theirs.close()
    try:
        if ours.poll(limit_s):
            return ours.recv()  # type: ignore[no-any-return]
        return None, "no answer"
    except EOFError:
        return None, "crashed"
    finally:
        process.kill()
        process.join()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--slow-s", type=float, default=20.0, help="seconds that ray and dill get for one object")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    peers = [name for name in PEERS if importlib.util.find_spec(name) is not None]
    torch = importlib.util.find_spec("torch") is not None
    rows: list[dict[str, Any]] = []
    for number, (name, make) in enumerate(PICKLABLE.items()):
        if name == "200 MB state dict" and not torch:
            continue
        row: dict[str, Any] = {"object": name, "target": TARGETS[name]}
        for peer in peers:
            row[peer] = ask_peer(peer, number, "picklable", arguments.slow_s)
        value = make()
        pickled, searched = [], []
        for _ in range(arguments.runs):
            pickled.append(seconds(pickle.dumps, value))
            searched.append(seconds(find_unpicklable, value))
        row["pickle_s"], row["distcheck_s"] = statistics.median(pickled), statistics.median(searched)
        row["ratio"] = row["distcheck_s"] / row["pickle_s"]
        row["pickle_mib"], row["distcheck_mib"] = peak_mib(pickle.dumps, value), peak_mib(find_unpicklable, value)
        assert find_unpicklable(value).ok
        rows.append(row)
    for number, (name, (make, count)) in enumerate(UNPICKLABLE.items()):
        row = {"object": name, "offenders": count}
        for peer in peers:
            row[peer] = ask_peer(peer, number, "unpicklable", arguments.slow_s)
        value = make()
        row["distcheck_s"] = statistics.median([seconds(find_unpicklable, value) for _ in range(arguments.runs)])
        row["pickle_s"] = statistics.median([seconds(pickle.dumps, value) for _ in range(arguments.runs)])
        places = distcheck_places(value)
        row["found"], row["first"] = len(places), places[0][:60]
        rows.append(row)
    if arguments.json:
        print(json.dumps(rows, default=str))
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {arguments.runs} rounds; compared with: {peers}")
    for row in rows:
        if "ratio" in row:
            target = f" (target ≤ {row['target']})" if row["target"] else ""
            print(f"{row['object']}: {row['ratio']:.3f}{target}")
            print(f"  {row['pickle_s']:8.4f} s  pickle.dumps, +{row['pickle_mib']:.0f} MiB")
            print(f"  {row['distcheck_s']:8.4f} s  distcheck, +{row['distcheck_mib']:.0f} MiB")
        else:
            print(f"{row['object']}: {row['found']} of {row['offenders']}, the first at {row['first']}")
            print(f"  {row['pickle_s']:8.4f} s  pickle.dumps, until it fails")
            print(f"  {row['distcheck_s']:8.4f} s  distcheck")
        for peer in peers:
            taken, found = row[peer]
            shown = found if isinstance(found, str) else f"{len(found)} places: {', '.join(map(str, found[:3]))[:100]}"
            print(f"  {f'{taken:8.4f} s' if taken is not None else f'> {arguments.slow_s:g} s':>10}  {peer}: {shown}")


if __name__ == "__main__":
    main()
