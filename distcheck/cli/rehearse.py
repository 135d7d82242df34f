"""``distcheck rehearse -- train.py``: the first steps of the real script on this machine, as if it were several nodes.

The options, and the lines that are printed before it begins; ``runtime/rehearsal/simulation`` directs the ranks, and
the report is made in :mod:`.rehearse_report`.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from distcheck.core.configuration import Configuration
from distcheck.core.model import Report
from distcheck.core.world import World
from distcheck.rules import Selection

from . import options as shared
from . import output

if TYPE_CHECKING:
    from distcheck.checks.source.program import EventRow

_SECTIONS = {
    "The job that is simulated": ("nnodes", "nproc_per_node", "gpus_per_node", "launcher", "module"),
    "When it ends": ("steps", "seconds", "epoch_steps", "hang_timeout"),
    "How it runs": ("reference", "reference_args", "in_place", "network", "real_gpus"),
    "Options": (),
}

EPILOG = """\b
Examples:
  distcheck rehearse -- train.py --lr 0.1                       two nodes with two GPUs each
  distcheck rehearse --nnodes 1 --nproc-per-node 4 -- train.py
  distcheck rehearse -- torchrun --nproc-per-node 4 train.py    the launch line, as it is
  distcheck rehearse --nnodes 2 -- srun --ntasks-per-node=4 python train.py
  distcheck rehearse --epoch-steps 2 --steps 0 -- train.py      short epochs, to the end of the script
  distcheck rehearse --launcher script -- train.py              it calls mp.spawn itself
  distcheck rehearse -m -- package.train
  distcheck rehearse --reference --reference-args "--batch-size 32" -- train.py --batch-size 8

\b
Nothing of yours is harmed: what the script writes goes into a folder of the rehearsal (--in-place: where it belongs),
trackers are offline, connections to other machines are refused (--network allows them), GPUs are simulated on the CPU.
What it omits is listed under 'not checked'.
In /tmp (unless you work there) and in caches it writes for real.

\b
Exit status: 1 errors were found; 3 none, but the script failed by itself or did not get to its first step; 2 used
wrongly; 0 otherwise. Each option can be given as a variable: DISTCHECK_REHEARSE_NNODES=2.
"""


@click.command(
    "rehearse",
    cls=shared.grouped(_SECTIONS),
    epilog=EPILOG,
    context_settings={"allow_interspersed_args": False, "auto_envvar_prefix": "DISTCHECK_REHEARSE"},
)
@click.option(
    "--nnodes", type=click.IntRange(1, 256), metavar="N",
    help="Nodes.  [default: as in the launch line; 2 for a script alone]",
)  # fmt: skip
@click.option(
    "--nproc-per-node", type=click.IntRange(1, 256), metavar="N",
    help="Ranks of each node.  [default: as in the launch line; one for each GPU, or 2]",
)  # fmt: skip
@click.option(
    "--gpus-per-node", type=click.IntRange(0, 64), metavar="N",
    help="GPUs of each node; 0: none.  [default: one for each rank]",
)  # fmt: skip
@click.option(
    "--launcher", type=click.Choice(["auto", "torchrun", "slurm", "script"]), default="auto", show_default=True,
    help="Whose variables the ranks get; script: it starts its own ranks (mp.spawn), one process a node.",
)  # fmt: skip
@click.option("-m", "--module", is_flag=True, help="The script is the name of a module, as behind python -m.")
@click.option(
    "--steps", type=click.IntRange(0), metavar="N",
    help="Optimizer steps after which all ranks end; 0: only with the script.  [default: 3, and up to 64 if the "
    "others take less than 5 s]",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0), default=1800, show_default=True, metavar="S",
    help="Seconds after which all ranks end; 0: no limit.",
)  # fmt: skip
@click.option(
    "--epoch-steps", type=click.IntRange(1), metavar="N",
    help="Batches that one pass over a data loader gives at most, so that epochs end soon.",
)  # fmt: skip
@shared.hang_timeout_option(
    "rehearse", 5.0, "Seconds without progress, while ranks wait, after which it is reported as a hang."
)
@click.option(
    "--reference", is_flag=True,
    help="Run the script once more as one rank, and compare the first step: gradients, parameters, learning rates. "
    "Only if one rank gets the samples of all, and the forward pass draws no random numbers.",
)  # fmt: skip
@click.option(
    "--reference-args", default="", metavar="ARGS",
    help="Arguments of the script for that one rank, after its own, such as a batch that holds those of all ranks: "
    "'--batch-size 64'.",
)  # fmt: skip
@click.option("--in-place", is_flag=True, help="Let the script write where it belongs.")
@click.option("--network", is_flag=True, help="Let the script connect to other machines.")
@click.option("--real-gpus", is_flag=True, help="Use this machine's GPUs and NCCL in place of simulated ones.")
@shared.selection_options
@shared.configuration_options
@shared.verdict_options
@shared.output_options
@click.argument("words", metavar="-- SCRIPT [ARGUMENTS] …", nargs=-1, type=click.UNPROCESSED)
def command(**given: Any) -> int:
    """Run the first steps of your training script here, as all ranks at once, and report what would fail.

    Starts nnodes x nproc ranks with the environment that each would have in the real job, with simulated GPUs and gloo
    in place of NCCL. What ranks bind, call, read, write and compute is laid side by side: hangs, wrong devices, equal
    data on all ranks, files that several write, gradients that differ. A launch line may stand behind -- in place of
    the script; options override what it has.
    """
    if not given["words"]:
        raise click.UsageError("name a script or a launch line: distcheck rehearse -- train.py")
    shared.check_output_file(given["output_file"])
    world = World()
    selection, configuration = shared.selection_and_configuration(world, given)
    return _rehearse(given, world, configuration, selection)


def _rehearse(given: dict[str, Any], world: World, configuration: Configuration, selection: Selection) -> int:
    from distcheck.reporters.progress import Progress
    from distcheck.runtime.rehearsal.simulation import reference
    from distcheck.runtime.rehearsal.simulation.launcher import Signalled, perform

    from .rehearse_report import report_of

    parsed = parsed_command_of(given, world)
    check_machine(parsed.plan, world)
    quiet = given["quiet"]
    try:
        with Progress(sys.stderr) as line:
            perform_plan = partial(
                perform, base=dict(os.environ), python=sys.executable, assigned=parsed.assignments,
                progress=(lambda _: None) if quiet or given["verbose"] else lambda text: line.show("rehearse", text),
                printed=output.say if given["verbose"] and not quiet else None,
            )  # fmt: skip
            result = perform_plan(parsed.plan)
            if parsed.plan.reference:
                result = result._replace(rehearsal=reference.added(result.rehearsal, perform_plan, result.elapsed_s))
    except Signalled as signalled:
        return 128 + signalled.number
    report = report_of(parsed, result, selection, configuration)
    if given["output_format"] != "json":
        # in the text each would be a table with one row for all that a rank has done
        report = report._replace(facts={})
    return finish(report, given, configuration)


def finish(report: Report, given: dict[str, Any], configuration: Configuration) -> int:
    """Write the report; the exit status."""
    status = output.finish(
        report, given, configuration,
        fail_on=given["fail_on"] or shared.fail_on_of(configuration),
        must_check=shared.must_check_of(given, configuration),
    )  # fmt: skip
    return output.or_not_checked(status, given, report.subject["failed"])


def parsed_command_of(given: dict[str, Any], world: World) -> Any:
    """What is to be rehearsed; a usage error where that can't be."""
    from distcheck.runtime.rehearsal.simulation.cli_args import CannotRehearse, RehearseOptions, read

    options = RehearseOptions(
        given["nnodes"], given["nproc_per_node"], given["gpus_per_node"],
        None if given["launcher"] == "auto" else given["launcher"], given["module"], given["steps"],
        given["seconds"] or None, given["epoch_steps"], given["hang_timeout"], given["in_place"], given["real_gpus"],
        given["network"], given["reference"], given["reference_args"],
    )  # fmt: skip
    try:
        return read(
            given["words"], options, folder=shared.working_folder(), environ=world.environ,
            starts_ranks=partial(
                starts_ranks, flags=_flags(given["words"]), paths=world.environ.get("PYTHONPATH", ""),
            ),
        )  # fmt: skip
    except CannotRehearse as error:
        raise click.UsageError(str(error)) from None


def _flags(words: Sequence[str]) -> frozenset[str]:
    """Options without a value, as attributes of what ``parse_args`` returns."""
    after = [*words[1:], "-"]
    return frozenset(
        word[2:].replace("-", "_")
        for word, following in zip(words, after, strict=True)
        if word.startswith("--") and "=" not in word and following.startswith("-")
    )


def starts_ranks(path: str, flags: Collection[str] = (), paths: str = "") -> bool:
    """Whether a script, or a module of its project that it imports, starts ranks, and no launcher does.

    :param flags: options that the command line sets: ``args.multiprocessing_distributed`` is true
    :param paths: the value of PYTHONPATH, which names the project's folder if the script is in one below
    """
    from distcheck.checks.source.engine import SourceFile, analyse
    from distcheck.checks.source.environment_variables import reads, writes
    from distcheck.checks.source.process_start import conditional, launcher_is_tested

    own = os.path.dirname(os.path.abspath(path))
    above = [
        entry for entry in paths.split(os.pathsep) if entry and own.startswith(os.path.join(os.path.abspath(entry), ""))
    ]
    texts = _with_modules(path, [os.path.dirname(path), *above])
    program = analyse([SourceFile(name, partial(texts.__getitem__, name)) for name in texts])
    calls = list(program.calls_to(*_SPAWNS))
    if not calls and any(program.calls_to("torch.distributed.init_process_group")):
        calls = list(program.calls_to(*_PROCESSES))
    # what it sets for the ranks that it starts is no launcher's
    needed = {read.name for read in reads(program)} - {write.name for write in writes(program)}
    by_a_launcher = bool(needed & {"RANK", "LOCAL_RANK", "SLURM_PROCID"})
    return any(
        not (launcher_is_tested(program, call) or (by_a_launcher and conditional(call) and not _is_set(call, flags)))
        for call in calls
    )


def _is_set(call: EventRow, flags: Collection[str]) -> bool:
    """Return whether a call is in a branch that one of the flags selects."""
    tests = [call.program.terms[call.file][node[2]] for _, node in call.blocks if node[1] == "if" and node[3]]
    return any(test[0] == "a" and test[2] in flags for test in tests)


#: Modules of a script that are read, to see what it starts.
_MOST_FILES = 300


def _with_modules(path: str, folders: Sequence[str]) -> dict[str, bytes]:
    """A script, and the modules of some folders that it imports, directly or not, by their paths."""
    texts: dict[str, bytes] = {}
    todo = [path]
    for name in todo:
        with suppress(OSError), open(name, "rb") as file:
            texts[name] = file.read()
        for stem in _imported(texts.get(name, b""), name, folders):
            for candidate in (f"{stem}.py", os.path.join(stem, "__init__.py")):
                if candidate not in todo and len(todo) < _MOST_FILES and os.path.isfile(candidate):
                    todo.append(candidate)
    return texts


def _imported(text: bytes, path: str, folders: Sequence[str]) -> set[str]:
    """Where the modules that a source imports may be: their paths without an ending.

    :param path: of the source, for relative imports
    :param folders: for all others
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(os.path.join(folder, *alias.name.split(".")) for folder in folders for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = os.path.join(os.path.dirname(path), *[os.pardir] * (node.level - 1))
            for base in [above] if node.level else folders:
                module = os.path.normpath(os.path.join(base, *(node.module or "").split(".")))
                found.update((module, *(os.path.join(module, alias.name) for alias in node.names)))
    return found


_SPAWNS = (
    "torch.multiprocessing.spawn", "torch.multiprocessing.start_processes", "accelerate.notebook_launcher",
    "accelerate.debug_launcher",
)  # fmt: skip
_PROCESSES = (
    "torch.multiprocessing.Process", "multiprocessing.Process", "torch.multiprocessing.get_context.Process",
    "multiprocessing.get_context.Process",
)  # fmt: skip


def check_machine(plan: Any, world: World) -> None:
    """Whether the ranks can be started here at all; a usage error where not."""
    from importlib.util import find_spec

    if os.name == "nt":
        raise click.UsageError("a rehearsal needs Linux or macOS: processes of Windows can't be ended together")
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise click.UsageError(
            f"torch is not installed for {sys.executable}; install distcheck next to it, and type the same with the "
            "Python that your training has: python -m distcheck rehearse …"
        )
    for_cuda = _built_for_cuda(spec.submodule_search_locations[0])
    needed = plan.nnodes * plan.gpus_per_node
    if plan.real_gpus:
        there = _gpus(world)
        if needed > there:
            raise click.UsageError(
                f"--real-gpus: {plan.nnodes} x {plan.gpus_per_node} GPUs are needed, and {there} are here; omit it, "
                "or give less with --nnodes and --gpus-per-node"
            )
        if for_cuda is None:
            raise click.UsageError("--real-gpus: this torch was built for the CPU only; remove it")
    if plan.world_size > 4 * output.cores():
        output.say(
            f"distcheck rehearse: {plan.world_size} ranks share {output.cores()} cores, which takes its time; "
            "--nnodes 2 --nproc-per-node 2 shows most"
        )


def _built_for_cuda(folder: str) -> str | None:
    """The version of CUDA that torch was built for, without importing it; None for the CPU."""
    from distcheck.checks.host.software import parse_version_file

    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            return parse_version_file(file.read()).get("cuda")
    except OSError:
        return None


def _gpus(world: World) -> int:
    """GPUs of this machine that this process may use."""
    mask = world.environ.get("CUDA_VISIBLE_DEVICES")
    if mask is not None:
        return len([part for part in mask.split(",") if part.strip() and not part.strip().startswith("-")])
    from distcheck.checks.host.gpus import Gpus
    from distcheck.core.checker import Checker

    found = Checker(modules=(), plug_ins=False).plan(World, also=(Gpus,)).run(world).facts.get(Gpus.__name__)
    return len(found.gpus) if isinstance(found, Gpus) else 0
