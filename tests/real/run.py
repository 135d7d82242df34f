"""Runs a recipe on a copy of a checkout: as a rehearsal, on 2 CPU ranks, on these under ``watch``, and as their rehearsal.

Nothing is fetched. Each run has a copy and a home folder of its own, and no network where the kernel has namespaces.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from distcheck.runtime.coordination.root_cause import reports_lost_peer
from tests.real.recipe import FINISHED, HUNG, STEPS, Judged, Loaded, Recipe

ROOT = Path(__file__).parent.parent.parent
#: Reports of ``watch`` and ``rehearse``.
_REPORT = "distcheck.json"
_REHEARSALS = ("rehearse", "same")
#: Seconds for what a run leaves to end by itself.
_GRACE_S = 5.0
_NO_NETWORK = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


class Outcome(NamedTuple):
    """One run. ``status`` is None if its time was over."""

    status: int | None
    seconds: float
    printed: str
    #: of distcheck; empty without one
    report: dict[str, Any] = {}  # noqa: RUF012
    #: processor time of all its processes, user and system
    cpu_s: float = 0.0


class Result(NamedTuple):
    """What was measured with a recipe, and where it differs from what the recipe states."""

    name: str
    recipe: Recipe
    rehearsal: Outcome | None
    plain: Outcome | None
    watched: Outcome | None
    differences: tuple[str, ...]
    #: a rehearsal of what ``plain`` runs: 2 ranks, the same arguments, to the end
    same: Outcome | None = None


def checkout_of(recipe: Recipe, checkouts: Path) -> Path:
    """The folder ``owner+name`` of its repository."""
    return checkouts / recipe.repository.replace("/", "+")


def run(loaded: Loaded, checkouts: Path, limit_s: float, parts: tuple[str, ...], keep: Path | None = None) -> Result:
    """Run the parts of a recipe with this Python: ``rehearse``, ``plain``, ``watch``, ``same``.

    :param keep: a folder that gets what each run printed and reported
    """
    recipe = loaded.recipe
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="real-") as name:
        for part in parts:
            if part == "rehearse" or not recipe.no_cpu:
                folder = Path(name) / part
                copy = shutil.copytree(
                    checkout_of(recipe, checkouts), folder / "checkout", symlinks=True, ignore=_without_git
                )
                data = copy / recipe.folder / recipe.data if recipe.data else folder / "data"
                data.mkdir(parents=True, exist_ok=True)
                loaded.make_data(data)
                outcomes[part] = _run(part, recipe, folder, data, limit_s)
                if keep is not None:
                    _keep(outcomes[part], keep / f"{loaded.name}.{part}")
    rehearsal, plain, watched = (outcomes.get(part) for part in ("rehearse", "plain", "watch"))
    differences = differences_of(recipe, rehearsal, plain, watched)
    return Result(loaded.name, recipe, rehearsal, plain, watched, differences, outcomes.get("same"))


def _without_git(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == ".git"]


def _keep(outcome: Outcome, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(path.suffix + ".txt").write_text(outcome.printed)
    if outcome.report:
        path.with_suffix(path.suffix + ".json").write_text(json.dumps(outcome.report, indent=1))


def command_of(part: str, recipe: Recipe) -> list[str]:
    """The command of a part, ``{data}`` not yet replaced."""
    script = recipe.script.split()
    arguments = recipe.arguments if recipe.cpu_arguments is None or part == "rehearse" else recipe.cpu_arguments
    if part in _REHEARSALS:
        options = ["--isolated", "--output-format=json", f"--output-file={_REPORT}", "--exit-zero", "-v"]
        each = "--nproc-per-node" if recipe.launcher else "--gpus-per-node"
        if part == "same":
            shape = ["--nnodes=1", f"{each}=2", "--steps=0"]
        else:
            shape = [f"--nnodes={recipe.nodes}", f"{each}={4 // recipe.nodes}"]
        words = [*recipe.launcher, *(script if recipe.launcher else [word for word in script if word != "-m"])]
        module = ["-m"] if script[0] == "-m" and not recipe.launcher else []
        return [sys.executable, "-m", "distcheck", "rehearse", *options, *shape, *recipe.options, *module, "--", *words,
                *arguments]  # fmt: skip
    launcher = [sys.executable]
    if recipe.launcher:
        module = "launch" if "torch.distributed.launch" in recipe.launcher else "run"
        # a static rendezvous: the host's own name has no address without a network
        address = ["--master-addr=127.0.0.1", f"--master-port={_free_port()}"]
        more = [word for word in recipe.launcher if word.startswith("--")]
        launcher += ["-m", f"torch.distributed.{module}", *more, "--nproc-per-node=2", *address]
    if part == "watch":
        launcher += ["-m", "distcheck.watch", "--output-format=json", f"--output-file={_REPORT}"]
    return [*launcher, *script, *arguments]


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def _without_network() -> tuple[str, ...]:
    """What a command needs in front of it to have only loopback; empty if the kernel allows no namespaces."""
    with suppress(OSError):
        if subprocess.run([*_NO_NETWORK, "true"], capture_output=True).returncode == 0:
            return _NO_NETWORK
    return ()


def _run(part: str, recipe: Recipe, folder: Path, data: Path, limit_s: float) -> Outcome:
    work, home, temporary = folder / "checkout" / recipe.folder, folder / "home", folder / "tmp"
    for each in (home, temporary):
        each.mkdir()
    command = [word.replace("{data}", str(data)) for word in command_of(part, recipe)]
    # a rehearsal closes the network itself
    closed = () if part in _REHEARSALS else _without_network()
    variables = {name: value.replace("{data}", str(data)) for name, value in recipe.variables}
    paths = [path for path in (variables.pop("PYTHONPATH", ""), str(ROOT)) if path]
    environment = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LD_LIBRARY_PATH")},
        "HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "WANDB_MODE": "offline",
        "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo", **variables,
    }  # fmt: skip
    if part in _REHEARSALS:
        del environment["GLOO_SOCKET_IFNAME"]
    begin, spent = time.monotonic(), _cpu_s()
    with (folder / "printed").open("w+", errors="replace") as printed:
        process = subprocess.Popen(
            [*closed, *command], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed,
            start_new_session=True,
        )  # fmt: skip
        try:
            status: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
        seconds = time.monotonic() - begin
        printed.seek(0)
        text = printed.read()
    report = work / _REPORT
    # places as the recipes have them, also outside the folder of the run
    written = report.read_text().replace(f"{folder / 'checkout'}/", "") if report.exists() else "{}"
    return Outcome(status, seconds, text, json.loads(written), _cpu_s() - spent)


def _cpu_s() -> float:
    """Seconds that ended children of this process, and theirs, have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end(process: subprocess.Popen[str]) -> None:
    """End a command and all that it started, with sessions of their own included."""
    with suppress(psutil.NoSuchProcess):
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        for one in psutil.wait_procs(started, _GRACE_S)[1]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
    process.kill()
    process.wait()


# how the runs compare with the recipe


def findings_of(outcome: Outcome | None) -> list[tuple[str, str, str]]:
    """Code, place and message of each finding above info."""
    found = []
    for finding in outcome.report.get("findings", ()) if outcome else ():
        where = finding["where"] or {}
        if finding["severity"] != "info":
            place = f"{where.get('path') or ''}:{where.get('line') or ''}".strip(":")
            found.append((finding["code"], place, finding["message"]))
    return sorted(set(found))


def ending_of(rehearsal: Outcome) -> tuple[str, int, str]:
    """Where a rehearsal ended: STEPS, FINISHED, a line, or a word of distcheck; its steps; the error."""
    subject = rehearsal.report.get("subject")
    if rehearsal.status is None or not subject:
        return ("no end in time" if rehearsal.status is None else "no report"), 0, rehearsal.printed[-400:]
    failed = [end for end in subject["ends"] if end["how"] in ("raised", "killed", "exited") or end["status"]]
    failed.sort(key=lambda end: reports_lost_peer(end["detail"]))
    if failed:
        end = failed[0]
        return end["place"] or f"{end['how']} with status {end['status']}", subject["steps"], end["detail"]
    if subject["ended"] != "ended":
        return subject["ended"], subject["steps"], ""
    every = {end["how"] for end in subject["ends"]}
    return (STEPS if STEPS in every else FINISHED), subject["steps"], ""


def differences_of(
    recipe: Recipe, rehearsal: Outcome | None, plain: Outcome | None, watched: Outcome | None
) -> tuple[str, ...]:
    """What a recipe states otherwise than the runs show."""
    found = []
    if rehearsal is not None:
        ends, steps, detail = ending_of(rehearsal)
        if recipe.ends not in (ends, STEPS if ends == FINISHED else None) or steps < recipe.steps:
            found.append(f"rehearse: ended at {ends} after {steps} steps, not at {recipe.ends} after {recipe.steps}")
            found += [f"  {line}" for line in detail.splitlines()[-3:]]
        found += _judged("rehearse", rehearsal, [one for one in recipe.findings if not one.by_watch])
    if watched is not None:
        if plain is not None and watched.status != plain.status:
            found.append(f"watch: status {watched.status}, without it {plain.status}")
        found += _judged("watch", watched, [one for one in recipe.findings if one.by_watch])
    if plain is not None and plain.status and recipe.ends in (STEPS, FINISHED):
        found.append(f"plain: status {plain.status}: {plain.printed[-300:]}")
    return tuple(found)


def _judged(command: str, outcome: Outcome, judged: list[Judged]) -> list[str]:
    found = findings_of(outcome)
    keys = {(code, place) for code, place, _ in found}
    news = [one for one in found if one[:2] not in {(one.code, one.place) for one in judged}]
    return [f"{command}: not judged: {code} at {place}: {message}" for code, place, message in news] + [
        f"{command}: not found: {one.code} at {one.place}" for one in judged if (one.code, one.place) not in keys
    ]


def table(results: list[Result]) -> str:
    """The results as a Markdown table, with counts below it."""
    rows = [
        "| script | as far as with GPUs | true | false | plain | `watch` | `rehearse` | processor time |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for result in results:
        recipe = result.recipe
        link = f"[{recipe.repository}](https://github.com/{recipe.repository})"
        cells = [
            f"{link} `{_script_of(recipe)}`",
            _far(recipe),
            _codes(recipe, True),
            _codes(recipe, False),
        ]
        cells += [_seconds(each) for each in (result.plain, result.watched, result.rehearsal)]
        rows.append(f"| {' | '.join([*cells, _ratio(result)])} |")
    recipes = [result.recipe for result in results]
    fail = sum(not recipe.limit and recipe.ends not in (STEPS, FINISHED) for recipe in recipes)
    judged = [one for recipe in recipes for one in recipe.findings]
    true = sum(one.true for one in judged)
    repositories = {recipe.repository for recipe in recipes}
    far = sum(not recipe.limit for recipe in recipes)
    rows += [
        "",
        f"{len(recipes)} scripts of {len(repositories)} repositories; {far} get as far as with GPUs, {fail} of them "
        f"fail there or hang. {len(judged)} findings: {true} true, {len(judged) - true} false. "
        f"{sum(not recipe.no_cpu for recipe in recipes)} scripts also run on CPUs.",
    ]
    return "\n".join(rows)


def _script_of(recipe: Recipe) -> str:
    module = recipe.script.startswith("-m ")
    return recipe.script if module else os.path.normpath(os.path.join(recipe.folder, recipe.script))


def _far(recipe: Recipe) -> str:
    if recipe.limit:
        return f"no: {recipe.limit}"
    return {STEPS: "yes", FINISHED: "yes", HUNG: "yes, it hangs"}.get(recipe.ends, f"yes, it fails: {recipe.ends}")


def _codes(recipe: Recipe, true: bool) -> str:
    return ", ".join(one.code for one in recipe.findings if one.true is true) or "–"


def _ratio(result: Result) -> str:
    """How many times the processor time of the plain run a rehearsal of it takes, both to the end."""
    if result.same is None or result.plain is None or None in (result.same.status, result.plain.status):
        return "–"
    return f"{result.same.cpu_s / result.plain.cpu_s:.2f} × {result.plain.cpu_s:.0f} s"


def _seconds(outcome: Outcome | None) -> str:
    if outcome is None:
        return "–"
    return "no end" if outcome.status is None else f"{outcome.seconds:.0f} s"
