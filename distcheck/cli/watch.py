"""``torchrun … -m distcheck.watch train.py``: rides along in a real job, and says who is stuck where."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from distcheck.core.model import Report, Severity
from distcheck.reporters import FORMATS
from distcheck.rules import Selection
from distcheck.runtime.coordination.rank_monitor import HANG_TIMEOUT_S

from . import options as shared

if TYPE_CHECKING:
    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.coordinator import MonitorReporter
    from distcheck.runtime.coordination.ledger import Summary
    from distcheck.runtime.coordination.long_waits import LongWait
    from distcheck.runtime.coordination.model import Positions
    from distcheck.runtime.coordination.rank_info import RankInfo
    from distcheck.runtime.coordination.rank_monitor import RankMonitor
    from distcheck.runtime.coordination.run_script import ScriptExit

#: The probes of a standstill, and those of a job that came to its end.
ROOMS = ("distcheck.runtime.coordination.hang_detector",)
AT_END = ("distcheck.runtime.monitor.summary",)
#: What children of the script go through.
DOOR = f"{__name__}:child"

EPILOG = """\b
Examples:
  torchrun --nproc-per-node=8 -m distcheck.watch train.py --lr 0.1
  torchrun --nnodes=2 --nproc-per-node=8 -m distcheck.watch --hang-timeout 60 -m package.train
  srun python -m distcheck.watch --on-hang abort -o hang.json train.py
  python -m distcheck.watch train.py             a script that starts its ranks itself (mp.spawn)

\b
What you see:
  while it runs   nothing; a hang, after the hang timeout; a line when ranks wait for minutes for one that works
  at the end      one line: how long ranks waited, where, and who came last; warnings where something is wrong

\b
Exit status: the script's own, whatever was found; 1 where --on-hang abort has ended the job; 2 where an option is
not right.

Options of distcheck come before the script; what follows it is the script's. Where the line can't be changed, each
option can be given as a variable: DISTCHECK_WATCH_HANG_TIMEOUT=60, DISTCHECK_WATCH_ON_HANG=abort.
"""


class WatchOptions(NamedTuple):
    """What is to be run, and how it is watched."""

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
    help="Only say it, or end the job with status 1 as well.",
)  # fmt: skip
@click.option("-m", "--module", is_flag=True, help="The script is the name of a module, as behind python -m.")
@shared.selection_options
@click.option(
    "--output-format", type=click.Choice(list(FORMATS)),
    help="How to write the report.  [default: full on standard error, json in the file]",
)  # fmt: skip
@click.option("-o", "--output-file", metavar="FILE", help="Write the report to this file as well.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing at the end of a job in which nothing was wrong.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, /, **given: Any) -> WatchOptions:
    """Run a training script unmodified, and say within seconds which rank is stuck where.

    Started by torchrun or srun in place of the script. A side thread in each rank tells the others where it is; when
    ranks wait for what can't come, one report names who waits in which call at which line, and for whom. No collective
    is added, and a rank that computes is never called a hang, however long the others wait.
    """
    selection = shared.selection_of(given["select"], given["extend_select"], given["ignore"])
    shared.check_output_file(given["output_file"])
    asked = WatchOptions(
        given["script"], given["arguments"], given["module"], given["hang_timeout"], given["on_hang"] == "abort",
        given["output_format"], given["output_file"], selection, given["quiet"],
    )  # fmt: skip
    if not (context.obj and context.obj.get("as_rank")):
        # called as 'distcheck watch': the same in a process that has nothing else in it
        os.execv(sys.executable, [sys.executable, "-m", "distcheck.watch", *sys.argv[2:]])  # noqa: S606
    return asked


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


def watch(asked: WatchOptions) -> None:
    """Become the script, with a side thread where this process is a rank, or becomes one."""
    from distcheck.runtime.coordination.run_script import CannotRun, run

    ended = _begin(asked)
    try:
        run(asked.target, asked.arguments, module=asked.module, ended=ended)
    except CannotRun as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2 if not asked.module else 1) from None


#: The notes of this process. A fork has those of its parent: torch's functions go through them.
_posts: CallRecorder | None = None


def _begin(asked: WatchOptions) -> Callable[[ScriptExit], None]:
    import atexit

    from distcheck.runtime.coordination.child_processes import follow
    from distcheck.runtime.coordination.rank_info import rank_info_of

    rank_info = rank_info_of(os.environ, host=socket.gethostname(), rendezvous=False)
    monitor = _monitor(asked, rank_info)
    follow(DOOR, json.dumps(asked))
    # registered before anything of the script: it runs behind all of that
    atexit.register(monitor.leave)
    if rank_info is not None:
        monitor.start()

    def ended(end: ScriptExit) -> None:
        monitor.ended(end.state, end.status, end.detail, end.stack)
        if rank_info is None and not monitor.started and not _has_children() and (end.state, end.status) == ("left", 0):
            say(
                "distcheck watch: no launcher has made this process a rank (RANK, WORLD_SIZE), and it made no process "
                "group: nothing was watched"
            )

    return ended


def child(given: str) -> Callable[[ScriptExit], None]:
    """A process that the script has started by multiprocessing: watched as soon as it makes a group."""
    plain = json.loads(given)
    asked = WatchOptions(*plain)._replace(arguments=tuple(plain[1]), selection=Selection(*map(tuple, plain[7])))
    monitor = _monitor(asked, None)

    def ended(end: ScriptExit) -> None:
        monitor.ended(end.state, end.status, end.detail, end.stack)
        # a fork runs no exit handlers
        monitor.leave()

    return ended


def _monitor(asked: WatchOptions, rank_info: RankInfo | None) -> RankMonitor:
    global _posts
    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.import_hook import when_imported
    from distcheck.runtime.coordination.rank_info import rank_info_of_group
    from distcheck.runtime.coordination.rank_monitor import RankMonitor
    from distcheck.runtime.coordination.shared_table import open_shared_table
    from distcheck.runtime.coordination.store_client import JobStoreConnection

    environ = dict(os.environ)
    posts = _posts
    if posts is None:
        posts = _posts = CallRecorder()
        when_imported("torch.distributed.distributed_c10d", posts.attach)
    else:
        posts.forget()
    joined = _joined(posts)
    table = open_shared_table(environ, rank_info.rank, begun=time.monotonic()) if rank_info is not None else None
    monitor = RankMonitor(
        posts, rank_info or rank_info_of_group(joined, socket.gethostname()), JobStoreConnection(joined, environ),
        _reporter(asked), shared_table=table, hang_timeout_s=asked.hang_timeout_s, abort=asked.abort,
    )  # fmt: skip
    posts.observe(monitor, table)
    return monitor


def _joined(posts: CallRecorder) -> Callable[[], bool]:
    return lambda: posts.joined


def _reporter(options: WatchOptions) -> MonitorReporter:
    from distcheck.runtime.coordination.coordinator import MonitorReporter

    class Reporter(MonitorReporter):
        def hang(self, positions: Positions) -> None:
            _report(options, positions)

        def line(self, text: str) -> None:
            say(text)

        def long_wait(self, wait: LongWait) -> None:
            _tell_long(options, wait)

        def summary(self, summary: Summary) -> None:
            _summarise(options, summary)

    return Reporter()


def _has_children() -> bool:
    """Whether multiprocessing was ever asked for a process: the ranks may have been its children, and watched."""
    module = sys.modules.get("multiprocessing.process")
    # the counter of their names, which must not be moved on
    return module is not None and repr(module._process_counter) != "count(1)"


def say(text: str) -> None:
    """One write, so that lines of several ranks do not mix."""
    try:
        sys.__stderr__.write(f"{text}\n")  # type: ignore[union-attr]
        sys.__stderr__.flush()  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        return  # nobody reads it any more


# reports


def name_of(environ: Mapping[str, str]) -> str:
    """What a user calls this job."""
    for variable in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        if environ.get(variable):
            return f"job {environ[variable]}"
    run = environ.get("TORCHELASTIC_RUN_ID", "none")
    return f"torchrun {run}" if run != "none" else "the watched job"


def report_of(positions: Positions, selection: Selection) -> Report:
    """The verdict on where the ranks stand."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.model import Positions
    from distcheck.runtime.coordination.stack_report import plain_job

    report = Checker(selection, rooms=ROOMS).plan(Positions, command="watch", closed=True).run(positions)
    seen = "when a rank lost its peer" if positions.over else f"no progress for {positions.hang_timeout_s:.0f} s"
    if positions.mismatches:
        seen = "when calls were seen to differ"
    job = plain_job(name_of(os.environ), positions, seen=seen, interval_s=positions.hang_timeout_s)
    ranks = f"{positions.world_size} rank{'s' * (positions.world_size != 1)}"
    return report._replace(stage="rank", subject={"line": [ranks], "jobs": [job]}, facts={"Positions": positions})


def summary_of(summary: Summary, selection: Selection) -> Report:
    """What there is to say of a job that came to its end."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.coordination.ledger import Summary
    from distcheck.runtime.monitor.summary import not_checked, numbers, sentence

    report = Checker(selection, rooms=AT_END).plan(Summary, command="watch", closed=True).run(summary)
    return report._replace(
        stage="rank",
        subject={"line": [sentence(summary)], "calls": numbers(summary)},
        not_checked=(*report.not_checked, *not_checked(summary)),
        facts={"Summary": summary},
    )


def _report(asked: WatchOptions, positions: Positions) -> None:
    report = report_of(positions, asked.selection)
    say(_text(asked, report).rstrip())
    _write(asked, report)


def _summarise(asked: WatchOptions, summary: Summary) -> None:
    report = summary_of(summary, asked.selection)
    if report.at_least(Severity.WARNING):
        say(_text(asked, report).rstrip())
    elif not asked.quiet:
        codes = sorted({f"{finding.message} ({finding.code})" for finding in report.findings})
        say("; ".join([f"distcheck watch: {report.subject['line'][0]}", *codes]))
    # the report of a hang is worth more than this
    if not summary.reported:
        _write(asked, report)


def _tell_long(asked: WatchOptions, wait: LongWait) -> None:
    from distcheck import rules
    from distcheck.runtime.monitor.summary import slow_rank

    if asked.selection.takes(rules.DC726):
        found = slow_rank(wait, now=True)
        say(f"distcheck watch: {found.severity.word} {found.code}: {found.message}")


def _text(asked: WatchOptions, report: Report) -> str:
    from distcheck.reporters import Style, render

    chosen = asked.output_format if asked.output_file is None else None
    return render(report, chosen or "full", Style(color=False, width=100, unicode=False))


def _write(asked: WatchOptions, report: Report) -> None:
    from distcheck.reporters import Style, render

    from . import output

    if asked.output_file is None:
        return
    try:
        output.write_file(asked.output_file, render(report, asked.output_format or "json", Style()))
    except OSError as error:
        say(f"distcheck watch: {asked.output_file} can't be written: {error.strerror}")
