"""Whether the ranks of a launch can be divided into the model-parallel groups that its script's options request.

Megatron-LM and its descendants end if the number of ranks is no multiple of the product of these sizes
(``megatron/core/parallel_state.py``, ``initialize_model_parallel``, core 0.4 to 0.12). Releases before core 0.9 lower
sizes that exceed the number of ranks (``megatron/training/arguments.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.registry import probe
from distcheck.core.wording import counted
from distcheck.launch.model import NODE_LAUNCHERS
from distcheck.launch.schedulers import task_starter

from .counts import nodes_of, ranks_on_node, tasks_of
from .model import LaunchFiles, LaunchSite, Word

#: Options whose values are multiplied, with the word for a message. Context parallelism exists since core 0.5.
_SIZES = {
    "--tensor-model-parallel-size": "tensor",
    "--pipeline-model-parallel-size": "pipeline",
    "--context-parallel-size": "context",
}


class _Size(NamedTuple):
    number: int
    word: Word


@probe(rules.DC816)
def ranks_fill_the_parallel_groups(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The number of ranks is a multiple of the product of the model-parallel sizes."""
    for _, site in launch_files.sites():
        ranks = _ranks(site)
        sizes = {} if ranks is None else _sizes(site)
        product = 1
        for size in sizes.values():
            product *= size.number
        if ranks is None or ranks % product == 0:
            continue
        factors = " × ".join(f"{name} {size.number}" for name, size in sizes.items() if size.number > 1)
        # an argument that only the shell knows may replace an option before it
        is_certain = not any("$" in word or "`" in word for word in site.command.script_args)
        is_certain = is_certain and product < ranks
        widest = max(sizes.values(), key=lambda size: size.number)
        result = "Megatron ends before the first step" + (", or lowers the sizes" if product > ranks else "")
        yield rules.DC816.found(
            f"{counted(ranks, 'rank')} {'starts' if ranks == 1 else 'start'}, but model-parallel groups of {product} "
            f"({factors}) need a multiple of {product}: {result}",
            severity=None if is_certain else Severity.WARNING,
            where=site.where(widest.word, object="parallel-size"),
            evidence={"ranks": ranks, "group": product},
            fix=Fix(
                f"start a multiple of {product} ranks, or lower the sizes until their product divides {ranks}",
                where="launch-line",
            ),
        )


def _ranks(site: LaunchSite) -> int | None:
    """Return all ranks of the job of a line, or None if unknown."""
    command = site.command
    if command.launcher not in NODE_LAUNCHERS:
        return tasks_of(site) if command.launcher == "python" and task_starter(command) is not None else None
    if command.nnodes_min != command.nnodes_max and not command.standalone:
        return None
    each, nodes = ranks_on_node(site), nodes_of(site)
    return None if each is None or nodes is None else each * nodes


def _sizes(site: LaunchSite) -> dict[str, _Size]:
    """Return the known sizes by word; the last option of each counts, if its value is known."""
    count = len(site.command.script_args)
    words = site.words[len(site.words) - count :] if count else ()
    found: dict[str, _Size] = {}
    for index, word in enumerate(words):
        option, equals, value = word.text.partition("=")
        name = _SIZES.get("--" + option.removeprefix("--").replace("_", "-")) if option.startswith("--") else None
        if name is None:
            continue
        if not equals:
            value = words[index + 1].text if index + 1 < len(words) else ""
        found.pop(name, None)
        if value.isascii() and value.isdigit() and 0 < len(value) < 7 and int(value):
            found[name] = _Size(int(value), word)
    return found
