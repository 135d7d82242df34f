"""Options of a launch that transformers has removed from its TrainingArguments, so that the script refuses them.

Compared: ``training_args.py`` of transformers 4.46.3 and 5.0.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix
from distcheck.core.rank_evidence import TRANSFORMERS_SINCE
from distcheck.core.registry import probe
from distcheck.launch.model import NODE_LAUNCHERS

from .model import LaunchFiles, LaunchSite, Word
from .scripts import ScriptStart, Started

if TYPE_CHECKING:
    from distcheck.checks.source.program import Program, SourceCall

_REMOVED_BY = "5.0"
#: What replaces each option; empty: nothing, or not one option.
_REMOVED = {
    "evaluation_strategy": "eval_strategy",
    "no_cuda": "use_cpu",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "push_to_hub_token": "hub_token",
    "push_to_hub_model_id": "hub_model_id",
    **dict.fromkeys(
        [
            "adafactor",
            "dispatch_batches",
            "fp16_backend",
            "fp16_opt_level",
            "fsdp_min_num_params",
            "fsdp_transformer_layer_cls_to_wrap",
            "half_precision_backend",
            "include_inputs_for_metrics",
            "include_tokens_per_second",
            "jit_mode_eval",
            "mp_parameters",
            "overwrite_output_dir",
            "past_index",
            "push_to_hub_organization",
            "ray_scope",
            "save_safetensors",
            "split_batches",
            "torchdynamo",
            "tpu_metrics_debug",
            "tpu_num_cores",
            "use_ipex",
            "use_legacy_prediction_loop",
            "use_mps_device",
        ],
        "",
    ),
}
_PARSER = "transformers.HfArgumentParser"
_OF_TRANSFORMERS = ("TrainingArguments", "Seq2SeqTrainingArguments")


@probe(rules.DC817)
def library_knows_the_options(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """A script that parses transformers' TrainingArguments gets no option that a release has removed from them."""
    program = started.program
    if program is None:
        return
    for start in started.starts:
        given = _given(start.site) if start.site.command.launcher in NODE_LAUNCHERS else {}
        if not given:
            continue
        texts = _texts(program, start.script)
        refused = {name: word for name, word in given.items() if not _declares(texts, name)}
        if refused and _parses_arguments(program, start.script, texts):
            yield _refused(start, refused)


def _given(site: LaunchSite) -> dict[str, Word]:
    """Return the removed options among the arguments of the script, by name."""
    count = len(site.command.script_args)
    found: dict[str, Word] = {}
    for word in site.words[len(site.words) - count :] if count else ():
        name = word.text.partition("=")[0].removeprefix("--").replace("-", "_")
        if word.text.startswith("--") and name in _REMOVED:
            found.setdefault(name, word)
    return found


def _texts(program: Program, script: int) -> list[str]:
    from distcheck.checks.source.device_uses import files_from

    return [program.index.files[file].text for file in files_from(program, script)]


def _declares(texts: list[str], name: str) -> bool:
    return any(re.search(rf"(?m)^[ \t]+{name}[ \t]*:|[\"']--{name}[\"']", text) for text in texts)


def _parses_arguments(program: Program, script: int, texts: list[str]) -> bool:
    """Return whether a script parses transformers' own arguments, and refuses others."""
    from distcheck.checks.source.device_uses import files_from

    if any("return_remaining_strings" in text for text in texts):
        return False
    if any(facts.path.replace("\\", "/").endswith("transformers/training_args.py") for facts in program.index.files):
        return False  # the project has a transformers of its own
    files = files_from(program, script)
    parsers = [call for call in program.calls_to(_PARSER) if call.file in files]
    return bool(parsers) and all(_has_training_arguments(call, texts) for call in parsers)


def _has_training_arguments(parser: SourceCall, texts: list[str]) -> bool:
    span = parser.argument_span(0, "dataclass_types")
    names = [] if span is None else re.findall(r"\w+", parser.program.source(span))
    for name in names:
        bases = [match[1] for text in texts for match in re.finditer(rf"(?m)^class {name}\(([^)]*)\)", text)]
        own = any(re.search(rf"(?m)^class {name}\b", text) for text in texts)
        if any(base.rpartition(".")[2] in _OF_TRANSFORMERS for bases_of in bases for base in bases_of.split(", ")):
            return True
        if name in _OF_TRANSFORMERS and not own:
            return True
    return False


def _refused(start: ScriptStart, refused: dict[str, Word]) -> Finding:
    options = ", ".join(f"--{name}" for name in refused)
    name, word = next(iter(refused.items()))
    new = {old: _REMOVED[old] for old in refused if _REMOVED[old]}
    steps = [f"write --{replaced} for --{old}" for old, replaced in new.items()]
    steps += [f"drop --{old}" for old in refused if old not in new]
    edits = tuple(edit for old in new for edit in _renamed(refused[old], old)) if len(new) == len(refused) else ()
    return rules.DC817.found(
        f"transformers {_REMOVED_BY} has removed {options}: with it, each rank of {start.path} ends with an error of "
        "HfArgumentParser",
        where=start.site.where(word, object=name),
        evidence={"script": start.path, "options": list(refused), TRANSFORMERS_SINCE: _REMOVED_BY},
        fix=Fix(
            f"{'; '.join(steps)}; or require transformers<5",
            edits=edits,
            where="launch-line",
            risk="releases before 4.41 know the old name only" if edits else None,
        ),
    )


def _renamed(word: Word, old: str) -> tuple[Edit, ...]:
    option, equals, value = word.written.partition("=")
    if word.origins or option.removeprefix("--").replace("-", "_") != old:
        return ()
    return word.span.literal_edit(word.written, f"--{_REMOVED[old]}{equals}{value}")
