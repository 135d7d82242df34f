"""``distcheck log``: find the failed rank and the root cause in the log of a dead job.

The options, and what they and the configuration request; the work is done in ``checks/logs``, and on a
job that still runs in :mod:`.following`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from distcheck.core.configuration import Configuration
from distcheck.core.world import World
from distcheck.reporters import escape

from . import options as shared
from . import output
from .log_output import LogOptions, finish

_SECTIONS = {
    "The log": ("follow", "idle", "jobs", "every_event"),
    **shared.RULES,
    **shared.VERDICT,
    "How it runs": shared.HOW_IT_RUNS,
}

EPILOG = """\b
Examples:
  distcheck log train.log                      the text of all ranks in one file
  distcheck log logs/                          torchrun --log-dir, one file a rank, rotated, compressed
  distcheck log slurm-4711.out job-4711-*.out  what srun wrote, and what its tasks wrote
  kubectl logs -l job=train --prefix --tail=-1 | distcheck log -
  dmesg -T | distcheck log train.log -         with the kernel's log
  distcheck log --follow train.log             a job that still runs: report a failure at once
  distcheck log --all --output-format json train.log
  distcheck run -- torchrun … train.py         start it, and diagnose its log if it fails

\b
Exit status: 1 the cause is known; 3 there is a failure, and its cause is not in the text; 0 no failure.

'distcheck explain DC511' prints the page of a rule; 'distcheck rules --way log' lists those that are seen here.
"""


@click.command(
    "log", cls=shared.grouped(_SECTIONS), epilog=EPILOG, context_settings={"auto_envvar_prefix": "DISTCHECK_LOG"}
)
@click.argument("paths", metavar="FILE|DIR|-…", nargs=-1, required=True)
@click.option("--all", "every_event", is_flag=True, help="Show every event, not only those of the root cause.")
@click.option("-f", "--follow", is_flag=True, help="Keep reading new lines; report the root cause when it is clear.")
@click.option(
    "--idle",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="With --follow: end when nothing was written for so long.",
)
@shared.jobs_option
@shared.selection_options
@shared.output_options
@shared.verdict_options
@shared.configuration_options
def command(**given: Any) -> int:
    """Find the root cause, the failed rank and the fix in the log of a job that died.

    The loudest rank is rarely the failed one: one process dies, and hundreds print that they lost a peer. PATHs are
    logs of any launcher (torchrun, srun, mpirun, DeepSpeed, Ray, Kubernetes, Docker), flight-recorder dumps, error.json
    files and dmesg, in one file or in one for each rank; of a folder, all that are such files; - is standard input.
    """
    if given["idle"] is not None and not given["follow"]:
        raise click.UsageError("--idle belongs to --follow")
    shared.check_output_file(given["output_file"])
    _refuse_absent(given["paths"])
    _refuse_overwriting(given["output_file"], given["paths"])
    options = _options(given, shared.configuration_of(World(), given["config"], isolated=given["isolated"]))
    if given["follow"]:
        from .log_follow import follow

        return follow(options)
    return read_and_report(options)


def read_and_report(options: LogOptions) -> int:
    """Read all logs, print the report, and return the exit status."""
    from distcheck.checks.logs.diagnose import diagnose, read_timeline
    from distcheck.reporters.progress import Progress

    began = time.monotonic()
    with Progress(sys.stderr) as line:

        def show_progress(done: int, total: int) -> None:
            # a pipe has no length
            step = f"{done / 1e6:,.0f} MB" if total <= done else f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
            if time.monotonic() - began > _PROGRESS_AFTER_S:
                line.show("read", step)

        timeline = read_timeline(options.paths, jobs=options.jobs, progress=show_progress)
    report = diagnose(timeline, selection=options.selection, every_event=options.given["every_event"])
    return finish(options, report._replace(elapsed_s=time.monotonic() - began))


#: Seconds after which a terminal shows progress.
_PROGRESS_AFTER_S = 0.5


def _refuse_absent(paths: tuple[str, ...]) -> None:
    if paths.count("-") > 1:
        raise click.UsageError("- is standard input, and can be read once")
    for path in paths:
        if path != "-" and not os.path.lexists(path):
            raise click.UsageError(f"{escape(path) or repr(path)}: {shared.why_absent(path)}")


def _refuse_overwriting(output_file: str | None, paths: tuple[str, ...]) -> None:
    """The report must not replace the log that it is about."""
    if output_file in (None, "-") or not os.path.isfile(output_file):
        return
    if any(path != "-" and os.path.exists(path) and os.path.samefile(path, output_file) for path in paths):
        raise click.UsageError(f"-o {escape(output_file)}: this is the log itself, and the report would replace it")


def _options(given: Mapping[str, Any], configuration: Configuration) -> LogOptions:
    """The options and the configuration in one; a usage error where they are not right."""
    selection = shared.selected_rules(given, configuration)
    shared.refuse_empty_selection(selection, "log")
    return LogOptions(
        paths=given["paths"],
        given=given,
        selection=selection,
        fail_on=given["fail_on"] or shared.fail_on_of(configuration),
        must_check=shared.must_check_of(given, configuration),
        jobs=given["jobs"] or output.cores(),
        configuration=configuration,
    )
