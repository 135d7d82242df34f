"""``distcheck lint``: find rank and device misuse in training scripts, and errors in launch files.

This module reads the options and the configuration. The work is done in :mod:`.lint_run`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from distcheck import rules
from distcheck._version import __version__
from distcheck.core.configuration import SITE_FILE, Configuration, pattern_pairs
from distcheck.core.world import World
from distcheck.rules import Selection

from . import lint_inputs, lint_run
from . import options as shared
from .lint_inputs import LintOptions
from .lint_results import finish
from .output import cores

if TYPE_CHECKING:
    from distcheck.checks.launch_files.model import Nodes
    from distcheck.checks.source.cache import Cache
    from distcheck.checks.source.discovery import Globs

_SECTIONS = {
    "Which rules": ("select", "extend_select", "ignore", "per_file_ignores", "preview"),
    "Which files": (
        "exclude", "extend_exclude", "force_exclude", "respect_gitignore", "include_markdown", "node_facts",
        "stdin_filename",
    ),
    "Fixes and baselines": ("fix", "unsafe_fixes", "diff", "baseline", "write_baseline"),
    **shared.VERDICT,
    "How it runs": (*shared.HOW_IT_RUNS, "jobs", "no_cache", "cache_dir"),
}  # fmt: skip

EPILOG = """\b
Examples:
  distcheck lint                                    all scripts, notebooks and launch files below this folder
  distcheck lint train.py src/ --select DC2,DC701
  distcheck lint train.sbatch --node-facts h100.json  before it is submitted; reads the script that it starts, too
  distcheck lint --fix                              fix what can be fixed safely
  distcheck lint --unsafe-fixes --diff              show what --fix would change, and change nothing
  distcheck lint --write-baseline known.json        accept today's findings; later: --baseline known.json
  distcheck lint --per-file-ignores 'tests/*:DC720'
  distcheck lint --output-format github             annotations of a pull request
  distcheck lint --stdin-filename train.py - < train.py

\b
A comment suppresses a finding on its line, or a rule in a file:
  torch.cuda.set_device(rank)  # noqa: DC201
  torch.cuda.set_device(rank)  # distcheck: ignore[DC201] one host only
  # distcheck: ignore-file[DC720]
In launch files, the comment may also be above the command.

'distcheck explain DC201' prints the page of a rule; 'distcheck rules --way lint' and '--way launch' list the rules of
this command.
"""


@click.command(cls=shared.grouped(_SECTIONS), epilog=EPILOG, context_settings={"auto_envvar_prefix": "DISTCHECK_LINT"})
@click.argument("paths", metavar="[PATH|-]…", nargs=-1)
@shared.selection_options
@click.option(
    "--per-file-ignores",
    multiple=True,
    metavar="PATTERN:CODES",
    help="Rules to switch off in some files: 'tests/*:DC720,DC721'.",
)
@click.option(
    "--preview", is_flag=True, default=None,
    help="Add the rules that are off by default, and report each rule at its own level.",
)  # fmt: skip
@click.option("--exclude", multiple=True, metavar="PATTERNS", help="Skip these instead of the default folders.")
@click.option("--extend-exclude", multiple=True, metavar="PATTERNS", help="Also skip these.")
@click.option("--force-exclude", is_flag=True, default=None, help="Skip excluded files even if they are named.")
@click.option(
    "--respect-gitignore/--no-respect-gitignore",
    default=None,
    help="Skip the files in .gitignore.  [default: respect]",
)
@click.option(
    "--include-markdown", is_flag=True, default=None, help="Also check commands in the Markdown files of folders."
)
@click.option(
    "--node-facts",
    metavar="FILE",
    help="Facts of the nodes of the job: a file of 'distcheck env --save-facts' from there, or of the site.",
)
@click.option("--stdin-filename", metavar="FILE", help="The file name of standard input.")
@click.option("--fix", is_flag=True, allow_from_autoenv=False, help="Apply the safe fixes.")
@click.option(
    "--unsafe-fixes", is_flag=True, allow_from_autoenv=False, help="With --fix or --diff: also fixes with a risk."
)
@click.option("--diff", is_flag=True, help="Print what --fix would change; exit with 1 if it would change anything.")
@shared.baseline_options
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of showing them.")
@shared.output_options
@shared.verdict_options
@shared.configuration_options
@shared.jobs_option
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@click.option("--cache-dir", metavar="DIR", help="Folder of the cache.  [default: the user's cache folder]")
def command(**given: Any) -> int:
    """Find rank and device misuse in training scripts, and errors in launch files.

    In Python files it follows values (the global rank, the local rank, a device) and which ranks reach a line, across
    functions and files. In launch files (shell and Slurm scripts, Kubernetes manifests, Dockerfiles, Makefiles,
    workflows, configurations of Accelerate and DeepSpeed) it compares launch commands, variables and allocations.
    Nothing is run or imported, and torch is not needed. PATHs are files and folders; - is standard input.
    """
    began = time.monotonic()
    _refuse_contradictions(given)
    for option in ("output_file", "write_baseline"):
        shared.check_output_file(given[option], {"output_file": "-o"}.get(option, "--write-baseline"))
    world = World()
    configuration = shared.configuration_of(world, given["config"], isolated=given["isolated"])
    options = lint_options(given, configuration)
    inputs = lint_inputs.inputs_of(options)
    wants_fixes = given["fix"] or given["diff"]
    changed: dict[str, bytes] = {}
    fixed = 0
    from distcheck.reporters.progress import Progress

    with Progress(sys.stderr) as line:
        progress = lint_inputs.DelayedProgress(line, began)
        result = lint_run.look(options, inputs, changed, progress)
        if wants_fixes:
            result, fixed = lint_run.fix(options, inputs, result, changed, progress)
    lint_run.save_cache(options)
    result = result._replace(report=result.report._replace(elapsed_s=time.monotonic() - began))
    return finish(options, inputs, configuration, result, changed, fixed)


def _refuse_contradictions(given: Mapping[str, Any]) -> None:
    if given["unsafe_fixes"] and not (given["fix"] or given["diff"]):
        raise click.UsageError("--unsafe-fixes needs --fix or --diff")
    if given["fix"] and given["diff"]:
        raise click.UsageError("--diff shows what --fix would change; give one of them")
    if given["write_baseline"] is not None and (given["fix"] or given["diff"]):
        raise click.UsageError("--write-baseline accepts findings; run it after --fix")
    if given["write_baseline"] in ("", "-"):
        raise click.UsageError("--write-baseline needs the name of a file")
    if "-" in given["paths"] and len(given["paths"]) > 1:
        raise click.UsageError("- is standard input, and can't be combined with other paths")
    if given["stdin_filename"] is not None and given["paths"] not in ((), ("-",)):
        raise click.UsageError("--stdin-filename names what - reads; give - and no other path")
    if given["cache_dir"] is not None and os.path.exists(given["cache_dir"]) and not os.path.isdir(given["cache_dir"]):
        raise click.UsageError(f"--cache-dir {given['cache_dir']}: it is a file; name a folder")


def lint_options(given: Mapping[str, Any], configuration: Configuration) -> LintOptions:
    """Return the options, completed by the configuration; raises UsageError if they are not valid."""
    from distcheck.checks.source.discovery import DEFAULT_EXCLUDES, Globs

    selection = shared.selected_rules(given, configuration)
    if configuration.flag("preview") if given["preview"] is None else given["preview"]:
        # of all rules, or of those that are selected; a rule that is ignored stays off
        wide = selection if selection.select else selection._replace(select=("ALL",))
        every = [rule for rule in rules.known().values() if {"lint", "launch"} & set(rule.ways)]
        quiet = (rule for rule in every if not rule.on_by_default or rule.in_folders in ("many", "info"))
        extend = (rule.code for rule in quiet if wide.takes(rule))
        selection = selection._replace(extend_select=(*selection.extend_select, *extend))
    shared.refuse_empty_selection(selection, "lint", "lint", "launch")
    here = shared.working_folder()
    own = configuration.placed("exclude") or tuple((name, here) for name in DEFAULT_EXCLUDES)
    if given["exclude"]:
        own = tuple((pattern, here) for pattern in _split(given["exclude"]))
    also = (*configuration.placed("extend-exclude"), *((pattern, here) for pattern in _split(given["extend_exclude"])))
    respect = given["respect_gitignore"]
    if respect is None:
        respect = configuration.flag("respect-gitignore") is not False
    fail_on = given["fail_on"] or shared.fail_on_of(configuration)
    return LintOptions(
        given,
        selection,
        Globs((pattern, base or here) for pattern, base in (*own, *also)),
        bool(configuration.flag("force-exclude") if given["force_exclude"] is None else given["force_exclude"]),
        respect,
        _per_file_ignores(given, configuration, here),
        fail_on,
        given["verbose"] or fail_on == "info",
        baseline_of(given, configuration),
        _cache(given, configuration, here),
        given["jobs"] or cores(),
        bool(
            configuration.flag("include-markdown") if given["include_markdown"] is None else given["include_markdown"]
        ),
        _nodes(given, configuration),
        configuration,
    )


def _split(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _per_file_ignores(
    given: Mapping[str, Any], configuration: Configuration, here: str
) -> tuple[tuple[Globs, bool, Selection], ...]:
    from distcheck.checks.source.discovery import Globs

    pairs = list(configuration.placed("per-file-ignores"))
    try:
        pairs.extend((pair, here) for text in given["per_file_ignores"] for pair in pattern_pairs(text))
    except ValueError as error:
        raise click.UsageError(f"--per-file-ignores: {error}") from None
    codes: dict[tuple[str, str], list[str]] = {}
    for pair, base in pairs:
        pattern, _, code = pair.rpartition(":")
        codes.setdefault((pattern, base or here), []).append(code)
    return tuple(
        (
            Globs([(pattern.removeprefix("!"), base)]),
            pattern.startswith("!"),
            shared.selection_of(listed),
        )
        for (pattern, base), listed in codes.items()
    )


def baseline_of(given: Mapping[str, Any], configuration: Configuration) -> tuple[str, Mapping[str, int]] | None:
    from distcheck.core.baseline import BaselineError, load_baseline
    from distcheck.core.files import read_record

    path, origin = given["baseline"], "--baseline"
    if path is None:
        if given["write_baseline"] is not None or (path := configuration.word("baseline")) is None:
            return None
        origin = f"{configuration.origin('baseline')}: baseline"
        path = os.path.join(dict(reversed(configuration.placed("baseline")))[path], path)
    try:
        if given["baseline"] is None:  # a checkout can name a pipe or a file without end
            text = read_record(path)
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        return os.path.dirname(os.path.abspath(path)), load_baseline(text)
    except FileNotFoundError:
        raise click.UsageError(f"{origin} {path}: there is no such file; --write-baseline {path} creates it") from None
    except OSError as error:
        raise click.UsageError(f"{origin} {path}: it can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(
            f"{origin} {path}: it is not a text file; name a file that --write-baseline wrote"
        ) from None
    except BaselineError as error:
        raise click.UsageError(f"{origin} {path}: {error}") from None


def _nodes(given: Mapping[str, Any], configuration: Configuration) -> Nodes | None:
    """Return the nodes of the option or the configuration; raises UsageError if their file is not valid."""
    path, origin = given["node_facts"], "--node-facts"
    if path is None:
        placed = configuration.placed("node-facts")
        if not placed:
            return None
        path = os.path.join(placed[0][1], placed[0][0])
        origin = f"{configuration.origin('node-facts')}: node-facts"
    from distcheck.checks.launch_files.nodes import NodesError, read_nodes

    try:
        return read_nodes(path, of_a_checkout=given["node_facts"] is None)
    except NodesError as error:
        raise click.UsageError(f"{origin} {path}: {error}") from None


def _cache(given: Mapping[str, Any], configuration: Configuration, here: str) -> Cache | None:
    """Return the cache in the folder of the option, the site or the user. A project can't choose where to write."""
    from distcheck.checks.source.cache import Cache, user_folder
    from distcheck.checks.source.summary import ENGINE_VERSION
    from distcheck.reporters.locations import checkout_of

    if given["no_cache"]:
        return None
    folder = given["cache_dir"]
    if folder is None:
        sites = (one for one in configuration.entries if one.name == "cache-dir" and one.origin == SITE_FILE)
        site = next((value for entry in sites for value in entry.values), None)
        folder = user_folder() if site is None else os.path.expanduser(os.path.expandvars(site))
    if folder is None:
        return None
    return Cache(os.path.join(here, folder), f"{__version__}-{ENGINE_VERSION}", checkout=checkout_of(here) or here)
