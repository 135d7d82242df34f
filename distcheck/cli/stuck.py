"""``distcheck stuck``: where the ranks of a job that already runs stand, seen from outside.

The options, which job is meant, and how the hosts of one come together; reading and judging are done in
:mod:`distcheck.runtime.coordination`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from distcheck.core.configuration import Configuration
from distcheck.core.model import NotChecked, Report, Unavailable, merge_not_checked, to_plain
from distcheck.core.world import World
from distcheck.rules import Selection

from . import options as shared
from . import output

if TYPE_CHECKING:
    from distcheck.checks.cluster.merge import HostReport, Missing
    from distcheck.runtime.inspect.gpu_use import GpuUse
    from distcheck.runtime.inspect.jobs import Job
    from distcheck.runtime.inspect.processes import Processes
    from distcheck.runtime.inspect.snapshot import Snapshot

_SECTIONS = {
    "Which job": ("pid", "job", "hang_timeout"),
    "Many hosts, one report": ("merge", "merge_dir", "wait", "expect"),
    "Options": (),
}
PROBE_MODULES = ("distcheck.runtime.inspect.snapshot_checks", "distcheck.runtime.inspect.collective_numbers")
#: Rules that are only checked where every rank of the job was seen.
_OF_ALL_RANKS = frozenset({"DC511", "DC517", "DC519", "DC701", "DC702", "DC704", "DC726"})

EPILOG = """\b
Examples:
  distcheck stuck                              all jobs of this user on this host
  distcheck stuck --job 4711                   a job of Slurm, PBS, LSF …, or a run id of torchrun
  distcheck stuck --pid 12345                  the job of a rank, of its launcher, or of its child
  distcheck stuck --hang-timeout 30                what has not moved then is a hang
  sudo distcheck stuck                         where only root may read stacks: still this user's ranks
  srun --overlap --jobid=4711 --ntasks-per-node=1 distcheck stuck --merge

\b
Exit status: 1 ranks wait for what can't come; 3 ranks wait, and it may be a long step, or what had to be seen could not
be; 0 something moves; 2 there is no such job.

No signal is sent, no process is stopped, nothing of theirs is changed. Stacks need py-spy: pip install py-spy.
"""


@click.command(
    "stuck", cls=shared.grouped(_SECTIONS), epilog=EPILOG, context_settings={"auto_envvar_prefix": "DISTCHECK_STUCK"}
)
@click.option("--pid", type=click.IntRange(min=1), metavar="P", help="The job that this process belongs to.")
@click.option("--job", metavar="ID", help="The job that its scheduler or torchrun calls so.")
@shared.hang_timeout_option("stuck", 2.0, "Seconds between the two samples; no progress in between is a hang.")
@click.option("--merge", is_flag=True, help="One report of all hosts that srun or mpirun started this on.")
@click.option(
    "--merge-dir", metavar="DIR", help="The folder, shared by all hosts, for what they saw.  [default: this one]"
)
@shared.wait_options
@shared.selection_options
@shared.configuration_options
@shared.verdict_options
@shared.output_options
def command(**given: Any) -> int:
    """Find this user's ranks on this host, and show where each one is and which rank the others wait for.

    For a job that already runs and that was not started under 'distcheck.watch'. Ranks are found by their environment
    in /proc; two samples of their processes and Python stacks, a moment apart, show what hangs. Ranks whose stacks
    differ from the others' come first.
    """
    world = World()
    selection, configuration = shared.selection_and_configuration(world, given)
    shared.check_output_file(given["output_file"])
    for name in ("merge_dir", "wait", "expect"):
        if given[name] is not None and not given["merge"]:
            raise click.UsageError(f"--{name.replace('_', '-')} belongs to --merge")
    if given["pid"] is not None and given["job"] is not None:
        raise click.UsageError("--pid and --job both name a job; give one of them")
    if given["pid"] is not None and given["merge"]:
        raise click.UsageError("--pid is a process of one host; with --merge, name the job with --job ID")
    interval_s: float = given["hang_timeout"]
    if given["merge"]:
        return _merged(given, world, configuration, selection, interval_s)
    start = time.monotonic()
    snapshots, missed, use = look(world, given["pid"], given["job"], interval_s, given["quiet"])
    report = judged(snapshots, selection, missed, use, world.host_name())
    return finish(report._replace(elapsed_s=time.monotonic() - start), snapshots, given, configuration)


# reading


def look(
    world: World, pid: int | None, name: str | None, interval_s: float, quiet: bool = False
) -> tuple[list[Snapshot], list[NotChecked], GpuUse | Unavailable]:
    """The jobs that are meant, as they stand on this host.

    :raises click.UsageError: there is no such process or job, or no /proc
    """
    from distcheck.reporters.progress import Progress
    from distcheck.runtime.inspect.processes import read_processes
    from distcheck.runtime.inspect.snapshot import sample_twice

    try:
        # root may read every process
        processes = read_processes(world, everyone=world.user_id == 0 and (pid is not None or name is not None))
    except Unavailable as unavailable:
        raise click.UsageError(unavailable.why) from None
    jobs, missed = choose(world, processes, pid, name)
    # forked before any thread of ours is started
    use = _gpu_use(world) if jobs else Unavailable("no rank is here")
    snapshots = []
    with Progress(sys.stderr) as line:
        for job in jobs:
            show = (lambda _: None) if quiet else partial(line.show, "sample")
            snapshots.append(sample_twice(world, job, interval_s=interval_s, host=world.host_name(), progress=show))
    return snapshots, missed, use


def choose(
    world: World, processes: Processes, pid: int | None, name: str | None
) -> tuple[tuple[Job, ...], list[NotChecked]]:
    """The jobs that the options mean; a usage error where there is none that they name."""
    from distcheck.runtime.inspect import jobs as found

    missed: list[NotChecked] = []
    jobs = tuple(_with_spawned(world, processes, job) for job in found.find_jobs(processes))
    missed += _may_be_ranks(processes, jobs)
    if pid is not None:
        if pid not in processes.parents:
            raise click.UsageError(f"--pid {pid}: there is no such process on {world.host_name()}")
        chosen = found.jobs_of_process(jobs, pid, processes.parents)
        if not chosen:
            chosen = _spawned(world, processes, pid, missed)
        if not chosen:
            near = [item.why for item in missed if item.what.endswith(f"process {pid}")]
            why = "; ".join(near) or "it is no rank, and none is above or below it"
            raise click.UsageError(f"--pid {pid}: {why}")
        return chosen, missed
    if name is not None:
        chosen = found.jobs_called(jobs, name)
        if not chosen:
            there = ", ".join(dict.fromkeys(job.names[0] for job in jobs if job.names)) or "none that has a name"
            raise click.UsageError(f"--job {name}: no rank of it is on {world.host_name()}; jobs here: {there}")
        return chosen, missed
    return jobs or _spawned(world, processes, None, missed), missed


def _may_be_ranks(processes: Processes, jobs: Iterable[Job]) -> Iterator[NotChecked]:
    """Processes that nothing is known of: a rank may be among them, unless one is above them, or they are above one."""
    from distcheck.runtime.inspect.jobs import ancestors

    ranks = {item.pid for job in jobs for item in (*job.ranks, *job.surplus)}
    launchers = {pid for job in jobs for pid in job.above}
    for pid in processes.unreadable:
        if pid not in launchers and ranks.isdisjoint(ancestors(pid, processes.parents)):
            yield NotChecked(f"process {pid}", "whether it is a rank: its environment can't be read")


def _with_spawned(world: World, processes: Processes, job: Job) -> Job:
    """A job whose ranks are those that do the work: a rank that an operator has given to a pod may only start them."""
    from distcheck.runtime.inspect import jobs as found
    from distcheck.runtime.inspect.snapshot import parent_waits

    spawned = {}
    for item in job.ranks:
        if not found.children_with_torch(item.pid, processes.processes):
            continue
        waits = parent_waits(world, item.pid, item.process.folder, of_spawn=True)
        made = found.spawned_job(item.process, processes.processes)
        if waits is True and made is not None:
            spawned[item.pid] = made
    return found.with_spawned(job, spawned) if spawned else job


def _spawned(world: World, processes: Processes, pid: int | None, missed: list[NotChecked]) -> tuple[Job, ...]:
    """Jobs whose ranks were started by a process of Python itself, where nothing in their environment numbers them."""
    from distcheck.runtime.inspect.jobs import spawned_job
    from distcheck.runtime.inspect.snapshot import parent_waits

    jobs = []
    for process in processes.processes:
        near = pid is None or process.pid == pid or processes.parents.get(pid) == process.pid
        if not near or not process.python or not process.torch or "RANK" in process.variables:
            continue
        job = spawned_job(process, processes.processes)
        waits = job is not None and parent_waits(world, process.pid, process.folder)
        if isinstance(waits, Unavailable):
            missed.append(NotChecked(f"children of process {process.pid}", f"whether they are ranks: {waits.why}"))
        elif job is not None and waits:
            jobs.append(job)
    return tuple(jobs)


def _gpu_use(world: World) -> GpuUse | Unavailable:
    from distcheck.core.checker import Checker
    from distcheck.runtime.inspect.gpu_use import GpuUse

    plan = Checker(modules=(), plug_ins=False).plan(World, also=(GpuUse,))
    found = plan.run(world).facts.get(GpuUse.__name__)
    return found if isinstance(found, (GpuUse, Unavailable)) else Unavailable("the driver did not answer")


# judging


def judged(
    snapshots: Sequence[Snapshot],
    selection: Selection,
    missed: Iterable[NotChecked],
    use: GpuUse | Unavailable,
    host: str,
) -> Report:
    """Return one report of all jobs that were inspected."""
    from distcheck.core.checker import Checker
    from distcheck.runtime.inspect import snapshot_checks
    from distcheck.runtime.inspect.snapshot import Snapshot

    plan = Checker(selection, modules=PROBE_MODULES).plan(Snapshot, command="stuck", closed=True)
    reports = [plan.run(snapshot) for snapshot in snapshots]
    report = reports[0].merge(*reports[1:]) if reports else Report("stuck")
    unseen = [item for snapshot in snapshots for item in snapshot_checks.not_checked(snapshot)]
    if isinstance(use, Unavailable) and snapshots and "no NVIDIA driver" not in use.why:
        unseen.append(NotChecked("GPU use", use.why))
    jobs = [_plain_job(snapshot, use) for snapshot in snapshots]
    ranks = sum(len(job["ranks"]) for job in jobs)
    line = [host, f"{ranks} rank{'s' * (ranks != 1)}", *([f"{len(jobs)} jobs"] if len(jobs) > 1 else [])]
    return report._replace(
        subject={"host": host, "line": line, "jobs": jobs},
        not_checked=merge_not_checked((*report.not_checked, *missed, *unseen)),
        checked=report.checked - (_OF_ALL_RANKS if any(item.unseen or item.elsewhere for item in snapshots) else set()),
        facts={},
    )


def _plain_job(snapshot: Snapshot, use: GpuUse | Unavailable) -> dict[str, Any]:
    """A job as plain JSON values: its ranks, and their stacks by equality."""
    from distcheck.runtime.coordination.stack_report import plain_job
    from distcheck.runtime.inspect.gpu_use import description

    here = [] if isinstance(use, Unavailable) else [
        item for item in snapshot.positions.ranks if item.host in snapshot.hosts[:1]
    ]  # fmt: skip
    return plain_job(
        snapshot.job,
        snapshot.positions,
        seen=f"two samples, {snapshot.interval_s:.1f} s apart",
        interval_s=snapshot.interval_s,
        hosts=snapshot.hosts,
        gpus={item.rank: description(use, item.pid) for item in here if not isinstance(use, Unavailable)},
        recorded=snapshot.recorded,
        guessed=snapshot.guessed,
        still=snapshot.still,
    )


def finish(
    report: Report, snapshots: Sequence[Snapshot], given: Mapping[str, Any], configuration: Configuration
) -> int:
    """Write the report; the exit status."""
    from distcheck.runtime.inspect import snapshot_checks

    status = output.finish(
        report, given, configuration,
        fail_on=given["fail_on"] or shared.fail_on_of(configuration),
        must_check=shared.must_check_of(given, configuration),
    )  # fmt: skip
    why = None
    if not snapshots:
        why = "no rank of this user was found here; --pid names a process, srun --overlap checks other hosts"
    elif any(snapshot_checks.stands_still(snapshot) for snapshot in snapshots):
        why = "no progress between the two samples; --hang-timeout 30 distinguishes a hang from a long step"
    elif all(len(snapshot.unseen) == len(snapshot.positions.ranks) for snapshot in snapshots):
        why = "no stack could be read, so the state of the ranks is unknown"
    return output.or_not_checked(status, given, why)


# many hosts


class _RankGpu(NamedTuple):
    host: str
    pid: int
    gpu: str = ""


class _Job(NamedTuple):
    ranks: tuple[_RankGpu, ...] = ()


def _merged(
    given: Mapping[str, Any], world: World, configuration: Configuration, selection: Selection, interval_s: float
) -> int:
    """Return one report of all hosts that this was started on together; each inspects its own ranks."""
    from distcheck.checks.cluster.merge import HostReport
    from distcheck.launch.reader import make_launch

    from . import env_merge

    style = output.make_style(given["color"], verbose=given["verbose"], quiet=given["quiet"], to_file=False)
    merge_options = env_merge.MergeOptions(
        given, world, configuration, selection, None, given["fail_on"] or shared.fail_on_of(configuration), style,
        lambda report: report, partial(_finish_merged, configuration=configuration),
    )  # fmt: skip
    step = env_merge.step_here(make_launch(world.environ, host_name=world.host_name()), merge_options)
    if not step.first_on_host:
        return output.CLEAN

    def look_here() -> HostReport:
        host = world.host_name()
        name = given["job"] or world.environ.get("SLURM_JOB_ID")
        try:
            snapshots, missed, use = look(world, None, name, interval_s, quiet=True)
        except click.UsageError as error:  # a host without ranks of the job reports it, and the others continue
            snapshots, missed, use = [], [NotChecked(host, error.format_message())], Unavailable("no rank is here")
        report = judged(snapshots, selection, missed, use, host)
        subject = {**report.subject, "snapshots": to_plain(snapshots)}
        return HostReport(host, report._replace(subject=subject), node=step.node, task=step.rank, tasks=step.tasks_here)

    return env_merge.run_in_step(step, look_here, merge_options)


def _checked(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot that another process wrote; raises ValueError if a number fits no job."""
    from distcheck.runtime.coordination.model import MOST_RANKS

    positions = snapshot.positions
    if not 0 <= positions.world_size <= MOST_RANKS or not math.isfinite(snapshot.interval_s):
        raise ValueError(f"{positions.world_size} ranks, {snapshot.interval_s} s")
    return snapshot


def _finish_merged(
    hosts: Sequence[HostReport],
    missing: Missing,
    merge_options: Any,
    *,
    scheduler: str | None = None,
    elapsed_s: float = 0.0,
    note: str = "",
    configuration: Configuration,
) -> int:
    from distcheck.checks.cluster.hostlist import compress_hosts
    from distcheck.core.facts_file import from_plain
    from distcheck.runtime.inspect.snapshot import Snapshot, merge

    seen: list[Snapshot] = []
    gpus: dict[tuple[str, int], str] = {}
    lost = [*((name, "sent nothing") for name in missing.silent), *missing.damaged]
    for item in hosts:
        subject = item.report.subject
        try:
            jobs = [from_plain(_Job, job) for job in subject.get("jobs", ())]
            seen += [_checked(from_plain(Snapshot, plain)) for plain in subject.get("snapshots", ())]
        except (TypeError, ValueError) as error:
            lost.append((item.name, f"it is damaged: {error}"))
            continue
        gpus.update(((rank.host, rank.pid), rank.gpu) for job in jobs for rank in job.ranks)
    snapshots = merge(seen)
    missed = [NotChecked(name, why) for name, why in lost]
    if missing.unnamed:
        missed.append(NotChecked("hosts that nothing names", f"{missing.counted} sent nothing"))
    if note:
        missed.append(NotChecked("other hosts", note))
    missed += [
        item
        for host in hosts
        for item in host.report.not_checked
        if not any(part.startswith(("rank ", "ranks ", "the stack", "the flight")) for part in [item.what])
    ]
    report = judged(
        snapshots,
        merge_options.selection,
        missed,
        Unavailable("no NVIDIA driver"),
        compress_hosts([item.name for item in hosts]),
    )
    for job in report.subject["jobs"]:
        for rank in job["ranks"]:
            rank["gpu"] = gpus.get((rank["host"], rank["pid"]), "")
    status = finish(report._replace(elapsed_s=elapsed_s), snapshots, merge_options.given, configuration)
    return status or (output.NOT_CHECKED if missing.anyone and not merge_options.given["exit_zero"] else status)
