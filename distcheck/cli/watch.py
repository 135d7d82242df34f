"""``torchrun … -m distcheck.watch train.py``: observes a real job, and names the rank and the line of a hang."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from distcheck.core.model import Finding, Report, Severity
from distcheck.reporters import FORMATS
from distcheck.rules import Selection
from distcheck.runtime.coordination.rank_monitor import HANG_TIMEOUT_S

from . import options as shared

if TYPE_CHECKING:
    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.coordinator import MonitorReporter
    from distcheck.runtime.coordination.copies import TrainedModels
    from distcheck.runtime.coordination.drift import Drift
    from distcheck.runtime.coordination.failed_calls import CaughtFailure, FailureObserver
    from distcheck.runtime.coordination.ledger import Summary
    from distcheck.runtime.coordination.long_waits import LongWait
    from distcheck.runtime.coordination.model import Positions
    from distcheck.runtime.coordination.rank_info import RankInfo
    from distcheck.runtime.coordination.rank_monitor import RankMonitor
    from distcheck.runtime.coordination.reductions import Reductions
    from distcheck.runtime.coordination.run_script import ScriptExit
    from distcheck.runtime.coordination.sampling import Samples
    from distcheck.runtime.coordination.store_client import StoreClient
    from distcheck.runtime.coordination.training import AtStep, TrainingObserver
    from distcheck.runtime.coordination.worker_calls import WorkerCall, WorkerCalls
    from distcheck.runtime.monitor.sample_exchange import SampledRanks

#: The module with the probes of a hang.
PROBE_MODULES = ("distcheck.runtime.coordination.hang_detector",)
#: The module with the probes of a job that ended.
AT_END = ("distcheck.runtime.monitor.summary",)
#: The module with the probes of replicas.
OF_REPLICAS = ("distcheck.runtime.coordination.drift",)
#: The module with the probe of models that no wrapper holds.
OF_COPIES = ("distcheck.runtime.coordination.copies",)
#: The module with the probe of what gradients are before and after their reduction.
OF_REDUCTIONS = ("distcheck.runtime.coordination.reductions",)
#: The modules with the probes of samples.
OF_SAMPLES = tuple(f"distcheck.runtime.coordination.{topic}" for topic in ("sample_checks", "epochs", "splits"))
#: The modules with the probes of what one rank finds by itself.
OF_STEPS = tuple(
    f"distcheck.runtime.coordination.{topic}" for topic in ("clipping", "failed_calls", "unwaited_handles", "updates")
)
#: The module with the probe of what children of ranks call.
OF_WORKERS = ("distcheck.runtime.coordination.worker_calls",)
#: Default of ``--consistency-interval``, in optimizer steps.
EVERY_STEPS = 100
#: Entry point of the script's children.
CHILD_ENTRY = f"{__name__}:child"

EPILOG = """\b
Examples:
  torchrun --nproc-per-node=8 -m distcheck.watch train.py --lr 0.1
  torchrun --nnodes=2 --nproc-per-node=8 -m distcheck.watch --hang-timeout 60 -m package.train
  srun python -m distcheck.watch --on-hang abort -o hang.json train.py
  torchrun --nproc-per-node=8 -m distcheck.watch --consistency train.py
  python -m distcheck.watch train.py             a script that starts its ranks itself (mp.spawn)

\b
What you see:
  while it runs   nothing; a hang, after the hang timeout; a line when ranks wait for minutes for one that works;
                  with --consistency, replicas of a model that differ
  at the end      one line: how long ranks waited, where, and the straggler; warnings if something is wrong

\b
Exit status: the script's own, whatever was found; 1 if --on-hang abort ended the job; 2 if an option is wrong.

Options of distcheck come before the script; options after it are the script's. Each option can be set as a
variable: DISTCHECK_WATCH_HANG_TIMEOUT=60, DISTCHECK_WATCH_ON_HANG=abort.
"""


class WatchOptions(NamedTuple):
    """The script, and how it is watched."""

    target: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    hang_timeout_s: float = HANG_TIMEOUT_S
    abort: bool = False
    #: of the report: into the file, or on standard error where there is no file; None: json, and full
    output_format: str | None = None
    output_file: str | None = None
    selection: Selection = Selection()
    quiet: bool = False
    #: compare gradients and parameters of replicas, and not only learning rates
    consistency: bool = False
    #: optimizer steps between two comparisons
    every_steps: int = EVERY_STEPS


@click.command(
    "watch",
    epilog=EPILOG,
    context_settings={"auto_envvar_prefix": "DISTCHECK_WATCH", "allow_interspersed_args": False},
)
@shared.hang_timeout_option(
    "watch", HANG_TIMEOUT_S, "Seconds without progress, while ranks wait, after which it is reported as a hang."
)
@click.option(
    "--on-hang", type=click.Choice(["report", "abort"]), default="report", show_default=True,
    help="Only report it, or also end the job with status 1.",
)  # fmt: skip
@click.option(
    "--consistency", is_flag=True,
    help="Compare gradients and parameters of the replicas of a model. Learning rates are always compared.",
)  # fmt: skip
@click.option(
    "--consistency-interval", type=click.IntRange(min=1), default=EVERY_STEPS, show_default=True, metavar="N",
    help="Compare replicas at every Nth step of an optimizer, and at some of the first.",
)  # fmt: skip
@click.option("-m", "--module", is_flag=True, help="The script is the name of a module, as behind python -m.")
@shared.selection_options
@click.option(
    "--output-format", type=click.Choice(list(FORMATS)),
    help="How to write the report.  [default: full on standard error, json in the file]",
)  # fmt: skip
@click.option("-o", "--output-file", metavar="FILE", help="Write the report to this file as well.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing at the end of a job without findings.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, /, **given: Any) -> WatchOptions:
    """Run a training script unmodified, and report a hang within seconds.

    Start it with torchrun or srun instead of the script. A side thread in each rank sends heartbeats. If ranks wait for
    ranks that cannot arrive, one report names the ranks, the call, its line, and the ranks that they wait for. No
    collective is added, and a rank that computes is never reported as a hang.
    """
    selection = shared.selection_of(given["select"], given["extend_select"], given["ignore"])
    shared.check_output_file(given["output_file"])
    options = WatchOptions(
        given["script"], given["arguments"], given["module"], given["hang_timeout"], given["on_hang"] == "abort",
        given["output_format"], given["output_file"], selection, given["quiet"],
        given["consistency"], given["consistency_interval"],
    )  # fmt: skip
    if not (context.obj and context.obj.get("as_rank")):
        # called as 'distcheck watch': the same in a process that has nothing else in it
        os.execv(sys.executable, [sys.executable, "-m", "distcheck.watch", *sys.argv[2:]])  # noqa: S606
    return options


def read(arguments: Sequence[str]) -> WatchOptions | int:
    """The options of ``python -m distcheck.watch``, or the status to end with."""
    try:
        found = command.main(
            list(arguments), prog_name="python -m distcheck.watch", standalone_mode=False, obj={"as_rank": True},
            help_option_names=["-h", "--help"], max_content_width=100, **command.context_settings,
        )  # fmt: skip
    except click.ClickException as error:
        # all ranks have been given the same
        if os.environ.get("LOCAL_RANK", "0") == "0":
            error.show()
        return error.exit_code
    return found if isinstance(found, (WatchOptions, int)) else 0


def watch(options: WatchOptions) -> None:
    """Become the script, with a side thread if this process is a rank or becomes one."""
    from distcheck.runtime.coordination.run_script import CannotRun, run

    ended = _begin(options)
    try:
        run(options.target, options.arguments, module=options.module, ended=ended)
    except CannotRun as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2 if not options.module else 1) from None


#: The recorder of this process. A fork inherits that of its parent, which torch's functions call.
_recorder: CallRecorder | None = None
#: The observers of its optimizers, and of its calls that fail, inherited likewise.
_training: TrainingObserver | None = None
#: findings that are in the file of ``--output-file``: a later report adds to them
_written: list[Finding] = []
_begun = time.time()
_failures: FailureObserver | None = None


def _begin(options: WatchOptions) -> Callable[[ScriptExit], None]:
    import atexit

    from distcheck.runtime.coordination.child_processes import follow
    from distcheck.runtime.coordination.rank_info import rank_info_of

    rank_info = rank_info_of(os.environ, host=socket.gethostname(), rendezvous=False)
    monitor = _monitor(options, rank_info)
    follow(CHILD_ENTRY, json.dumps(options))
    # registered before the script registers its handlers, so it runs after them
    atexit.register(monitor.leave)
    if rank_info is not None:
        monitor.start()

    def ended(end: ScriptExit) -> None:
        _end(options, monitor, end)
        if rank_info is None and not monitor.started and not _has_children() and (end.state, end.status) == ("left", 0):
            say(
                "distcheck watch: no launcher made this process a rank (RANK, WORLD_SIZE), and it made no process "
                "group: nothing was watched"
            )

    return ended


def child(given: str) -> Callable[[ScriptExit], None]:
    """Watch a process that the script started by multiprocessing, as soon as it makes a group."""
    plain = json.loads(given)
    options = WatchOptions(*plain)._replace(arguments=tuple(plain[1]), selection=Selection(*map(tuple, plain[7])))
    monitor = _monitor(options, None)

    def ended(end: ScriptExit) -> None:
        _end(options, monitor, end)
        # a fork runs no exit handlers
        monitor.leave()

    return ended


def _end(options: WatchOptions, monitor: RankMonitor, end: ScriptExit) -> None:
    """Record how the script ended. What an exception means is found here, because the side thread has little time."""
    report = None
    ended_well = (end.state, end.status) == ("left", 0)
    if _failures is not None and not ended_well:
        _failures.forget()
    elif _failures is not None and not _failures.joined and os.environ.get("LOCAL_RANK", "0") == "0":
        # there may be no store to report it once
        for found in _failures.found():
            _report_now(options, step_report_of(found, options.selection))
    if end.state == "raised":
        try:
            report = failure_report_of(end, monitor.rank_info.rank, options.selection)
        except Exception as error:  # noqa: BLE001 - the script's own exception must be shown
            say(f"distcheck watch: the exception could not be explained: {type(error).__name__}: {error}")
    explain = None if report is None else partial(_report_now, options, report)
    monitor.ended(end.state, end.status, end.detail, end.stack, explain)


def _monitor(options: WatchOptions, rank_info: RankInfo | None) -> RankMonitor:
    global _recorder, _training, _failures
    from distcheck.runtime.coordination import loader_hooks
    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.copy_observer import CopyObserver
    from distcheck.runtime.coordination.drift import ReplicaExchange
    from distcheck.runtime.coordination.failed_calls import FailureObserver
    from distcheck.runtime.coordination.import_hook import when_imported
    from distcheck.runtime.coordination.rank_info import rank_info_of_group
    from distcheck.runtime.coordination.rank_monitor import RankMonitor
    from distcheck.runtime.coordination.shared_table import open_shared_table
    from distcheck.runtime.coordination.store_client import JobStoreConnection
    from distcheck.runtime.coordination.training import TrainingObserver
    from distcheck.runtime.monitor.copy_exchange import CopyExchange
    from distcheck.runtime.monitor.reduction_exchange import ReductionExchange
    from distcheck.runtime.monitor.sample_exchange import LIMITS, SampleExchange, SampleLog

    environ = dict(os.environ)
    recorder = _recorder
    if recorder is None:
        recorder = _recorder = CallRecorder()
        when_imported("torch.distributed.distributed_c10d", recorder.attach)
    else:
        recorder.forget()
    joined = _joined(recorder)
    table = open_shared_table(environ, rank_info.rank, begun=time.monotonic()) if rank_info is not None else None
    if _training is None:
        copies = CopyObserver(lambda: sys.modules["torch.distributed"].get_rank()) if options.consistency else None
        _training = TrainingObserver(recorder, options.every_steps, digests=options.consistency, copies=copies)
        _training.install()
    else:
        _training.forget()
    training = _training
    if _failures is None:
        _failures = FailureObserver(recorder)
        when_imported("torch.autograd", _failures.attach_backward)
    else:
        _failures.forget()
    failures = _failures
    exchange = ReplicaExchange(_training.rows, lambda drift: _report_drift(options, drift), _training.unchecked)
    log = SampleLog(recorder)
    watcher = loader_hooks.install(log, LIMITS)
    _training.observe_reduced(lambda: watcher.has_batches, watcher.fed_by_hand)
    samples = SampleExchange(log, partial(_report_samples, options))
    copied = None
    if _training.copies is not None:
        _training.copies.divided = watcher.parallel.divides_models
        copied = CopyExchange(_training.copies, partial(_report_copies, options))
    reduced = ReductionExchange(_training, partial(_report_reductions, options)) if options.consistency else None

    def on_tick(store: StoreClient, rank: int, final: bool) -> None:
        exchange.tick(store, rank, final)
        if copied is not None:
            copied.tick(store, rank, monitor.rank_info.world_size, final)
        if reduced is not None:
            reduced.tick(store, rank, monitor.rank_info.world_size, final)
        samples.tick(store, rank, monitor.rank_info.world_size, final)
        for found in (*training.found(final=final), *(failures.found() if final else ())):
            _report_once(options, step_report_of(found, options.selection), store)

    monitor = RankMonitor(
        recorder, rank_info or rank_info_of_group(joined, socket.gethostname()), JobStoreConnection(joined, environ),
        _reporter(options), hang_timeout_s=options.hang_timeout_s, abort=options.abort, on_tick=on_tick,
    )  # fmt: skip
    recorder.observe(monitor, table)
    return monitor


def _joined(recorder: CallRecorder) -> Callable[[], bool]:
    return lambda: recorder.joined


def _reporter(options: WatchOptions) -> MonitorReporter:
    from distcheck.runtime.coordination.coordinator import MonitorReporter
    from distcheck.runtime.coordination.worker_calls import WorkerCalls

    class Reporter(MonitorReporter):
        def hang(self, positions: Positions) -> None:
            _report(options, positions)

        def line(self, text: str) -> None:
            say(text)

        def long_wait(self, wait: LongWait) -> None:
            _report_long_wait(options, wait)

        def worker_call(self, call: WorkerCall, store: StoreClient | None) -> None:
            report = worker_report_of(WorkerCalls((call,)), options.selection)
            if store is None:
                _report_now(options, report)
            else:
                _report_once(options, report, store)

        def summary(self, summary: Summary) -> None:
            _summarise(options, summary)

    return Reporter()


def _has_children() -> bool:
    """Return whether multiprocessing ever started a process: the ranks may have been its children, and watched."""
    module = sys.modules.get("multiprocessing.process")
    # the counter of their names, which must not change
    return module is not None and repr(module._process_counter) != "count(1)"


def say(text: str) -> None:
    """Print a line in one write, so that lines of several ranks do not mix, with control characters visible."""
    from distcheck.reporters.plain import visible

    try:
        sys.__stderr__.write(f"{visible(text)}\n")  # type: ignore[union-attr]
        sys.__stderr__.flush()  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        return  # no process reads it any more


# reports


def name_of(environ: Mapping[str, str]) -> str:
    """Return the name of this job for the user."""
    for variable in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        if environ.get(variable):
            return f"job {environ[variable]}"
    run = environ.get("TORCHELASTIC_RUN_ID", "none")
    return f"torchrun {run}" if run != "none" else "the watched job"


def report_of(positions: Positions, selection: Selection) -> Report:
    """Return the report about the positions of the ranks."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.model import Positions
    from distcheck.runtime.coordination.stack_report import plain_job

    report = Checker(selection, modules=PROBE_MODULES).plan(Positions, command="watch", closed=True).run(positions)
    seen = "when a rank lost its peer" if positions.over else f"no progress for {positions.hang_timeout_s:.0f} s"
    if positions.mismatches:
        seen = "when calls were seen to differ"
    job = plain_job(name_of(os.environ), positions, seen=seen, interval_s=positions.hang_timeout_s)
    ranks = f"{positions.world_size} rank{'s' * (positions.world_size != 1)}"
    return report._replace(stage="rank", subject={"line": [ranks], "jobs": [job]}, facts={"Positions": positions})


def summary_of(summary: Summary, selection: Selection) -> Report:
    """Return the report about a job that ended."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.ledger import Summary
    from distcheck.runtime.monitor.summary import not_checked, numbers, sentence

    report = Checker(selection, modules=AT_END).plan(Summary, command="watch", closed=True).run(summary)
    return report._replace(
        stage="rank",
        subject={"line": [sentence(summary)], "calls": numbers(summary)},
        not_checked=(*report.not_checked, *not_checked(summary)),
        facts={"Summary": summary},
    )


def failure_report_of(end: ScriptExit, rank: int, selection: Selection) -> Report | None:
    """Return the report about an exception that ended a script, or None if no rule explains it."""
    from distcheck.runtime.coordination.root_cause import reports_lost_peer

    from .failure_findings import findings_of_failure

    frame = next((frame for frame in end.stack if frame.own), None)
    if frame is None or rank < 0 or reports_lost_peer(end.detail):
        return None
    found = findings_of_failure(end.traceback, frame.place, (rank,), end.detail, selection)
    line = f"rank {rank} raised {end.detail}"
    return Report(stage="rank", command="watch", subject={"line": [line]}, findings=tuple(found)) if found else None


def _report(options: WatchOptions, positions: Positions) -> None:
    _report_now(options, report_of(positions, options.selection))


def _report_now(options: WatchOptions, report: Report) -> None:
    say(_text(options, report).rstrip())
    _write(options, report)


def _summarise(options: WatchOptions, summary: Summary) -> None:
    report = summary_of(summary, options.selection)
    if report.at_least(Severity.WARNING):
        say(_text(options, report).rstrip())
    elif not options.quiet:
        more = sorted({f"{finding.message} ({finding.code})" for finding in report.findings})
        if summary.replicas_unchecked:
            more.append(f"replicas not checked: {summary.replicas_unchecked}")
        if summary.samples_unchecked:
            more.append(f"samples not checked: {summary.samples_unchecked}")
        say("; ".join([f"distcheck watch: {report.subject['line'][0]}", *more]))
    # the report of a hang is worth more than this
    if not summary.reported:
        _write(options, report)


def drift_report_of(drift: Drift, selection: Selection) -> Report:
    """Return the report about replicas that differ."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.drift import Drift

    report = Checker(selection, modules=OF_REPLICAS).plan(Drift, command="watch", closed=True).run(drift)
    return report._replace(stage="rank", subject={"line": [f"replicas on {len(drift.rows)} ranks"]})


def _report_drift(options: WatchOptions, drift: Drift) -> None:
    report = drift_report_of(drift, options.selection)
    if report.findings:
        say(_text(options, report).rstrip())
        _write(options, report)


def copy_report_of(models: TrainedModels, selection: Selection) -> Report:
    """Return the report about models that no wrapper holds."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.copies import TrainedModels

    report = Checker(selection, modules=OF_COPIES).plan(TrainedModels, command="watch", closed=True).run(models)
    return report._replace(stage="rank", subject={"line": ["copies of models"]})


def _report_copies(options: WatchOptions, models: TrainedModels, store: StoreClient) -> None:
    _report_once(options, copy_report_of(models, options.selection), store)


def reduction_report_of(reductions: Reductions, selection: Selection) -> Report:
    """Return the report about the factor by which gradients are averaged."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.reductions import Reductions

    report = Checker(selection, modules=OF_REDUCTIONS).plan(Reductions, command="watch", closed=True).run(reductions)
    return report._replace(stage="rank", subject={"line": ["gradients of the first steps"]})


def _report_reductions(options: WatchOptions, reductions: Reductions, store: StoreClient) -> None:
    _report_once(options, reduction_report_of(reductions, options.selection), store)


def sample_report_of(samples: Samples, selection: Selection) -> Report:
    """Return the report about the samples that ranks read."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.sampling import Samples

    report = Checker(selection, modules=OF_SAMPLES).plan(Samples, command="watch", closed=True).run(samples)
    return report._replace(stage="rank")


def step_report_of(found: AtStep | CaughtFailure, selection: Selection) -> Report:
    """Return the report about what one rank found by itself."""
    from distcheck.core.checker import Checker

    plan = Checker(selection, modules=OF_STEPS).plan(type(found), command="watch", closed=True).without_absent()
    return plan.run(found)._replace(stage="rank", subject={"line": [f"rank {found.rank}"]})


def worker_report_of(found: WorkerCalls, selection: Selection) -> Report:
    """Return the report about a collective in a child of a rank."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.worker_calls import WorkerCalls

    report = Checker(selection, modules=OF_WORKERS).plan(WorkerCalls, command="watch", closed=True).run(found)
    return report._replace(stage="rank", subject={"line": ["a child of a rank"]})


def _report_samples(options: WatchOptions, sampled: SampledRanks, store: StoreClient) -> None:
    from distcheck.runtime.coordination.locations import few_rank_names

    report = sample_report_of(sampled.samples, options.selection)
    line = f"samples of {few_rank_names(sampled.ranks)}"
    _report_once(options, report._replace(subject={"line": [line]}), store)


def _report_once(options: WatchOptions, report: Report, store: StoreClient) -> None:
    """Report what no rank of the job has reported yet, at the same line."""
    from distcheck.runtime.coordination.protocol import PREFIX, REPORTED

    new = [
        found for found in report.findings
        if found.severity >= Severity.WARNING
        and store.add(f"{PREFIX}/once/{found.code}/{found.where.path}:{found.where.line}", 1) == 1
    ]  # fmt: skip
    if new:
        # the summary at the end does not replace this report
        store.set(REPORTED, "1")
        _report_now(options, report._replace(findings=tuple(new)))


def _report_long_wait(options: WatchOptions, wait: LongWait) -> None:
    from distcheck import rules
    from distcheck.runtime.monitor.summary import slow_rank

    if options.selection.takes(rules.DC726):
        found = slow_rank(wait, now=True)
        say(f"distcheck watch: {found.severity.word} {found.code}: {found.message}")


def _text(options: WatchOptions, report: Report) -> str:
    from distcheck.reporters import Style, render

    chosen = options.output_format if options.output_file is None else None
    return render(report, chosen or "full", Style(color=False, width=100, unicode=False))


def _write(options: WatchOptions, report: Report) -> None:
    from distcheck.reporters import Style, render

    from . import output

    if options.output_file is None:
        return
    found, known = list(report.findings), set(map(_identity, report.findings))
    for one in (*_written, *_written_by_others(options.output_file)):
        if _identity(one) not in known:
            known.add(_identity(one))
            found.append(one)
    _written[:] = found
    report = report._replace(findings=tuple(_written))
    try:
        output.write_file(options.output_file, render(report, options.output_format or "json", Style()))
    except OSError as error:
        say(f"distcheck watch: {options.output_file} can't be written: {error.strerror}")


def _identity(found: Finding) -> tuple[object, ...]:
    """Return what a later report about the same has as well. Its message may hold other numbers."""
    return found.code, found.where.path, found.where.line, re.sub(r"\d+(\.\d+)?", "", found.message)


def _written_by_others(path: str) -> list[Finding]:
    """Return the findings that other ranks have written into the file since this process began.

    Only JSON can be read back, and a file of an earlier job does not count.
    """
    try:
        if os.path.getmtime(path) < _begun:
            return []
        with open(path, encoding="utf-8") as file:
            return [Finding.from_dict(one) for one in json.load(file)["findings"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []  # it is in another format, or does not exist
