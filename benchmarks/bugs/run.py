"""Verifies the programs of this suite, and scores what finds their faults.

    python benchmarks/bugs/run.py verify [--torchrun]
    python benchmarks/bugs/run.py score lint|rehearse|watch|consistency|detail

``verify`` runs each program as ranks on this machine, gloo on the CPU. A faulty one has to hang, crash, or break the
invariant that its header names. A correct one has to end well and to keep it. ``score`` copies each program into an
empty folder, runs one tool on it, and prints one table by class.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
CLASSES = {
    "ordering": "ranks make collectives in different orders, or only some ranks make one",
    "arguments": "ranks make the same collective with arguments that do not match, or use its result wrongly",
    "groups": "process groups: made on some ranks, used by ranks outside, wrong ranks inside",
    "p2p": "sends and receives without a partner, in the wrong order, with the wrong size, peer or tag",
    "async": "handles of asynchronous collectives and messages: not waited for, buffers reused",
    "wrappers": "DDP, FSDP, tensor and pipeline parallelism, used against their contract",
    "data": "what each rank reads: the same samples, other numbers of batches, orders that repeat",
    "checkpoints": "saving and loading by several ranks",
    "exits": "start and end: ranks that leave early, fail alone, or start twice",
    "training": "what a step does to the weights: gradients, state, schedules, random numbers, replicas",
    "state": "what ranks keep between steps: averages, rates, owners of parameters, orders, parts outside a wrapper",
    "mixed": "one fault each of several kinds, of which the other classes have few",
    "plain": "faults of the other classes, written plainly and set aside",
    "lifecycle": "wrappers, data, checkpoints and exits: what goes wrong between start and end of a job",
    "field": "faults of all kinds in longer scripts: trainers, helpers, process groups, sharded models",
    "quiet": "jobs that end well and compute something wrong: averages, shards, schedules, vocabularies, statistics",
    "sharded": "sharded models and sequences, pipelines, resumed samplers: jobs that end well and train wrongly",
    "varied": "restored scales, averages, statistics, schedules, loss weights: jobs that end well and train wrongly",
    "silent": "the job ends well, and what it computed is wrong",
}
VIAS = ("direct", "helper", "callback", "context", "data")
KINDS = ("hang", "crash", "silent", "none")
CHECKS = ("output", "replicas", "trained", "distinct", "order")
#: Seconds that one program has: its ranks; a rehearsal; torchrun with watch.
LIMIT_S, REHEARSE_S, WATCH_S = 90.0, 150.0, 120.0
HANG_TIMEOUT_S = 5.0
#: Around a report that a rank prints.
MARK = "\n=== report ===\n"
#: What torch prints under DETAIL where it names ranks and the operation.
NAMES_RANKS = re.compile(
    r"Detected mismatch between collectives on ranks|Ranks? [\d, ]+ failed to pass monitoredBarrier"
)


class Program(NamedTuple):
    """One program and its header."""

    path: Path
    header: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def faulty(self) -> bool:
        return bool(self.header["faulty"])


class Score(NamedTuple):
    """What a tool reported of a program. ``result`` is one of RESULTS."""

    name: str
    result: str
    codes: tuple[str, ...]
    seconds: float


#: How a tool did on a faulty program, and on a correct one.
RESULTS = {
    "expected": "found with an expected code",
    "info": "the same, as info only",
    "other": "found with another code",
    "missed": "missed",
    "false": "false alarms",
    "quiet": "correct, and nothing reported",
}
DETAIL_RESULTS = RESULTS | {
    "expected": "ranks and operation named",
    "info": "an error that names no rank or operation",
    "other": "SIGSEGV",
    "missed": "nothing, or no end",
    "false": "correct ones that fail",
    "quiet": "correct ones that end well",
}


def programs(only: str | None = None, kinds: str | None = None) -> list[Program]:
    """All programs, or those of a class or whose name holds a word of ``only`` (comma-separated), by class and name.

    :param kinds: comma-separated: only programs of these kinds
    """
    found = [
        Program(path.with_suffix(".py"), json.loads(path.read_text())) for path in sorted(PROGRAMS.glob("*/*.json"))
    ]
    if kinds is not None:
        found = [program for program in found if program.header["kind"] in kinds.split(",")]
    found.sort(key=lambda program: (list(CLASSES).index(program.header["class"]), program.name))
    if only is None:
        return found
    words = only.split(",")
    return [
        program
        for program in found
        if any(word == program.header["class"] or (word not in CLASSES and word in program.name) for word in words)
    ]


def sample(found: list[Program], share: float, seed: int) -> list[Program]:
    """A fixed part of the programs: the same seed and share give the same ones."""
    if share >= 1:
        return found
    chosen = {program.name for program in random.Random(seed).sample(found, max(1, round(share * len(found))))}
    return [program for program in found if program.name in chosen]


def progress(done: int, total: int, text: str) -> None:
    print(f"[{done}/{total}] {text}", file=sys.stderr, flush=True)


# running programs


def forked(
    chosen: list[Program], jobs: int, *, with_debug: bool = False, under: Callable[[Path], Path] | None = None
) -> Iterator[tuple[Program, Any]]:
    """Run the programs as forks of this process, which imports torch once; give each program with its outcome.

    :param under: returns the script that runs another script under a tool
    """
    import ranks

    _import_torch(pipelines=under is None)
    waiting, running = list(reversed(chosen)), {}
    root = Path(tempfile.mkdtemp(prefix="bugs-"))
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                program = waiting.pop()
                script, folder = copied(program, root / program.name), root / f"{program.name}-ranks"
                script = script if under is None else under(script)
                alone = program.header.get("launcher") == "script"
                job = ranks.Job(script, program.header["world"], folder, LIMIT_S, alone=alone, with_debug=with_debug)
                running[program.name] = program, job
            time.sleep(0.03)
            for name, (program, job) in list(running.items()):
                if outcome := job.poll():
                    del running[name]
                    yield program, outcome
    finally:
        for _, job in running.values():
            job.close()
        shutil.rmtree(root, ignore_errors=True)


def _import_torch(*, pipelines: bool) -> None:
    """Import once what the programs import, so that each fork has it.

    :param pipelines: also what shows a tool that ranks may share out a model
    """
    import torch.distributed.checkpoint.state_dict
    import torch.distributed.fsdp
    import torch.distributed.optim
    import torch.distributed.tensor.parallel
    import torch.utils.data

    if pipelines:
        import torch.distributed.pipelining  # noqa: F401


def copied(program: Program, folder: Path) -> Path:
    """A copy of the program alone in a folder, under a name and a path that reveal nothing."""
    folder.mkdir(parents=True)
    return Path(shutil.copyfile(program.path, folder / "train.py"))


def ended(command: list[str], folder: Path, limit_s: float) -> tuple[int | None, str, float]:
    """Run a command in its own session; give its status (None if it was ended here), what it printed, and seconds."""
    begin = time.monotonic()
    with (folder / "printed").open("w+", errors="replace") as printed:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True
        )
        try:
            status: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end_session(process)
        printed.seek(0)
        return status, printed.read(), time.monotonic() - begin


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End what a command started and left, by the session that it began."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == process.pid:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue
    process.wait()


# verify


def verify(chosen: list[Program], jobs: int, under_torchrun: bool) -> list[tuple[Program, str, str]]:
    """Run the programs; give each with what it did and, if that is not what its header states, why."""
    results = []
    runs = torchrun(chosen, jobs) if under_torchrun else forked(chosen, jobs)
    for program, outcome in runs:
        kind, why = behavior(program, outcome)
        results.append((program, kind, why))
        progress(
            len(results),
            len(chosen),
            f"{program.name}: {kind} {outcome.seconds:.1f} s{' · WRONG: ' + why if why else ''}",
        )
    return results


def behavior(program: Program, outcome: Any) -> tuple[str, str]:
    """What a program did, and why that is not what its header states."""
    import ranks

    check, stated = program.header.get("check"), program.header["kind"]
    broken = ranks.violated(check, outcome) if check and outcome.kind == "end" else ""
    kind = {"end": "silent" if broken else "none"}.get(outcome.kind, outcome.kind)
    # gloo notices a peer that closes its connection, where other backends wait: either is as bad
    if kind == stated or {kind, stated} == {"hang", "crash"}:
        return kind, ""
    last = next((line for text in outcome.outputs for line in reversed(text.splitlines()) if "Error" in line), "")
    return kind, f"its header states {stated}: {broken or last or outcome.statuses}"


def torchrun(chosen: list[Program], jobs: int) -> Iterator[tuple[Program, Any]]:
    """Run the programs under the real torchrun."""
    import ranks

    def one(program: Program) -> Any:
        with tempfile.TemporaryDirectory(prefix="bugs-") as name:
            folder, world = Path(name), program.header["world"]
            script = copied(program, folder / "program")
            options = ["--standalone", f"--nproc-per-node={world}", f"--log-dir={folder / 'logs'}", "--redirects=3"]
            program_line = [str(HERE / "ranks.py"), str(folder), "plain", str(script)]
            status, _, seconds = ended(
                [sys.executable, "-m", "torch.distributed.run", *options, *program_line], folder, LIMIT_S
            )
            outputs = [
                "".join(
                    path.read_text(errors="replace")
                    for path in sorted(folder.glob(f"logs/*/attempt_0/{rank}/std*.log"))
                )
                for rank in range(world)
            ]
            kind = "hang" if status is None else "crash" if status else "end"
            return ranks.Outcome(kind, (status,) * world, tuple(outputs), ranks.read(folder, world)[1], seconds)

    started = [program for program in chosen if program.header.get("launcher") != "script"]
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(one, program): program for program in started}
        for future in as_completed(futures):
            yield futures[future], future.result()


# score


def lint(script: Path, program: Program, folder: Path) -> tuple[list[tuple[str, str]], float]:
    return findings(["lint", "--isolated", "--no-cache", "--jobs=1", script.name], folder, LIMIT_S)


def rehearse(script: Path, program: Program, folder: Path) -> tuple[list[tuple[str, str]], float]:
    world = program.header["world"]
    options = ["--isolated", "--nnodes=1", f"--nproc-per-node={world}"]
    if program.header.get("launcher") == "script":
        options = ["--isolated", "--nnodes=1", "--launcher=script"]
    return findings(["rehearse", *options, "--", script.name], folder, REHEARSE_S, before_script=True)


def watch(
    script: Path, program: Program, folder: Path, extra: tuple[str, ...] = ()
) -> tuple[list[tuple[str, str]], float]:
    options = [
        *extra,
        f"--hang-timeout={HANG_TIMEOUT_S:g}",
        "--on-hang=abort",
        "--output-format=json",
        "--output-file=found.json",
    ]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={program.header['world']}"]
    if program.header.get("launcher") == "script":
        launcher = []
    command = [sys.executable, *launcher, "-m", "distcheck.watch", *options, script.name]
    status, _, seconds = ended(command, folder, WATCH_S)
    found = read_findings(folder / "found.json") if (folder / "found.json").exists() else []
    return found or ([("no end", "missed")] if status is None else []), seconds


def findings(
    command: list[str], folder: Path, limit_s: float, before_script: bool = False
) -> tuple[list[tuple[str, str]], float]:
    """Run a command of distcheck; give codes and severities of its findings, and seconds."""
    output = ["--output-format=json", "--output-file=found.json", "--exit-zero"]
    whole = [sys.executable, "-m", "distcheck", command[0], *output, *command[1:]]
    status, printed, seconds = ended(whole, folder, limit_s)
    if status == 2:
        raise SystemExit(f"distcheck {command[0]} was used wrongly:\n{printed}")
    found = read_findings(folder / "found.json") if (folder / "found.json").exists() else [("no report", "missed")]
    return found, seconds


def read_findings(path: Path) -> list[tuple[str, str]]:
    try:
        report = json.loads(path.read_text())
    except ValueError:
        return [("no report", "missed")]
    return [(found["code"], found["severity"]) for found in report["findings"]]


TOOLS: dict[str, Callable[[Path, Program, Path], tuple[list[tuple[str, str]], float]]] = {
    "lint": lint,
    "rehearse": rehearse,
    "watch": watch,
    "consistency": partial(watch, extra=("--consistency",)),
}


def judged(program: Program, found: list[tuple[str, str]], seconds: float) -> Score:
    """Compare findings with the header: codes of findings above info count, the others only in their own column."""
    loud = sorted({code for code, severity in found if severity in ("error", "warning")})
    expected = set(program.header["codes"])
    if not program.faulty:
        return Score(program.name, "false" if loud else "quiet", tuple(loud), seconds)
    if expected & set(loud):
        result = "expected"
    elif expected & {code for code, severity in found if severity == "info"}:
        result = "info"
    else:
        result = "other" if loud else "missed"
    return Score(
        program.name, result, tuple(loud or sorted({code for code, severity in found if severity == "missed"})), seconds
    )


def under_watch(script: Path) -> Path:
    """A script that runs another one under watch, and prints the report between two marks."""
    found = script.parent / "found.json"
    options = ["--consistency", "--output-format=json", f"--output-file={found}"]
    runner = script.parent / "runner.py"
    runner.write_text(
        "import atexit, pathlib, sys\n"
        f"found = pathlib.Path({str(found)!r})\n"
        # registered first, so it runs after the report of watch
        f"atexit.register(lambda: found.exists() and print({MARK!r} + found.read_text() + {MARK!r}))\n"
        f"sys.argv = ['watch', *{options!r}, {str(script)!r}]\n"
        "from distcheck.watch import main\n"
        "main()\n"
    )
    return runner


def read_report(outcome: Any) -> list[tuple[str, str]]:
    """The findings of the reports that ranks printed."""
    texts = [part for output in outcome.outputs for part in output.split(MARK)[1::2]]
    return [(found["code"], found["severity"]) for text in texts for found in json.loads(text)["findings"]]


def score(tool: str, chosen: list[Program], jobs: int, *, as_forks: bool = False) -> list[Score]:
    """Run a tool on the programs.

    :param as_forks: ranks of ``consistency`` are forks of this process, and not started by torchrun
    """
    scores: list[Score] = []

    def done(program: Program, result: Score) -> None:
        scores.append(result)
        progress(
            len(scores), len(chosen), f"{result.name}: {result.result} {' '.join(result.codes)} {result.seconds:.1f} s"
        )

    if tool == "consistency" and as_forks:
        for program, outcome in forked(chosen, jobs, under=under_watch):
            done(program, judged(program, read_report(outcome), outcome.seconds))
        return scores
    if tool == "detail":
        for program, outcome in forked(chosen, jobs, with_debug=True):
            done(program, detail(program, outcome))
        return scores

    def one(program: Program) -> Score:
        with tempfile.TemporaryDirectory(prefix="bugs-") as name:
            folder = Path(name) / "project"
            return judged(program, *TOOLS[tool](copied(program, folder), program, folder))

    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(one, program): program for program in chosen}
        for future in as_completed(futures):
            done(futures[future], future.result())
    return scores


def detail(program: Program, outcome: Any) -> Score:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL with a short time-out gives."""
    crashed = any(status in (-signal.SIGSEGV, -signal.SIGABRT) for status in outcome.statuses)
    printed = "\n".join(outcome.outputs)
    if not program.faulty:
        codes = ("SIGSEGV",) if crashed else ("status",) if outcome.kind != "end" else ()
        return Score(program.name, "false" if codes else "quiet", codes, outcome.seconds)
    if NAMES_RANKS.search(printed):
        return Score(program.name, "expected", (), outcome.seconds)
    if crashed:
        return Score(program.name, "other", ("SIGSEGV",), outcome.seconds)
    return Score(program.name, "info" if outcome.kind == "crash" else "missed", (), outcome.seconds)


# printing


def table(tool: str, chosen: list[Program], scores: Iterable[Score]) -> str:
    """One row for each class, in Markdown."""
    by_name = {score.name: score for score in scores}
    labels = DETAIL_RESULTS if tool == "detail" else RESULTS
    shown = ["expected", "info", "other", "missed"]
    lines = [
        f"| class | faulty | {' | '.join(labels[each] for each in shown)} | correct | {labels['false']} |",
        "| --- |" + " ---: |" * (len(shown) + 3),
    ]
    total: Counter[str] = Counter()
    for name in CLASSES:
        row: Counter[str] = Counter()
        for program in chosen:
            if program.header["class"] == name and program.name in by_name:
                row["faulty" if program.faulty else "correct"] += 1
                row[by_name[program.name].result] += 1
        total += row
        if row:
            lines.append(_row(name, row, shown))
    lines.append(_row("all", total, shown))
    return "\n".join(lines)


def _row(name: str, row: Counter[str], shown: list[str]) -> str:
    cells = [row["faulty"], *(row[each] for each in shown), row["correct"], row["false"]]
    return f"| {name} | {' | '.join(map(str, cells))} |"


def print_verified(results: list[tuple[Program, str, str]], output_format: str) -> int:
    wrong = [(program, why) for program, _, why in results if why]
    if output_format == "json":
        rows = [{"name": program.name, "seen": kind, "wrong": why or None} for program, kind, why in results]
        print(json.dumps({"schema_version": 1, "programs": rows}, indent=1))
        return 1 if wrong else 0
    print("| class | faulty | hang | crash | silent | correct | end well |\n| --- |" + " ---: |" * 6)
    for name in (*CLASSES, "all"):
        rows = [(program.faulty, kind) for program, kind, _ in results if name in (program.header["class"], "all")]
        faulty, correct = ([kind for of, kind in rows if of == is_faulty] for is_faulty in (True, False))
        cells = [len(faulty), *(faulty.count(kind) for kind in KINDS[:3]), len(correct), correct.count("none")]
        if cells[0] or cells[4]:
            print(f"| {name} | {' | '.join(map(str, cells))} |")
    print(f"\n{len(results)} programs, {len(wrong)} do not behave as their headers state")
    for program, why in wrong:
        print(f"  {program.name}: {why}")
    return 1 if wrong else 0


def print_scores(tool: str, chosen: list[Program], scores: list[Score], output_format: str) -> None:
    order = {program.name: index for index, program in enumerate(chosen)}
    scores.sort(key=lambda score: order[score.name])
    if output_format == "json":
        print(json.dumps({"schema_version": 1, "tool": tool, "scores": [each._asdict() for each in scores]}, indent=1))
        return
    print(table(tool, chosen, scores))
    for result in ("missed", "other", "info", "false"):
        if names := [f"{each.name} {' '.join(each.codes)}".strip() for each in scores if each.result == result]:
            print(f"\n{(DETAIL_RESULTS if tool == 'detail' else RESULTS)[result]}: {', '.join(names)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Classes:\n" + "\n".join(f"  {name:12} {text}" for name, text in CLASSES.items()) + """

Examples:
  run.py list                               the programs: class, kind, ranks, codes
  run.py verify --only p2p                  run the programs of one class; exit status 1 if one does something else
  run.py verify --only ring --torchrun      the same with the real torchrun, ten times slower
  run.py score lint                         all programs, minutes
  run.py score lint --only data,exits       two classes
  run.py score rehearse --share 0.33        a third of the programs, drawn with seed 1; --seed draws others
  run.py score watch --kinds hang,crash     programs that hang or crash, and no others
  run.py score consistency --kinds silent   watch --consistency on programs that end well and are wrong
  run.py score consistency --forks --only training
  run.py score detail --format json         what a user has without distcheck

verify and detail need torch with gloo; lint needs distcheck only. Each program has a time limit, and its ranks are
ended after it. Progress is on standard error, the table on standard output.
""",
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True, metavar="list|verify|score")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--only", metavar="CLASS", help="classes or parts of names, comma-separated")
    common.add_argument(
        "--kinds", metavar="KIND", help=f"only programs of these kinds, comma-separated: {', '.join(KINDS)}"
    )
    common.add_argument("--jobs", "-j", type=int, default=2, metavar="N", help="programs at a time (default: 2)")
    common.add_argument("--format", choices=("table", "json"), default="table", help="what is printed (default: table)")
    common.add_argument("--share", type=float, default=1.0, metavar="X", help="run this part of the programs, 0 to 1")
    common.add_argument("--seed", type=int, default=1, help="draws the part (default: 1)")
    commands.add_parser("list", parents=[common], help="list the programs")
    verifying = commands.add_parser("verify", parents=[common], help="run the programs, compare with their headers")
    verifying.add_argument("--torchrun", action="store_true", help="start the ranks with torchrun instead of forks")
    scoring = commands.add_parser("score", parents=[common], help="score a tool")
    scoring.add_argument("tool", choices=(*TOOLS, "detail"))
    scoring.add_argument(
        "--forks", action="store_true", help="consistency: ranks are forks, ten times faster; no program that hangs"
    )
    options = parser.parse_args()
    chosen = sample(programs(options.only, options.kinds), options.share, options.seed)
    if not chosen:
        chosen_by = f"{options.only or 'all'} of kind {options.kinds or 'any'}"
        parser.error(f"no program is called {chosen_by}; classes: {', '.join(CLASSES)}; kinds: {', '.join(KINDS)}")
    if options.jobs < 1 or not 0 < options.share <= 1:
        parser.error("--jobs is at least 1, --share above 0 and at most 1")
    if options.command == "list":
        for program in chosen:
            header = program.header
            columns = f"{header['class']:12} {program.name:40} {header['kind']:6} {header['world']}"
            print(f"{columns} {' '.join(header['codes'])}".rstrip())
        return 0
    if options.command == "verify":
        return print_verified(verify(chosen, options.jobs, options.torchrun), options.format)
    scores = score(options.tool, chosen, options.jobs, as_forks=options.forks)
    print_scores(options.tool, chosen, scores, options.format)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
