"""``distcheck pickle``: what can't be pickled in an object, and what loading a file would do.

This module reads the options and the configuration. :mod:`.pickle_scan` works on files, :mod:`.pickle_object` on
objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from distcheck.checks.pickles.api import policy_of
from distcheck.core.configuration import Configuration
from distcheck.core.world import World

from . import options as shared
from .output import cores
from .pickle_scan import ScanOptions, missing, run

_SECTIONS = {
    "Files": ("purpose", "torch", "allow", "gpus", "exclude", "list_skipped", "confirm", "jobs"),
    "A live object": ("object_name", "call", "mode", "show_fix"),
    **shared.RULES,
    **shared.VERDICT,
    "How it runs": shared.HOW_IT_RUNS,
}
#: Options of one kind of input, by parameter: their names on the command line.
_OF_FILES = {
    "purpose": "--for",
    "torch": "--torch",
    "allow": "--allow",
    "gpus": "--gpus",
    "exclude": "--exclude",
    "list_skipped": "--list-skipped",
    "jobs": "--jobs",
}
_OF_OBJECTS = {"call": "--call", "mode": "--mode", "show_fix": "--show-fix"}
MODES = ("pickle", "torch.save", "deepcopy", "spawn", "collective")

EPILOG = """\b
Examples:
  distcheck pickle model.pt                         what torch.load would do with it
  distcheck pickle downloads/                       all checkpoints and pickles below a folder
  distcheck pickle --for pickle data.pkl            it will be loaded with pickle.load
  distcheck pickle --torch 2.6 --gpus 1 model.pt    as that torch has it, for a machine with one GPU
  distcheck pickle --allow argparse.Namespace model.pt
  curl -sL https://… | distcheck pickle -           standard input
  distcheck pickle --object train:trainer           every member that can't be pickled
  distcheck pickle --object train:make_trainer --call --mode torch.save --show-fix

\b
Nothing of a file is executed, and nothing that it names is imported. --object imports the module that it names.

'distcheck explain DC610' prints the page of a rule, 'distcheck rules --way pickle' lists those that are seen here.
"""


@click.command(
    "pickle", cls=shared.grouped(_SECTIONS), epilog=EPILOG, context_settings={"auto_envvar_prefix": "DISTCHECK_PICKLE"}
)
@click.argument("paths", metavar="[FILE|DIR|-]…", nargs=-1)
@click.option(
    "--for",
    "purpose",
    envvar="DISTCHECK_PICKLE_FOR",
    type=click.Choice(["weights-only", "pickle"]),
    help="Who will load it: torch.load with weights_only=True, or pickle.  [default: by the format]",
)
@click.option("--torch", metavar="VERSION", help="The torch that will load it.  [default: the installed one]")
@click.option(
    "--allow",
    multiple=True,
    metavar="NAMES",
    help="Names (module.Name) that you trust, as if add_safe_globals had been called.",
)
@click.option("--gpus", type=click.IntRange(min=0), metavar="N", help="GPUs of the machine that will load it.")
@click.option("--exclude", multiple=True, metavar="PATTERNS", help="Skip these in folders.")
@click.option(
    "--list-skipped",
    is_flag=True,
    help="List the files of folders that were not scanned: no pickle by their content, or excluded.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Also run the real loader: torch.load on the meta device, in another process, for files that are not "
    "dangerous; or the real pickler.",
)
@shared.jobs_option
@click.option(
    "--object",
    "object_name",
    metavar="MODULE:NAME",
    allow_from_autoenv=False,
    help="Import this module, and find every member of this object that can't be pickled.",
)
@click.option("--call", is_flag=True, help="Call it without arguments, and check what it returns.")
@click.option("--mode", type=click.Choice(MODES), help="Who pickles it.  [default: pickle]")
@click.option("--show-fix", is_flag=True, help="Print a __getstate__ and __setstate__ for the classes at fault.")
@shared.selection_options
@shared.output_options
@shared.verdict_options
@shared.configuration_options
def command(**given: Any) -> int:
    """Report what loading a checkpoint or pickle would do, without executing a byte of it. Or name the path to each
    member of a live object that can't be pickled.

    FILEs are torch checkpoints (zip, legacy, distributed), raw pickles, numpy and joblib files, safetensors, and
    archives that hold them, recognized by their content. A folder means all such files in it. - is standard input.
    """
    _refuse_contradictions(given)
    shared.check_output_file(given["output_file"])
    world = World()
    configuration = shared.configuration_of(world, given["config"], isolated=given["isolated"])
    requested = scan_options(given, configuration)
    if given["object_name"] is not None:
        from .pickle_object import run as run_on_object

        return run_on_object(requested)
    return run(requested)


def _refuse_contradictions(given: Mapping[str, Any]) -> None:
    paths = given["paths"]
    if given["object_name"] is not None:
        if paths:
            raise click.UsageError(f"--object names a live object, {paths[0]} a file; give one of them")
        for parameter, option in _OF_FILES.items():
            if _is_on_command_line(parameter):
                raise click.UsageError(f"{option} is about files; --object names a live object")
        return
    for parameter, option in _OF_OBJECTS.items():
        if _is_on_command_line(parameter):
            raise click.UsageError(f"{option} belongs to --object module:name")
    if not paths:
        raise click.UsageError("name a file or a folder, - for standard input, or --object module:name")
    if paths.count("-") > 1:
        raise click.UsageError("- is standard input, and can be read once")
    absent = missing(paths)
    if absent is not None:
        hint = " (to check a live object: --object module:name)" if ":" in absent and "/" not in absent else ""
        raise click.UsageError(f"{absent}: {shared.why_absent(absent)}{hint}")


def _is_on_command_line(parameter: str) -> bool:
    """Whether an option stands on the command line; a variable may be set for all runs."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def scan_options(given: Mapping[str, Any], configuration: Configuration) -> ScanOptions:
    """The options and the configuration in one; a usage error where they are not right."""
    selection = shared.selected_rules(given, configuration)
    shared.refuse_empty_selection(selection, "pickle")
    allow = [name.strip() for text in given["allow"] for name in text.split(",") if name.strip()]
    try:
        policy = policy_of(torch_version=given["torch"], allow=allow, purpose=given["purpose"], gpus=given["gpus"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    here = shared.working_folder()
    patterns = [
        *((part.strip(), here) for text in given["exclude"] for part in text.split(",") if part.strip()),
        *((pattern, base or here) for pattern, base in configuration.placed("extend-exclude")),
    ]
    excludes = None
    if patterns:
        from distcheck.checks.source.discovery import Globs

        excludes = Globs(patterns)
    return ScanOptions(
        paths=given["paths"],
        given=given,
        selection=selection,
        policy=policy,
        fail_on=given["fail_on"] or shared.fail_on_of(configuration),
        must_check=shared.must_check_of(given, configuration),
        jobs=given["jobs"] or cores(),
        excludes=excludes,
        configuration=configuration,
    )
