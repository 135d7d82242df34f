"""Feed damaged files to each reader, under a hook that sees code that runs, files that are written and programs that start.

``python -m tests.fuzz [TARGET …] [--runs N] [--seed N] [--engine mutations|atheris]`` prints the table of
``docs/security.md``. A crash is an exception that the reader does not announce, a hang is one input that takes more than
10 s of CPU. ``atheris`` (if it is installed) chooses inputs by the branches that they reach; its row has the runs, the
inputs that failed, and the branches that the seeds and all inputs reach.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import keyword
import os
import random
import re
import resource
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

HERE = Path(__file__).parent
#: Seconds of CPU for one input.
LIMIT_S = 10
_LARGEST_SEED = 8 << 10
_MOST_SEEDS = 400
#: The most bytes of an input that atheris chooses: the longest seeds cost most, and reach little more.
_LONGEST_GUIDED = 4 << 10
#: atheris measures the time of the clock: a process that waits for a busy machine is no hang. LIMIT_S counts CPU.
_LONGEST_RUN_S = 24 * 3600


class Hung(BaseException):
    """An input took too long."""


# The hook.

_watching = False
_seen: list[str] = []
_STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "os.startfile", "subprocess.", "socket.", "ctypes.",
           "pickle.find_class", "pty.", "shutil.", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink",
           "os.truncate", "os.chmod", "os.chown", "os.kill", "webbrowser.", "urllib.")  # fmt: skip
_ROOTS = (*{os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platlib", "purelib")}, str(HERE.parent))


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    bad = event.startswith(_STARTS)
    if event == "open":
        _, mode, flags = arguments
        bad = any(letter in (mode or "r") for letter in "wax+") or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
    elif event == "exec":  # modules that readers import late, and what the standard library makes of texts, run as code
        name = getattr(arguments[0], "co_filename", "")
        bad = not (os.path.realpath(name).startswith(_ROOTS) or name.startswith("<"))
    elif event == "import" and arguments[1]:
        bad = not os.path.realpath(arguments[1]).startswith(_ROOTS)
    if bad:
        _seen.append(f"{event} {arguments!r}"[:300])


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """What runs in here is seen by the hook."""
    global _watching
    _watching = True
    try:
        yield
    finally:
        _watching = False


# Targets: each makes a function that reads bytes, and its seeds.


class Target(NamedTuple):
    """A reader, and files that it can read."""

    read: Callable[[bytes], object]
    seeds: Sequence[bytes]
    #: lines and words are exchanged, not only bytes
    text: bool = False


def _files(*patterns: str) -> list[bytes]:
    found = [path for pattern in patterns for path in sorted(HERE.parent.glob(pattern)) if path.is_file()]
    small = [path for path in found if path.stat().st_size <= _LARGEST_SEED]
    return [path.read_bytes() for path in small[:: max(1, len(small) // _MOST_SEEDS)]]


def pickles() -> Target:
    from distcheck.checks.pickles.files import read_file
    from distcheck.checks.pickles.source_bytes import ScanLimits
    from distcheck.checks.pickles.verdict import Policy, judge
    from tests.checks.pickles import corpus

    limits = ScanLimits(opcodes=100_000, entries=20_000, unpacked_bytes=4 << 20, seconds=5)
    contents = [case.make() for case in corpus.every()]
    seeds = [content for content in contents if len(content) <= _LARGEST_SEED and content[:2] != b"PK"]
    return Target(lambda data: judge(read_file(data, limits), Policy()), seeds)


def torch_zips() -> Target:
    plain = pickles()
    from tests.checks.pickles import corpus
    from tests.checks.pickles.zips import Entry, checkpoint, make_zip

    contents = [case.make() for case in corpus.every()]
    own = [checkpoint(seed) for seed in plain.seeds[:100]]
    own += [make_zip(Entry("a/data.pkl", seed, deflate=True), Entry("a/version", b"3")) for seed in plain.seeds[:100]]
    zips = [content for content in contents if content[:2] == b"PK" and len(content) <= _LARGEST_SEED]
    return plain._replace(seeds=own + zips)


def logs() -> Target:
    from distcheck.checks.logs.reading import SourceReader, matcher_of, signatures
    from distcheck.checks.logs.sources import LogSource

    matcher = matcher_of(signatures())

    def read(data: bytes) -> object:
        reader = SourceReader(LogSource("a.log"), matcher, budget=1 << 20, tail_lines=20)
        reader.feed(data)
        return reader.reading()

    return Target(read, _files("tests/checks/logs/DC*/*.log"), text=True)


def _launch_target(name: str, *patterns: str) -> Target:
    from distcheck.checks.launch_files.engine import read_one

    return Target(lambda data: read_one(name, data, lambda _: None), _files(*patterns), text=True)


def shell() -> Target:
    return _launch_target("run.sh", "tests/**/*.sh", "tests/**/*.sbatch", "tests/**/*.slurm", "examples/**/*.sh")


def yaml() -> Target:
    return _launch_target("job.yaml", "tests/**/*.yaml", "tests/**/*.yml", "examples/**/*.y*ml")


def python() -> Target:
    from distcheck.checks.source.engine import SourceFile, analyse

    return Target(lambda data: analyse([SourceFile("a.py", lambda: data)]), _files("tests/lint/*/*.py"), text=True)


def records() -> Target:
    from distcheck.checks.cluster.record_exchange import RecordError, from_text, to_text
    from tests.checks.cluster import test_record_exchange as made

    def read(data: bytes) -> object:
        with contextlib.suppress(RecordError):
            return to_text(from_text(data))
        return None

    full = made.report(3, node="n3", tasks=8, backend="nccl", rendezvous="c10d", world_size=16)
    return Target(read, [to_text(one).encode() for one in (full, full._replace(record=None))], text=True)


TARGETS: dict[str, Callable[[], Target]] = {
    made.__name__: made for made in (pickles, torch_zips, logs, shell, yaml, python, records)
}

# Mutations.

_WORD = re.compile(rb"\w+|\s+|[^\w\s]")
_KEYWORDS = frozenset(word.encode() for word in keyword.kwlist)


def mutated(seeds: Sequence[bytes], chance: random.Random, *, text: bool) -> bytes:
    """A seed with one to four changes."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        other = chance.choice(seeds)
        if text and chance.random() < 0.95:
            data = bytearray(_edited(bytes(data), other, chance))
            continue
        place = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[place : place + chance.randrange(1, 40)]
        elif kind == 2:
            start = chance.randrange(len(other) + 1)
            data[place:place] = other[start : start + chance.randrange(200)]
        elif kind == 3:
            data[place:place] = chance.choice(
                (b"\0", b"\xff" * 4, b"\n", b"\x80\x04", b"(" * 50, bytes(8), b"\xe2\x80\xa8")
            )
        elif kind == 4 and len(data) > 8:
            data[place : place + 4] = chance.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(data))).to_bytes(4, "little")
        else:
            data[place:place] = data[:place][-chance.randrange(1, 300) :] * chance.choice((1, 2, 30))
    return bytes(data[: 16 * _LARGEST_SEED])


def _edited(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """A text in which a line or a word is exchanged, repeated or dropped, or taken from another text."""
    if chance.random() < 0.5:
        lines, more = data.splitlines(keepends=True) or [b""], other.splitlines(keepends=True) or [b""]
        place = chance.randrange(len(lines))
        lines[place : place + 1] = chance.choice(([], [lines[place]] * 2, [lines[place], chance.choice(more)]))
        return b"".join(lines)
    # keywords stay, so that about half of the Python sources still parse
    words = _WORD.findall(data) or [b""]
    more = [word for word in _WORD.findall(other) if word.isalnum() and word not in _KEYWORDS] or [b"x"]
    places = [place for place, word in enumerate(words) if word.isalnum() and word not in _KEYWORDS] or [0]
    words[chance.choice(places)] = chance.choice((chance.choice(more), chance.choice(words), b"0", b"-1", b"x" * 300))
    return b"".join(words)


# Runs.


class Figures(NamedTuple):
    """What a run gave."""

    target: str
    runs: int
    crashes: int
    hangs: int
    executions: int
    slowest_s: float
    seconds: float
    #: of texts: the share that Python can parse
    parsed: float | None = None

    def row(self) -> str:
        more = "" if self.parsed is None else f", {self.parsed:.0%} parse"
        return (
            f"| {self.target} | {self.runs:,}{more} | {self.crashes} | {self.hangs} | {self.executions} "
            f"| {self.slowest_s:.2f} s | {self.seconds:.0f} s |"
        )


def one(read: Callable[[bytes], object], data: bytes) -> str | None:
    """Read one input: how it failed, or None."""

    def late(_: int, __: FrameType | None) -> None:
        raise Hung

    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    _seen.clear()
    try:
        with watched(), contextlib.redirect_stderr(io.StringIO()):
            read(data)
    except Hung:
        return "hang"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        return f"crash: {type(error).__name__}: {error}"[:200]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return f"execution: {_seen[0]}" if _seen else None


def fuzz(name: str, runs: int, *, seed: int = 1) -> tuple[Figures, dict[str, bytes]]:
    """Read so many mutated inputs. Return the figures, and an input for each way to fail."""
    target = TARGETS[name]()
    sys.dont_write_bytecode = True  # of what is imported late
    chance = random.Random(f"{name} {seed}")
    for known in target.seeds:
        why = one(target.read, known)
        assert why is None, (why, known)
    counts = {"crash": 0, "hang": 0, "execution": 0}
    failed: dict[str, bytes] = {}
    slowest = parsed = 0.0
    began = time.process_time()
    for _ in range(runs):
        data = mutated(target.seeds, chance, text=target.text)
        start = time.process_time()
        why = one(target.read, data)
        slowest = max(slowest, time.process_time() - start)
        if name == "python":
            from distcheck.checks.source.source_parsing import parses

            parsed += parses(data.decode("latin-1"))
        if why is not None:
            counts[why.partition(":")[0]] += 1
            failed.setdefault(why, data)
    seconds = time.process_time() - began
    return Figures(name, runs, *counts.values(), slowest, seconds, parsed / runs if parsed else None), failed


def guided(name: str, runs: int, seed: int) -> tuple[str, bool]:
    """Let atheris choose inputs by the branches that they reach. Return a row of figures, and whether an input failed."""
    with tempfile.TemporaryDirectory(prefix="distcheck-fuzz-") as folder:
        # libFuzzer ends its process: at the first failure, or after the last run
        words = [sys.executable, "-m", "tests.fuzz", name, "--engine", "libfuzzer", "--corpus", folder]
        words += ["--runs", str(runs), "--seed", str(seed)]
        began = time.monotonic()
        ended = subprocess.run(words, stderr=subprocess.PIPE, cwd=HERE.parent, check=False)
        seconds = time.monotonic() - began
        text = ended.stderr.decode("utf-8", "replace")
        failed = [path for path in Path(folder).iterdir() if path.name.startswith(("crash-", "timeout-", "oom-"))]
        for path in failed:
            print(f"  {path.name}\n    {path.read_bytes()[:2000]!r}", file=sys.stderr)
    done = re.search(r"^Done (\d+) runs", text, re.MULTILINE)
    count = int(done[1]) if done else 0
    covered = [int(number) for number in re.findall(r" cov: (\d+)", text)] or [0]
    if ended.returncode or not done:
        print(text[-4000:], file=sys.stderr)
    row = f"| {name} | {count:,} | {len(failed)} | {covered[0]:,} → {covered[-1]:,} | {seconds:.0f} s |"
    return row, bool(failed or ended.returncode or not done)


def _run_libfuzzer(name: str, runs: int, seed: int, folder: Path) -> None:
    import atheris

    sys.dont_write_bytecode = True  # of what is imported late
    # what readers import late is instrumented too
    with atheris.instrument_imports(include=["distcheck"]):
        target = TARGETS[name]()
        for known in target.seeds:
            why = one(target.read, known)
            assert why is None, (why, known)
    for number, known in enumerate(target.seeds):
        (folder / str(number)).write_bytes(known)

    def check(data: bytes) -> None:
        why = one(target.read, data)
        if why is not None:
            raise RuntimeError(why)

    def mutate(data: bytes, largest: int, number: int) -> bytes:
        """Change bytes as libFuzzer does, or words and lines: of what it does to a text, little is still one."""
        chance = random.Random(number)
        if not target.text or chance.random() < 0.3:
            return bytes(atheris.Mutate(data, largest))
        return _edited(data, chance.choice(target.seeds), chance)[:largest]

    flags = [
        f"-runs={runs}",
        f"-seed={seed}",
        f"-max_len={_LONGEST_GUIDED}",
        f"-artifact_prefix={folder}/",
        f"-timeout={_LONGEST_RUN_S}",
    ]
    atheris.Setup([sys.argv[0], *flags, str(folder)], check, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=[], choices=[*TARGETS, []])
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("mutations", "atheris", "libfuzzer"), default="mutations")
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine == "libfuzzer":
        _run_libfuzzer(given.targets[0], given.runs, given.seed, given.corpus)
    worst = 0
    for name in given.targets or TARGETS:
        if given.engine == "atheris":
            row, failed_once = guided(name, given.runs, given.seed)
            print(row, flush=True)
            worst = max(worst, failed_once)
            continue
        figures, failed = fuzz(name, given.runs, seed=given.seed)
        print(figures.row(), flush=True)
        for why, data in list(failed.items())[:10]:
            print(f"  {why}\n    {data[:2000]!r}", file=sys.stderr, flush=True)
        worst = max(worst, figures.crashes + figures.hangs + figures.executions)
    print(f"largest: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB", file=sys.stderr)
    return min(1, worst)


sys.addaudithook(_hook)
if __name__ == "__main__":
    sys.exit(main())
