"""``distcheck env --merge``: one report of many hosts. It is imported only for this option.

The records have three sources: tasks of a scheduler or mpirun exchange them in a shared folder, the command line names
files of ``--save-record``, or a folder has files of facts.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from distcheck.checks.cluster import own_record, record_exchange
from distcheck.checks.cluster.hostlist import shorten_hosts
from distcheck.checks.cluster.merge import HostReport, Missing, cluster_of, merge, one_per_host, silent_hosts
from distcheck.checks.cluster.records import RankRecord, RecordError
from distcheck.core.configuration import Configuration
from distcheck.core.files import LONGEST_RECORD, foreign_files, read_record
from distcheck.core.model import Report
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.launch.schedulers import expand_hostlist, scheduler_of
from distcheck.reporters import Style, render
from distcheck.rules import Selection

from . import options as shared
from . import output
from .exit_status import signal_handlers

#: Seconds to wait for hosts without ``--wait``.
WAIT_S = 30.0
_HOW = (
    "start it on each host with srun --ntasks-per-node=1 or mpirun, or name files of --save-record: "
    "distcheck env --merge FILE…"
)


class MergeOptions(NamedTuple):
    """The options, read and checked."""

    given: Mapping[str, Any]
    world: World
    configuration: Configuration
    selection: Selection
    must_check: Selection | None
    fail_on: str
    style: Style
    #: adds to the report's first line what hides rules
    with_settings: Callable[[Report], Report]
    #: the function of another command instead of :func:`finish`
    finish: Callable[..., int] | None = None


def seconds_of(text: str | None) -> float:
    """Return ``30``, ``30s`` or ``2m`` in seconds, WAIT_S for None; raises UsageError for another text."""
    if text is None:
        return WAIT_S
    seconds = shared.parse_seconds(text)
    if seconds is None:
        raise click.UsageError(f"--wait is {text!r}; expected a time such as 30s, 30 or 2m")
    return seconds


# one host


def host_report(
    report: Report,
    launch: Launch,
    world: World | None,
    step: record_exchange.JobStep | None = None,
    ranks: Sequence[RankRecord] = (),
) -> HostReport:
    """Return the report of this host, with the record that is compared with other hosts.

    :param world: None if the facts are from a file
    :param ranks: the records of the other ranks of this host
    """
    host = str(report.subject.get("host") or "localhost")
    record = None
    if launch.on_this_host:
        if world is None:
            record = own_record.make_host_record(report.facts, launch, host=host)
        else:
            record = own_record.read_host_record(launch, world, report.facts)
        record = record._replace(ranks=tuple(sorted((*record.ranks, *ranks), key=lambda item: item.rank)))
    return HostReport(
        host,
        # the facts of a thousand hosts are large, and the record has all that is compared
        report._replace(facts={}),
        record,
        node=None if step is None else step.node,
        task=None if step is None else step.rank,
        tasks=1 if step is None else step.tasks_here,
        backend=launch.backend,
        rendezvous=own_record.rendezvous_of(launch),
        world_size=launch.world_size,
    )


def rank_of(report: Report, launch: Launch, world: World) -> RankRecord | None:
    """Return the record of a rank that is not the first of its host; None if this is not a rank."""
    return next(iter(own_record.read_host_record(launch, world, report.facts, whole=False).ranks), None)


# started together


class _Signalled(BaseException):
    """A signal that ends this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def step_here(launch: Launch, options: MergeOptions) -> record_exchange.JobStep:
    """Return the position of this process among those of the job step; raises UsageError if it is unknown."""
    given = options.given
    step = record_exchange.step_of(os.environ, launch, scheduler_of(options.world.environ))
    if step is None:
        raise click.UsageError(f"--merge: no variable shows which other hosts take part; {_HOW}")
    if not step.key and given["merge_dir"] is None:
        raise click.UsageError(
            "--merge: no variable identifies this run; name a new folder that all hosts share with --merge-dir"
        )
    if given["merge_dir"] is not None and not os.path.isdir(given["merge_dir"]):
        raise click.UsageError(f"--merge-dir {given['merge_dir']}: it is not a folder on {options.world.host_name()}")
    seconds_of(given["wait"])
    nodes, count = expected_of(given["expect"])
    return step._replace(nodes=nodes or step.nodes, hosts=count or step.hosts)


def run_in_step(step: record_exchange.JobStep, look: Callable[[], HostReport], options: MergeOptions) -> int:
    """Check this host, and send the report to the first task, or collect the reports as the first task."""
    try:
        with _end_on_signals():
            return _in_step(step, look, options)
    except _Signalled as ended:
        return 128 + ended.number


def _end_on_signals() -> contextlib.AbstractContextManager[None]:
    """Raise _Signalled at a signal that ends this process, so that its folder is removed."""
    own_pid = os.getpid()

    def end(number: int, _frame: object) -> None:
        if os.getpid() != own_pid:  # a forked reader must not remove the folder
            os._exit(128 + number)
        raise _Signalled(number)

    return signal_handlers({"SIGTERM": end, "SIGHUP": end})


def _in_step(step: record_exchange.JobStep, look: Callable[[], HostReport], options: MergeOptions) -> int:
    base = _base(options)
    wait_s = seconds_of(options.given["wait"])
    own: HostReport | None = None
    try:
        if step.collects:
            with contextlib.suppress(record_exchange.TakenError), record_exchange.collecting(base, step) as folder:
                return _collect(folder, step, wait_s, look(), options)
        own = look()
        text = record_exchange.to_text(own)
        if record_exchange.send(base, step, text, wait_s):
            return output.CLEAN
        # the first task did not arrive: the first process that notices replaces it, and the others find its folder
        try:
            with record_exchange.collecting(base, step) as folder:
                return _collect(folder, step, wait_s, own, options)
        except record_exchange.TakenError:
            if record_exchange.send(base, step, text, wait_s):
                return output.CLEAN
        raise record_exchange.ExchangeError(f"no task collected the records in {base}")
    except record_exchange.ExchangeError as error:
        return _alone(look() if own is None else own, str(error), options)


def _base(options: MergeOptions) -> Path:
    if options.given["merge_dir"] is not None:
        return Path(options.given["merge_dir"])
    try:
        return Path(options.world.working_folder)
    except OSError as error:
        raise click.UsageError(f"the working directory can't be read ({error.strerror}); give --merge-dir") from None


def _collect(folder: Path, step: record_exchange.JobStep, wait_s: float, own: HostReport, options: MergeOptions) -> int:
    start = time.monotonic()
    collected = record_exchange.collect(folder, step, wait_s, own)
    hosts = one_per_host(collected.reports)
    missing = _missing(step, hosts, collected, wait_s)
    if len(collected.reports) == 1 and missing.anyone:
        where = f"{folder.parent} within {wait_s:g} s; is that a folder that all hosts share? --merge-dir names another"
        if not step.collects:
            return _alone(own, f"no other host's record came to {where}", options)
        note = f"no other host's record came to {where}"
    else:
        note = ""
    elapsed_s = own.report.elapsed_s + time.monotonic() - start
    end = options.finish or finish
    return end(hosts, missing, options, scheduler=step.scheduler, elapsed_s=elapsed_s, note=note)


def _missing(
    step: record_exchange.JobStep, hosts: Sequence[HostReport], collected: record_exchange.Collected, wait_s: float
) -> Missing:
    """Return which hosts sent nothing: by name if the list of hosts is certain, else their number."""
    damaged = collected.damaged
    if collected.complete:
        return Missing(damaged=damaged)
    silent = silent_hosts(step.nodes, hosts, damaged)
    senders = len(hosts) + len(damaged)
    lost_tasks = None if step.tasks is None else step.tasks - sum(item.tasks for item in hosts) - len(damaged)
    lost = lost_tasks if step.hosts is None else step.hosts - senders
    # the list is that of the job, and the run may use fewer hosts
    certain = silent and (lost is None or len(silent) <= lost)
    return Missing(
        silent=tuple(silent) if certain else (),
        unnamed=0 if certain else max(1, lost_tasks or lost or 1),
        damaged=damaged,
        waited_s=wait_s,
    )


def _alone(own: HostReport, why: str, options: MergeOptions) -> int:
    """Print the reason and the findings of this host alone."""
    output.say(f"distcheck: {own.name}: {why}")
    output.to_stdout(render(own.report, "concise", options.style))
    status, _ = _status(own.report, options)
    return status or output.MISUSED


# records that were written before


def run_files(words: Sequence[str], judge_facts: Callable[[str], HostReport], options: MergeOptions) -> int:
    """Merge the records and facts of files and folders; ``-`` is standard input.

    :param judge_facts: returns the report on the text of a facts file; raises ValueError
    """
    start = time.monotonic()
    nodes, count = expected_of(options.given["expect"])
    reports: list[HostReport] = []
    damaged: dict[str, str] = {}
    for name, text in _texts(words):
        for place, item in _documents(name, text, judge_facts):
            if isinstance(item, HostReport):
                reports.append(item)
            else:
                damaged[place] = item
    if not reports:
        place, why = next(iter(damaged.items()), (" ".join(words), "there is no record in it"))
        raise click.UsageError(f"{place}: {why}")
    hosts = one_per_host(reports)
    silent = silent_hosts(nodes, hosts, damaged.items())
    lost = 0 if count is None or nodes else max(0, count - len(hosts) - len(damaged))
    missing = Missing(tuple(silent), lost, tuple(damaged.items()), unit="host")
    return finish(hosts, missing, options, elapsed_s=time.monotonic() - start)


def expected_of(text: str | None) -> tuple[tuple[str, ...], int | None]:
    """Return the hosts of ``--expect`` by name, and their number."""
    if text is None:
        return (), None
    if re.fullmatch(r"[0-9]{1,7}", text.strip()):
        return (), int(text)
    try:
        nodes = tuple(dict.fromkeys(expand_hostlist(text)))
    except ValueError as error:
        raise click.UsageError(f"--expect: {error}") from None
    return nodes, len(nodes)


def _texts(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file; raises UsageError if one can't be read."""
    for word in words:
        if word == "-":
            yield "-", sys.stdin.read()
            continue
        path = Path(word)
        if path.is_dir():
            inside = sorted(path.glob("*.json"))
            if not inside:
                raise click.UsageError(f"{word}: there is no .json file in this folder")
        else:
            inside = [path]
        foreign = foreign_files(word, map(str, inside)) if path.is_dir() else ()
        for file in inside:
            if str(file) in foreign:
                output.say(f"distcheck: {file} is not read: it belongs to another user, and all users may write there")
                continue
            try:
                yield str(file), read_record(str(file)) if path.is_dir() else _named(word)
            except FileNotFoundError:
                raise click.UsageError(f"{word}: there is no such file; a command to check follows --") from None
            except OSError as error:
                raise click.UsageError(f"{file}: it can't be read: {error.strerror}") from None


def _named(path: str) -> str:
    """Return the text of a file, or of a pipe that this user made, as ``<(ssh n1 …)``. Raises OSError for all else.

    A pattern of the shell also names what a neighbor has put there.
    """
    found = os.stat(path)
    if not stat.S_ISFIFO(found.st_mode) or found.st_uid != os.geteuid():
        return read_record(path)
    with open(path, "rb") as file:
        return file.read(LONGEST_RECORD).decode("utf-8", "replace")


def _documents(
    name: str, text: str, judge_facts: Callable[[str], HostReport]
) -> Iterator[tuple[str, HostReport | str]]:
    """Yield the records of one text: one record or facts file, or one record per line, as pdsh collects them."""
    whole = _json(text)
    if isinstance(whole, dict):
        yield name if name != "-" else "standard input", _one(whole, text, judge_facts)
        return
    for number, line in enumerate(text.splitlines(), 1):
        front, brace, rest = line.partition("{")
        if not brace or not line.strip():
            continue
        # pdsh and clush prefix each line with "host: "
        host = front.strip().removesuffix(":")
        place = host if re.fullmatch(r"[\w.-]+", host) else f"{'line' if name == '-' else name + ':'}{number}"
        plain = _json(brace + rest)
        if isinstance(plain, dict):
            yield place, _one(plain, line, judge_facts)
        else:
            yield place, "it is damaged: its line has no complete record"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _one(plain: Mapping[str, Any], text: str, judge_facts: Callable[[str], HostReport]) -> HostReport | str:
    """Return the report of a record or a facts file, or why it is neither."""
    try:
        if plain.get("kind") == "distcheck facts":
            return judge_facts(text)
        return record_exchange.from_plain(plain)
    except (RecordError, ValueError) as error:
        return str(error)


# the end of all ways


def finish(
    hosts: Sequence[HostReport],
    missing: Missing,
    options: MergeOptions,
    *,
    scheduler: str | None = None,
    elapsed_s: float | None = None,
    note: str = "",
) -> int:
    """Compare and merge the hosts, print the report, and return the exit status."""
    from distcheck.checks.cluster.comparison import ALSO_SEEN_BY_HOSTS, judge

    report = merge(
        hosts,
        judged=judge(cluster_of(hosts, missing), selection=options.selection, command="env"),
        missing=missing,
        scheduler=scheduler,
        elapsed_s=elapsed_s,
        note=note,
        seen_by_both=ALSO_SEEN_BY_HOSTS,
    )
    report = options.with_settings(report)
    given = options.given
    written = output.emit(report, given["output_format"], given["output_file"], options.style)
    status, line = _status(report, options)
    if missing.anyone:
        status = status or output.NOT_CHECKED
        line = line or f"distcheck: not every host was checked: {_who(missing)}"
    if line is not None:
        output.say(line)
    if not written:
        return output.MISUSED
    return output.CLEAN if given["exit_zero"] else status


def _who(missing: Missing) -> str:
    lost = [*missing.silent, *(name for name, _ in missing.damaged)]
    return shorten_hosts(lost) if lost else f"nothing came from {missing.counted}"


def _status(report: Report, options: MergeOptions) -> tuple[int, str | None]:
    return output.exit_status(
        report,
        fail_on=options.fail_on,
        must_check=options.must_check,
        strict=options.given["strict"],
    )


def save_record(path: str, report: HostReport) -> None:
    """Write a record; into a folder under the host's name, and on standard output for ``-``."""
    text = record_exchange.to_text(report) + "\n"
    if path == "-":
        output.to_stdout(text)
        return
    name = re.sub(r"[^\w.-]", "_", report.name)
    target = os.path.join(path, f"{name}.json") if os.path.isdir(path) else path
    shared.write_file_of("--save-record", target, text)
