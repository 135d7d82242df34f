"""Probes about what every rank logs at once: runs of experiment trackers, and lines that it prints."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_dependence
from .path_values import CallPath
from .program import Program, SourceCall
from .several_ranks import signs
from .shared_writes import only_of_this_process
from .values import PARTIAL

_TRACKERS = {
    "wandb.init": "wandb.init",
    "trackio.init": "trackio.init",
    "swanlab.init": "swanlab.init",
    "mlflow.start_run": "mlflow.start_run",
    "comet_ml.Experiment": "comet_ml.Experiment",
    "comet_ml.start": "comet_ml.start",
    "neptune.init_run": "neptune.init_run",
    "neptune.init": "neptune.init",
    "clearml.Task.init": "Task.init",
    "aim.Run": "aim.Run",
    "torch.utils.tensorboard.SummaryWriter": "SummaryWriter",
    "tensorboardX.SummaryWriter": "SummaryWriter",
}
#: Arguments for several processes; those with one id share one run.
_FOR_SEVERAL = ("group", "id", "settings", "resume_id", "experiment_key", "system_tracking_interval")
_SWITCHES = ("WANDB_MODE", "WANDB_DISABLED", "WANDB_SILENT", "NEPTUNE_MODE", "COMET_MODE", "SWANLAB_MODE")


@probe(rules.DC721)
def every_rank_logs(program: Program) -> Iterator[Finding]:
    """One rank starts the tracker and prints, or each prints its rank."""
    for call in program.calls_to(*_TRACKERS):
        if call.has_star or any(call.gives(None, name) for name in _FOR_SEVERAL) or _is_switched_off(call):
            continue
        own = call_paths.path_of_all_ranks(program, call)
        call_path = own or call_paths.path_past_lightning(program, call)
        if call_path is None or _names_its_rank(call, call_path) or _switched_by_variable(program, call):
            continue
        name = next(_TRACKERS[target] for target in call.targets if target in _TRACKERS)
        loud = own is not None and not (path_values.owned_by_a_framework(call_path) or path_values.in_tests(call_path))
        text = f"every rank starts {name}() here, so a job has as many runs as ranks"
        if name == "SummaryWriter" and any(call.gives(0, argument) for argument in ("log_dir", "logdir")):
            # the default is a folder of each host and second; in one folder TensorBoard shows one run
            loud = False
            text = "every rank starts SummaryWriter() here in one folder, and TensorBoard mixes their events"
        yield call.found(
            rules.DC721,
            text,
            fix=_tracker_fix(call, name),
            basis=(call_path.certainty,),
            severity=Severity.WARNING if loud else Severity.INFO,
            flow=program.flow(call_path.steps),
            **signs(call, call_path),
        )
    yield from _prints(program)


#: Progress bars, which are lines of output in each turn.
_BARS = ("tqdm.tqdm", "tqdm", "tqdm.auto.tqdm", "tqdm.std.tqdm", "tqdm.autonotebook.tqdm", "tqdm.trange",
         "tqdm.auto.trange", "rich.progress.track")  # fmt: skip


def _prints(program: Program) -> Iterator[Finding]:
    """Yield one finding for what each function prints on all ranks: first in a loop, else anywhere."""
    made = call_paths.tables(program)
    # where a group or a trainer is made or a model wrapped; elsewhere it is too little to follow its callers for
    files = {file for file, _ in made.starting | made.wrapping | made.training}
    outputs = [
        call for call in program.calls_named("print", files=files) if call.argument_terms and call.is_to("print")
    ]
    bars = [call for call in program.calls_to(*_BARS) if call.file in files and not call.gives(None, "disable")]
    seen: set[tuple[int, int]] = set()
    for call in sorted([*outputs, *bars], key=lambda call: (call.file, not call.loops, call.number)):
        if (call.file, call.scope) in seen or call.has_star or call.inside("except"):
            continue
        if call.method == "print" and (call.gives(None, "file") or _prints_are_replaced(program, call.file)):
            continue
        call_path = call_paths.path_of_all_ranks(program, call) or call_paths.path_past_a_trainer(program, call)
        if call_path is None or path_values.in_tests(call_path) or _names_its_rank(call, call_path):
            continue
        seen.add((call.file, call.scope))
        text, fix = (
            "every rank prints this",
            "print on one rank: `if dist.get_rank() == 0:`, or name the rank in the text",
        )
        if call.method != "print":
            text = "every rank shows a progress bar of its own"
            fix = f"switch it off elsewhere: {call.method}(…, disable=dist.get_rank() != 0)"
        elif call.loops:
            text += " in each iteration"
        yield call.found(rules.DC721, text, fix=fix, severity=Severity.INFO, flow=program.flow(call_path.steps))


def _tracker_fix(call: SourceCall, name: str) -> str:
    if name == "wandb.init":
        return 'switch it off elsewhere: wandb.init(…, mode="online" if dist.get_rank() == 0 else "disabled")'
    target = call.use.removeprefix("assign:") if call.use.startswith("assign:") else ""
    if target:
        return f"make it on one rank only: `{target} = {name}(…) if dist.get_rank() == 0 else None`"
    return f"call {name}() on one rank only: `if dist.get_rank() == 0:`"


def _is_switched_off(call: SourceCall) -> bool:
    mode = call.argument(None, "mode")
    return mode is not None and (mode.constant in ("disabled", "offline") or _differs_in(call, "mode"))


def _differs_in(call: SourceCall, keyword: str) -> bool:
    return rank_dependence.differs(call, call.argument_term(None, keyword))


def _names_its_rank(call: SourceCall, call_path: CallPath) -> bool:
    terms = call.argument_terms
    return any(only_of_this_process(call_path, term, by_data=False) for term in terms)


def _switched_by_variable(program: Program, call: SourceCall) -> bool:
    """Return whether a variable that switches trackers off is set for some ranks only."""
    files = call_paths.related(program, call.file)
    return any(file in files for file in program.table(_switching))


def _switching(program: Program) -> Iterator[int]:
    for row in program.rows("store"):
        constants = row.term_value(row.payload[1]).constants if row.own_reached_by.who in PARTIAL else ()
        if any(constant in _SWITCHES for constant in constants):
            yield row.file


def _prints_are_replaced(program: Program, file: int) -> bool:
    files = call_paths.related(program, file)
    return any(one in files for one in program.table(_replacing))


def _replacing(program: Program) -> Iterator[int]:
    """Yield the files that put something in the place of ``print``."""
    for (_, name), stores in program.evaluator.outside.items():
        if name == "print":
            yield from (file for file, _ in stores)
    for file in range(len(program.index.files)):
        if any("print" in scope.bindings for scope in program.index.scopes[file]):
            yield file
