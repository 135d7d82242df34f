"""``distcheck collective``: check membership, results and speed of all ranks, and name the failed one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import click

from distcheck.core.configuration import Configuration
from distcheck.core.model import Report
from distcheck.core.world import World
from distcheck.launch.model import Launch, LaunchCommand
from distcheck.launch.reader import LaunchOptions, make_launch
from distcheck.rules import Selection

from . import options as shared
from . import output

EPILOG = """\b
Examples:
  distcheck collective --nproc 8                    the ranks of this host
  torchrun --nproc-per-node=8 -m distcheck.collective
  srun --ntasks-per-node=8 python -m distcheck.collective
  distcheck collective --nnodes 2 --node-rank 0 --master-addr node1 --nproc 8
  distcheck collective --nproc 8 --quick            verify and compare only
  distcheck collective --nproc 8 -b 8M -e 1G -f 2 --min-busbw 400
  distcheck collective --nproc 8 --output-format json -o good.json
  distcheck collective --nproc 8 --baseline good.json

Each option can be given as a variable: DISTCHECK_COLLECTIVE_TIMEOUT=120.
"""

#: Characters of a token that count.
_LONGEST_TOKEN = 4096
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _size(text: str) -> int:
    """Return a number of bytes in the notation of nccl-tests: ``8M`` is 8 x 1024 x 1024."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([BKMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise click.BadParameter(f"{text!r} is not a size; expected a number of bytes such as 1024, 64K, 8M or 1G")
    return size


#: Options that describe the ranks to start.
_RENDEZVOUS = ("nproc", "nnodes", "node_rank", "master_addr", "rdzv_endpoint")
_SECTIONS = {
    "Ranks": (*_RENDEZVOUS, "master_port", "roll_port", "token_file", "backend", "device"),
    "Test": (
        "min_bytes", "max_bytes", "factor", "iterations", "warmup", "check", "collectives", "dtype", "quick", "pairs",
        "timeout", "go_on", "min_busbw", "baseline",
    ),
    "Options": (),
}  # fmt: skip


@click.command(
    cls=shared.grouped(_SECTIONS),
    epilog=EPILOG,
    context_settings={"auto_envvar_prefix": "DISTCHECK_COLLECTIVE"},
)
@click.option("--nproc", metavar="N|gpu", help="Ranks to start on this host.  [default: one per GPU; 2 without GPUs]")
@click.option("--nnodes", type=click.IntRange(min=1), help="Number of hosts. Start this command on each.")
@click.option("--node-rank", type=click.IntRange(min=0), help="The number of this host, from 0.")
@click.option("--master-addr", help="The first host's name or address.")
@click.option("--master-port", type=click.IntRange(1, 65535), help="Port of torch's store.  [default: 29500]")
@click.option("--rdzv-endpoint", metavar="HOST[:PORT]", help="c10d rendezvous of the hosts, without node ranks.")
@click.option(
    "--roll-port", type=click.IntRange(1, 65535), help="Port of the membership check.  [default: the other port + 1]"
)
@click.option(
    "--backend", type=click.Choice(["auto", "nccl", "gloo"]), default="auto", help="[default: NCCL; gloo without GPUs]"
)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Device of the tensors.")
@click.option("-b", "--min-bytes", type=_size, metavar="SIZE", help="Smallest message: 1024, 64K, 8M.")
@click.option("-e", "--max-bytes", type=_size, metavar="SIZE", help="Largest message.")
@click.option(
    "-f", "--factor", type=click.IntRange(min=2), default=4, show_default=True, help="Factor from size to size."
)
@click.option(
    "-n",
    "--iterations",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Timed iterations at each size.",
)
@click.option(
    "-w", "--warmup", type=click.IntRange(min=0), default=5, show_default=True, help="Untimed iterations before that."
)
@click.option(
    "-c",
    "--check",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Correctness checks with new seeds; 0: none.",
)
@click.option(
    "--collectives", metavar="NAMES", help="What to measure: all, or all_reduce,all_gather,…  [default: all_reduce]"
)
@click.option(
    "--dtype", type=click.Choice(["float32", "float16", "bfloat16", "int64"]), default="float32", show_default=True,
    help="Data type of the measurement.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Check membership, compare hosts and verify results; measure nothing.")
@click.option("--pairs/--no-pairs", default=None, help="Measure pairs of ranks, to find a slow link.")
@click.option(
    "--timeout",
    type=click.FloatRange(1.0, 86400.0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds for each phase.",
)
@click.option("--continue", "go_on", is_flag=True, help="Continue after a finding that would stop the run.")
@click.option("--min-busbw", type=click.FloatRange(0.0, 1e6), metavar="GB/S", help="Fail below this bus bandwidth.")
@click.option("--baseline", metavar="FILE", help="Compare with the JSON of an earlier run.")
@click.option("--list", "list_phases", is_flag=True, help="Show the phases and exit.")
@click.option(
    "--token-file", metavar="FILE", help="Hosts join only with the text of this file, or the one in DISTCHECK_TOKEN."
)
@click.option("--output-dir", metavar="DIR", help="Write a record of each rank to this folder.")
@click.option("--merge", metavar="DIR", help="Check the records of such a folder instead of running.")
@shared.selection_options
@shared.configuration_options
@shared.verdict_options
@shared.output_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> int:
    """Verify that all ranks are present and see the same world, and that collectives are correct and fast.

    It starts the ranks of this host, or runs as one rank if a launcher started it. A hang is ended at the deadline of
    its phase, and the failed rank, host or link is named.
    """
    if given["list_phases"]:
        return list_phases()
    world = World()
    selection, configuration = shared.selection_and_configuration(world, given)
    environ = dict(os.environ)
    first = environ.get("RANK", environ.get("SLURM_PROCID", "0")) in ("", "0")
    if first:  # only the first rank writes, and the folder may exist only on its host
        shared.check_output_file(given["output_file"])
    finish = _Finish(given, configuration)
    if given["merge"] is not None:
        from distcheck.runtime.smoke_test.rank_records import RecordsError, merged_report

        try:
            return finish.status(merged_report(given["merge"], selection))
        except RecordsError as error:
            raise click.UsageError(f"--merge {given['merge']}: {error}") from None
    ask = ask_of(given, selection, first=first)._replace(show=finish.show)
    as_rank = bool(context.obj and context.obj.get("as_rank"))
    from distcheck.runtime.coordination.rank_info import rank_info_of, with_rank_variables

    environ = with_rank_variables(environ)
    described = any(given[name] is not None for name in _RENDEZVOUS)
    rank_info = rank_info_of(environ)
    # variables set defaults for all commands of a shell; the launcher's variables take precedence
    typed = any(context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE for name in _RENDEZVOUS)
    if as_rank and rank_info is not None and not typed:
        described = False
    if as_rank and described:
        raise click.UsageError(
            "the launcher has started this rank and sets the number of ranks; --nproc, --nnodes and the rendezvous "
            "are options of 'distcheck collective'"
        )
    from distcheck.runtime.smoke_test.run import SmokeTorchMissing

    try:
        return start(given, environ, rank_info if as_rank or not described else None, as_rank, ask, finish)
    except SmokeTorchMissing as error:
        raise click.UsageError(f"{error}; the smoke test needs it: pip install torch") from None


def start(
    given: dict[str, Any], environ: dict[str, str], rank_info: Any, as_rank: bool, ask: Any, finish: _Finish
) -> int:
    """Run as one rank, or start the ranks of this host or of one of several hosts."""
    if as_rank or rank_info is not None:
        return run_rank(environ, rank_info, ask, finish)
    if (given["nnodes"] or 1) > 1:
        return run_hosts(given, ask, finish)
    rendezvous = [
        name for name in ("node_rank", "master_addr", "master_port", "rdzv_endpoint") if given[name] is not None
    ]
    if rendezvous:
        option = "--" + rendezvous[0].replace("_", "-")
        raise click.UsageError(f"{option} is for several hosts, but --nnodes is not given; add --nnodes N")
    return run_here(given, ask, finish)


class _Finish:
    """Writes the report as the options request, and decides the exit status."""

    def __init__(self, given: dict[str, Any], configuration: Configuration) -> None:
        self.given = given
        self.configuration = configuration
        # with a bound, its rule must be checked
        bound = ("DC513",) if given["min_busbw"] is not None or given["baseline"] is not None else ()
        must = (*(given["must_check"] or configuration.values("must-check")), *bound)
        self.must_check = shared.selection_of(must) if must else None
        self.fail_on = given["fail_on"] or shared.fail_on_of(configuration)
        self.line: Any = None

    def unstarted(self, report: Report) -> int:
        """Write a report on ranks that did not start. Return its exit status: never 0 without ``--exit-zero``."""
        status = self.status(report)
        return status if self.given["exit_zero"] or status != output.CLEAN else output.NOT_CHECKED

    def show(self, phase: str, step: str, _seconds: float = 0.0) -> None:
        """Show the progress on the terminal."""
        if self.line is None:
            from distcheck.reporters.progress import Progress

            self.line = Progress(sys.stderr)
        if not self.given["quiet"]:
            self.line.show(phase, step)

    def status(self, report: Report) -> int:
        """Write the report, and return the exit status."""
        given = self.given
        if self.line is not None:
            self.line.clear()
        status = output.finish(report, given, self.configuration, fail_on=self.fail_on, must_check=self.must_check)
        # a run that did not finish is not a success, whichever rules are selected
        unfinished = report.command == "collective" and dict(report.measurements).get("failure")
        return output.NOT_CHECKED if unfinished and status == output.CLEAN and not given["exit_zero"] else status


def list_phases() -> int:
    """Print the phases as a table."""
    from tabulate import tabulate

    from distcheck.runtime.smoke_test.phases import PHASES

    rows = [(phase.name, phase.text) for phase in PHASES]
    output.to_stdout(tabulate(rows, tablefmt="plain", maxcolwidths=[None, 64]) + "\n")
    return output.CLEAN


def ask_of(given: dict[str, Any], selection: Selection, *, first: bool) -> Any:
    """Return the request of the options; raises UsageError if they contradict each other.

    :param first: this process may be the coordinator
    """
    from distcheck.runtime.smoke_test.bandwidth_checks import BandwidthBaselineError, load_baseline
    from distcheck.runtime.smoke_test.model import Options
    from distcheck.runtime.smoke_test.run import Request

    if given["min_bytes"] and given["max_bytes"] and given["min_bytes"] > given["max_bytes"]:
        raise click.UsageError(f"-b {given['min_bytes']} is more than -e {given['max_bytes']}")
    for name in ("min_busbw", "baseline"):
        if given["quick"] and given[name] is not None:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} needs a measurement, and --quick measures nothing; drop one of them")
    if given["min_busbw"] != given["min_busbw"] or given["timeout"] != given["timeout"]:
        raise click.UsageError("--timeout and --min-busbw need numbers, not nan")
    if given["backend"] == "nccl" and given["device"] == "cpu":
        raise click.UsageError("--backend nccl works only on GPUs; drop --device cpu, or use --backend gloo")
    baselines = None
    if given["baseline"] is not None and first:
        try:
            baselines = load_baseline(given["baseline"])
        except BandwidthBaselineError as error:
            raise click.UsageError(f"--baseline {given['baseline']}: {error}") from None
    options = Options(
        given["backend"], given["device"], given["min_bytes"], given["max_bytes"], given["factor"], given["iterations"],
        given["warmup"], collectives_of(given["collectives"]), given["dtype"], given["check"], given["quick"],
        given["pairs"], given["timeout"], given["min_busbw"],
    )  # fmt: skip
    output_dir = folder_of(given["output_dir"])
    return Request(options, selection, given["go_on"], baselines, None, output_dir)


def folder_of(path: str | None) -> str | None:
    """Create the folder for the ranks' records, and return it; raises UsageError if that fails."""
    if path is None:
        return None
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--output-dir {path}: it can't be made: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise click.UsageError(f"--output-dir {path}: it can't be written by this user; name another folder")
    return path


def collectives_of(text: str | None) -> tuple[str, ...]:
    """Return the collectives to measure, by name; raises UsageError for an unknown one."""
    from distcheck.runtime.smoke_test.bandwidth import COLLECTIVES, collective_name

    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if names == ("all",):
        return tuple(COLLECTIVES)
    try:
        return tuple(collective_name(name) for name in names)
    except ValueError as error:
        raise click.UsageError(f"--collectives: {error}") from None


def run_rank(environ: dict[str, str], rank_info: Any, ask: Any, finish: _Finish) -> int:
    """Run one rank that a launcher started."""
    from distcheck.checks.host.examine import examine
    from distcheck.runtime.smoke_test import run

    if rank_info is not None and rank_info.world_size == 1:
        # a single rank needs no rendezvous
        alone = {"LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        environ = {**environ, **{name: value for name, value in alone.items() if not environ.get(name)}}
    world = World(environ)
    launch = make_launch(world.environ, launched=True, host_name=world.host_name())
    # so that printed commands name this module, and at least two ranks
    command_line = LaunchCommand("python", script="distcheck.collective", module=True)
    if rank_info is None or rank_info.rank >= rank_info.world_size:
        launch = launch._replace(command=command_line, script=command_line.script, nproc=run.usable_gpus(world) or 2)
        report = examine(launch, world, selection=ask.selection)
        return finish.unstarted(report._replace(command="collective"))
    launch = launch if ask.options.backend == "auto" else launch._replace(backend=ask.options.backend)
    inspected = run.look((rank_info,), launch, world, ask.selection)
    return finished(run.run((rank_info,), inspected, ask), finish)


def run_here(given: dict[str, Any], ask: Any, finish: _Finish) -> int:
    """Start and supervise all ranks on this host."""
    from distcheck.runtime.coordination.rank_info import RankInfo
    from distcheck.runtime.smoke_test import run

    world = World()
    count = ranks_here(given["nproc"], world)
    backend = None if ask.options.backend == "auto" else ask.options.backend
    launch: Launch = make_launch(
        world.environ,
        options=LaunchOptions(nproc_per_node=str(count), nnodes="1", backend=backend),
        host_name=world.host_name(),
    )
    rank_infos = tuple(RankInfo(rank, count, rank, count, 0) for rank in range(count))
    inspected = run.look(rank_infos, launch, world, ask.selection)
    return finished(run.run(rank_infos, inspected, ask), finish)


def run_hosts(given: dict[str, Any], ask: Any, finish: _Finish) -> int:
    """Run the ranks of one of several hosts: the membership check first, then torchrun's launch API."""
    import importlib.util

    from distcheck.checks.cluster.membership_protocol import MembershipError
    from distcheck.checks.host.examine import examine
    from distcheck.runtime.smoke_test import multi_host
    from distcheck.runtime.smoke_test.run import SmokeTorchMissing

    if importlib.util.find_spec("torch") is None:
        raise SmokeTorchMissing(f"torch is not installed for {sys.executable}")

    world = World()
    count = ranks_here(given["nproc"], world)
    names = ("nnodes", "node_rank", "master_addr", "master_port", "rdzv_endpoint", "roll_port")
    try:
        plan = multi_host.HostPlan.of(nproc=count, **{name: given[name] for name in names})
        backend = None if ask.options.backend == "auto" else ask.options.backend
        launch = make_launch(
            world.environ,
            options=LaunchOptions(
                str(count), str(plan.nnodes), plan.node_rank,
                given["master_addr"], given["master_port"], given["rdzv_endpoint"], None, backend,
            ),
            host_name=world.host_name(),
        )  # fmt: skip
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    inspected = examine(launch, world, selection=ask.selection)
    try:
        answer = multi_host.call(
            plan,
            name=world.host_name(),
            inspected=inspected,
            timeout_s=ask.options.timeout_s,
            job=job_of(world),
            token=token_of(given["token_file"], os.environ),
            progress=lambda present, of, missing: finish.show(
                "membership", f"{present} of {of} hosts; missing: {missing}"
            ),
        )
    except MembershipError as error:
        answer = multi_host.unanswered(plan, world.host_name(), error)
    stopped = multi_host.report_of_hosts(answer, inspected, plan, ask)
    if stopped is not None:
        return finish.unstarted(stopped)
    try:
        return multi_host.start(
            plan, _rank_of_host, (ask._replace(show=None), given, finish.configuration), ask.options.timeout_s
        )
    except multi_host.StartError as error:
        return finish.unstarted(multi_host.report_of_start(plan, inspected, error))


def job_of(world: World) -> str:
    """Return the scheduler's job ID, "" without one."""
    from distcheck.launch.schedulers import scheduler_of

    scheduler = scheduler_of(world.environ)
    return "" if scheduler is None or scheduler.job_id is None else scheduler.job_id


def token_of(path: str | None, environ: Mapping[str, str]) -> str:
    """Return what only the hosts of this run know, without blanks around it; raises UsageError for no such file."""
    if path is None:
        return environ.get("DISTCHECK_TOKEN", "").strip()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            token = file.read(_LONGEST_TOKEN).strip()
    except OSError as error:
        raise click.UsageError(f"--token-file {path}: it can't be read: {error.strerror}") from None
    if not token:
        raise click.UsageError(f"--token-file {path}: it is empty; write the same random text into it on all hosts")
    return token


def _rank_of_host(ask: Any, given: dict[str, Any], configuration: Configuration) -> int:
    """Run one rank, forked by torchrun's agent."""
    from distcheck.runtime.coordination.rank_info import rank_info_of

    environ = dict(os.environ)
    finish = _Finish(given, configuration)
    status = run_rank(environ, rank_info_of(environ), ask._replace(show=finish.show), finish)
    sys.stdout.flush()
    return status


def finished(ended: Any, finish: _Finish) -> int:
    """Print the report and publish the exit status if this process is the coordinator; else receive the status."""
    if ended.report is None:
        status, line = ended.hear()
        if line is not None:
            output.say(f"distcheck: {line}")
        return int(status)
    try:
        status = finish.status(ended.report)
    except BaseException:
        ended.publish(output.MISUSED)  # the others must not wait for a verdict
        raise
    ended.keep(ended.report.as_dict())
    ended.publish(status)
    return status


def ranks_here(text: str | None, world: World) -> int:
    """Return how many ranks to start; raises UsageError if the option is not a number."""
    if text is None or text == "gpu":
        from distcheck.runtime.smoke_test.run import usable_gpus

        gpus = usable_gpus(world)
        if gpus == 0 and text == "gpu":
            raise click.UsageError("--nproc gpu: no GPU is usable here; give a number")
        return gpus or 2
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 1024:
        raise click.UsageError(f"--nproc {text}: expected a number from 1 to 1024, or gpu")
    return int(text)
