"""``distcheck env``: check this process and this host against a launch that runs or is planned."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from distcheck._version import __version__
from distcheck.checks.cluster.local_position import LocalPosition, place_of
from distcheck.checks.host.examine import ELSEWHERE, examine
from distcheck.core import registry
from distcheck.core.configuration import Configuration
from distcheck.core.model import NotChecked, Report, Unavailable, merge_not_checked, sort_findings
from distcheck.core.world import World
from distcheck.launch.model import Launch, LaunchCommand
from distcheck.launch.reader import LaunchOptions, make_launch, without_credentials
from distcheck.rules import Selection

from . import options as shared
from . import output, prolog_guard

if TYPE_CHECKING:
    from distcheck.checks.cluster.merge import HostReport
    from distcheck.checks.cluster.records import RankRecord
    from distcheck.core.checker import Plan

    from .env_merge import MergeOptions

_SECTIONS = {
    "The launch to check": (*LaunchOptions._fields, "launched"),
    "Many hosts, one report": ("merge", "merge_dir", "wait", "expect", "save_record"),
    "Options": (),
}
#: The key in click's context that is true if ``--`` precedes the words that are not options.
_DASHES = "distcheck.env.dashes"


class EnvCommand(shared.GroupedCommand):
    """A command with sections in its help. It distinguishes a command after ``--`` from files."""

    sections = _SECTIONS

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        if prolog_guard.is_prolog(["env", *words], os.environ):
            context.exit(prolog_guard.run(["env", *words]))
        # files follow --merge, and options may follow files; the options of a command follow --
        context.allow_interspersed_args = "--merge" in words[: words.index("--") if "--" in words else None]
        rest = super().parse_args(context, args)
        behind = len(context.params.get("command_line") or ())
        context.meta[_DASHES] = 0 < behind < len(words) and words[-behind - 1] == "--"
        return rest


EPILOG = """\b
Examples:
  distcheck env                                     this shell, this host
  distcheck env --nproc-per-node 8                  would eight ranks start here?
  distcheck env -- torchrun --nproc-per-node=8 train.py
  distcheck env -- sbatch train.sbatch              reads the job script, too
  distcheck env --nnodes 2 --master-addr node1 --master-port 29500 --node-rank 1
  torchrun --nproc-per-node=8 --no-python distcheck env
  distcheck env --save-facts good.json              for 'distcheck diff' and --facts
  srun -N40 --ntasks-per-node=1 distcheck env --merge
  pdsh -w gpu[01-40] distcheck env --save-record - | distcheck env --merge -
  distcheck env --profile prolog                    in a scheduler's prolog

Each option can be given as a variable: DISTCHECK_ENV_FAIL_ON=warning.
"""


@click.command(
    cls=EnvCommand,
    epilog=EPILOG,
    context_settings={"allow_interspersed_args": False, "auto_envvar_prefix": "DISTCHECK_ENV"},
)
@click.option("--nproc-per-node", metavar="N|gpu|auto|cpu", help="Processes on this host.")
@click.option("--nnodes", metavar="N|MIN:MAX", help="Nodes of the job.")
@click.option("--node-rank", type=click.IntRange(min=0), help="The number of this node, from 0.")
@click.option("--master-addr", help="Host of the store (static rendezvous).")
@click.option("--master-port", type=int, help="Port of the store.")
@click.option("--rdzv-endpoint", metavar="HOST[:PORT]", help="Rendezvous of the agents (c10d, etcd).")
@click.option("--rdzv-backend", metavar="c10d|static|etcd…", help="Rendezvous backend of the agents.")
@click.option("--backend", metavar="nccl|gloo…", help="The backend of init_process_group.")
@click.option("--launched", is_flag=True, help="This is a launched process, even if no variable shows it.")
@shared.selection_options
@shared.configuration_options
@shared.verdict_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.05),
    metavar="S",
    help="Seconds for the whole check; what is not read by then is not checked.",
)
@shared.output_options
@click.option(
    "--profile",
    type=click.Choice(["prolog"]),
    help="prolog: node facts only, within 5 s, one line on stderr, status 1 only for what drains a node.",
)
@click.option("--save-facts", metavar="FILE", help="Save the facts in a file.")
@click.option("--redact", is_flag=True, help="With --save-facts: replace names of hosts and users, and addresses.")
@click.option("--facts", metavar="FILE|DIR", help="Check a saved file instead of this host, or a folder of them.")
@click.option(
    "--merge",
    is_flag=True,
    help="One report of all hosts on which srun or mpirun started this, or of the record FILEs after it.",
)
@click.option(
    "--merge-dir", metavar="DIR", help="The folder, shared by all hosts, for their records.  [default: this one]"
)
@shared.wait_options
@click.option("--save-record", metavar="FILE|DIR", help="Save the record of this host for --merge; '-' prints it.")
@click.argument("command_line", metavar="[-- COMMAND …]", nargs=-1, type=click.UNPROCESSED)
def command(**given: Any) -> int:
    """Check this process and this host for what makes a distributed job fail, hang or run slowly.

    Nothing is changed, no GPU is used, torch is not imported. COMMAND is read but never run: the launch that it
    describes is checked. Without a command, and outside of a launch, only errors of the host itself are reported.
    """
    seen = World()
    selection, configuration = shared.selection_and_configuration(seen, given)
    merging = given["merge"] or (given["facts"] is not None and os.path.isdir(given["facts"]))
    ways = ("env", "launch") if given["command_line"] else ("env",)
    shared.refuse_empty_selection(selection, "env", *(("env", "ranks") if merging else ways))
    refuse_what_only_merging_takes(given, merging)
    must_check = shared.must_check_of(given, configuration)
    fail_on = given["fail_on"] or shared.fail_on_of(configuration)
    shared.check_output_file(given["output_file"])
    shared.check_output_file(given["save_facts"], "--save-facts")
    if given["save_facts"] in ("", "-") or (given["save_facts"] and given["save_facts"] == given["output_file"]):
        raise click.UsageError("--save-facts takes the name of a file of its own")
    if given["redact"] and not given["save_facts"]:
        raise click.UsageError("--redact changes what --save-facts writes; give --save-facts FILE as well")
    style = output.style_of(given)
    wants_all = bool(given["verbose"] or given["save_facts"] or given["save_record"])
    if merging:
        from .env_merge import MergeOptions, rank_of

        with_settings = partial(output.with_settings_line, given=given, configuration=configuration)
        options = MergeOptions(given, seen, configuration, selection, must_check, fail_on, style, with_settings)
        status = merged(options)
        if status is not None:
            return status

    if given["facts"] is not None:
        saved = read_facts(given["facts"])
        world = None
        launch, facts = replayed_launch(saved, given)
    else:
        world = seen
        launch, facts = launch_of(world.environ, given, world.host_name()), {Configuration: configuration}

    place = None if world is None or launch.stage == "planned" else own_place(world, launch)
    if place is not None and place.local_rank != 0 and world is not None:
        from distcheck.checks.cluster import host_records

        own = examine(launch, world, facts=facts, selection=selection, budget_s=given["timeout"], per="process")
        if host_records.send(place, own, rank_of(own, launch, world) if merging else None):
            return output.CLEAN
        # no process collects the reports: this rank prints its own
        report = own
    else:
        report = look(launch, world, facts, selection, given["timeout"], wants_all, place)
    report = with_job_script(report, launch, seen, selection, configuration, None if world else facts, given["facts"])
    report = output.with_settings_line(report, given, configuration)
    if given["save_facts"]:
        save_facts(given["save_facts"], report, launch, redact=given["redact"])
    if given["save_record"]:
        from .env_merge import host_report, save_record

        save_record(given["save_record"], host_report(report, launch, world))
        if given["save_record"] == "-":
            return output.CLEAN
    shown = with_next_step(report) if launch.stage == "shell" else report
    written = output.emit(shown, given["output_format"], given["output_file"], style)
    return output.conclude(report, given, written=written, fail_on=fail_on, must_check=must_check)


def refuse_what_only_merging_takes(given: Mapping[str, Any], merging: bool) -> None:
    """Raise UsageError for options that need ``--merge``, and for files that each host would write."""
    for name in ("merge_dir", "wait", "expect"):
        if given[name] is not None and not merging:
            raise click.UsageError(f"--{name.replace('_', '-')} belongs to --merge")
    for name in ("save_facts", "save_record"):
        if given[name] is not None and merging:
            raise click.UsageError(f"--{name.replace('_', '-')} is about one host; run it without --merge")
    path = given["save_record"]
    if path == "" or (path and path == given["output_file"]):
        raise click.UsageError("--save-record takes the name of a file of its own")
    if path is not None and not os.path.isdir(path):
        shared.check_output_file(path, "--save-record")


def merged(options: MergeOptions) -> int | None:
    """Report on many hosts and return the exit status; None if another process of this host does it."""
    from . import env_merge as merging

    given = options.given
    files: Sequence[str] = () if given["facts"] is None else (given["facts"],)
    if not files and not click.get_current_context().meta.get(_DASHES):
        files = given["command_line"]
    if files:
        if given["merge_dir"] is not None:
            named = "FILEs" if given["facts"] is None else "--facts"
            raise click.UsageError(
                f"--merge-dir is the folder in which hosts exchange records; it has no effect with {named}"
            )
        given = given if given["facts"] is not None else {**given, "command_line": ()}
        return merging.run_files(files, partial(judged_facts, given=given, options=options, plans={}), options)
    launch = launch_of(options.world.environ, given, options.world.host_name())
    step = merging.step_here(launch, options)
    if not step.first_on_host:
        return output.CLEAN if launch.stage == "planned" else None

    def look_here() -> HostReport:
        place = None if launch.stage == "planned" else own_place(options.world, launch)
        facts: dict[type, object] = {Configuration: options.configuration}
        ranks: list[RankRecord] = []
        report = look(launch, options.world, facts, options.selection, given["timeout"], True, place, ranks)
        return merging.host_report(with_what_is_not_known(report, launch), launch, options.world, step, ranks)

    return merging.run_in_step(step, look_here, options)


def judged_facts(text: str, *, given: Mapping[str, Any], options: MergeOptions, plans: dict[Any, Plan]) -> HostReport:
    """Return the report on a file with the facts of one host; raises ValueError for another file.

    :param plans: kept from one file to the next
    """
    from distcheck.core.facts_file import load_facts

    from . import env_merge as merging

    launch, facts = replayed_launch(load_facts(text, known_facts()), given)
    report = examine(
        launch,
        facts=facts,
        selection=options.selection,
        budget_s=given["timeout"],
        every_fact=True,
        plans=plans,
    )
    return merging.host_report(with_what_is_not_known(report, launch), launch, None)


def known_facts() -> dict[str, type]:
    """Return the types of all facts of a host by their names."""
    __import__("distcheck.checks.host")
    # with --merge, own_record's are among them
    return {made.__name__: made for made in (Launch, *registry.readers())}


def look(
    launch: Launch,
    world: World | None,
    facts: Mapping[type, object],
    selection: Selection,
    budget_s: float | None,
    every_fact: bool,
    place: LocalPosition | None,
    ranks: list[RankRecord] | None = None,
) -> Report:
    """Return the report on this host; local rank 0 adds the reports of the others.

    :param ranks: the records of the other ranks are added to this list
    """
    look_here = partial(
        examine, launch, world, facts=facts, selection=selection, budget_s=budget_s, every_fact=every_fact
    )
    if place is None:
        return look_here()
    from distcheck.checks.cluster import host_records

    with host_records.collecting(place) as problems:
        report = look_here()
        return report.merge(*host_records.receive(place, problems, ranks))


def own_place(world: World, launch: Launch) -> LocalPosition | None:
    """Return the position of this process among those of its host, from torch's or the scheduler's variables."""
    from distcheck.launch.schedulers import read_scheduler

    try:
        scheduler = read_scheduler(world)
    except Unavailable:
        return place_of(launch, world.environ, None, None)
    return place_of(launch, world.environ, scheduler.local_rank, scheduler.tasks_on_node)


def launch_of(environ: Mapping[str, str], given: Mapping[str, Any], host_name: str) -> Launch:
    """Return the launch that options, command and variables describe; raises UsageError if they are not valid."""
    launch_options = LaunchOptions(**{name: given[name] for name in LaunchOptions._fields})
    try:
        return make_launch(
            environ,
            options=launch_options,
            command=read_command(environ, given),
            launched=given["launched"],
            host_name=host_name,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def read_command(environ: Mapping[str, str], given: Mapping[str, Any]) -> LaunchCommand | None:
    """Return the command after ``--``, or None."""
    if not given["command_line"]:
        return None
    from distcheck.launch.command import parse_command

    words = given["command_line"]
    if len(words) == 1 and " " in words[0].strip():
        import shlex

        # the whole command is quoted
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise click.UsageError(f"the command {words[0]!r} can't be split into words: {error}") from None
    return parse_command(words, environ)


def with_job_script(
    report: Report,
    launch: Launch,
    world: World,
    selection: Selection,
    configuration: Configuration,
    saved: Mapping[type, object] | None,
    origin: str | None,
) -> Report:
    """Return the report with the findings in the script of the command (``sbatch train.sbatch``).

    :param saved: the facts of a node that the job will run on, from the file ``origin``
    """
    command = launch.command
    if command is None or command.launcher != "other" or command.script is None:
        return with_what_is_not_known(report, launch)
    from . import env_job_script

    nodes = env_job_script.nodes_of(saved, origin, configuration)
    found = env_job_script.report_on(command, world, selection=selection, configuration=configuration, nodes=nodes)
    if found is None:
        return with_what_is_not_known(report, launch)
    return report._replace(
        findings=sort_findings((*report.findings, *found.findings)),
        not_checked=merge_not_checked((*report.not_checked, *found.not_checked)),
        probes=(*report.probes, *found.probes),
        checked=report.checked | found.checked,
    )


#: What rules are about, by the first digit of their codes.
_FAMILIES = {"1": "variables", "2": "devices", "3": "memory, disk, libraries", "4": "network"}


def with_next_step(report: Report) -> Report:
    """Return the report of a shell with what was checked and is fine, and the command that checks a launch."""
    fine = report.checked - {finding.code for finding in report.findings}
    about = [words for digit, words in _FAMILIES.items() if any(code.startswith(f"DC{digit}") for code in fine)]
    devices = report.facts.get("Devices")
    ranks = getattr(devices, "count", None) or 2
    line = f"next, with your launch: distcheck env -- torchrun --nproc-per-node={ranks} train.py"
    closing = [f"fine: {', '.join(about)} ({len(fine)} rule{'s' * (len(fine) != 1)})"] if about else []
    return report._replace(subject={**report.subject, "closing": [*closing, line]})


def with_what_is_not_known(report: Report, launch: Launch) -> Report:
    """Return the report; if the command is not a launcher, what it starts is listed as not checked."""
    command = launch.command
    if command is None or command.launcher != "other":
        return report
    word = command.argv[0] if command.argv else ""
    unread = NotChecked("what the command starts", f"{word!r} is not a known launcher")
    return report._replace(not_checked=(*report.not_checked, unread))


def read_facts(path: str) -> Mapping[type, object]:
    """Return the facts of a saved file; raises UsageError if it is not valid."""
    from distcheck.core.facts_file import FactsFileError, load_facts

    known = known_facts()
    try:
        if path == "-":
            return load_facts(sys.stdin.read(), known)
        with open(path, encoding="utf-8") as file:
            return load_facts(file.read(), known)
    except IsADirectoryError:
        raise click.UsageError(f"--facts {path}: it is a folder; name a file that --save-facts wrote") from None
    except OSError as error:
        raise click.UsageError(f"--facts {path}: it can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--facts {path}: it is not a text file; name a file that --save-facts wrote") from None
    except FactsFileError as error:
        raise click.UsageError(f"--facts {path}: {error}") from None


def replayed_launch(saved: Mapping[type, object], given: Mapping[str, Any]) -> tuple[Launch, Mapping[type, object]]:
    """Return the launch and the facts of a saved file. If the options describe another launch, drop its old facts."""
    described = (
        any(given[name] is not None for name in LaunchOptions._fields) or given["command_line"] or given["launched"]
    )
    kept = saved.get(Launch)
    if isinstance(kept, Launch) and not described:
        return kept, saved
    from distcheck.checks.host.hostnames import HostName
    from distcheck.launch.settings import COMMAND, Settings

    settings = saved.get(Settings)
    environ = (
        {item.name: item.value for item in settings.items if item.origin != COMMAND}
        if isinstance(settings, Settings)
        else {}
    )
    host = saved.get(HostName)
    host_name = host.name.name if isinstance(host, HostName) else ""
    launch = launch_of(environ, given, host_name)
    facts = {made: value for made, value in saved.items() if outlives_its_launch(made)}
    if isinstance(settings, Settings):
        facts[Settings] = settings.with_command({} if launch.command is None else launch.command.assignments)
    return launch, facts


def outlives_its_launch(made: type) -> bool:
    """Return whether a saved fact is valid for another launch on the same host; derived facts are derived again."""
    reader = registry.readers().get(made)
    if reader is None or reader.of_launch:
        return False
    return any(parameter.type is World for parameter in registry.parameters(reader.function))


def save_facts(path: str, report: Report, launch: Launch, *, redact: bool) -> None:
    """Write the facts; raises UsageError if the file can't be written."""
    from datetime import datetime, timezone

    from distcheck.core.facts_file import dump_facts, redacted

    known = {made.__name__: made for made in (Launch, *registry.readers())}
    # that this host is not part of this job is not a fact of the host
    facts = {known[name]: value for name, value in report.facts.items() if name in known and value != ELSEWHERE}
    facts[Launch] = without_credentials(launch)
    text = dump_facts(
        facts, tool_version=__version__, saved_at=datetime.now(timezone.utc).isoformat(timespec="seconds")
    )
    shared.write_file_of("--save-facts", path, redacted(text) if redact else text)
