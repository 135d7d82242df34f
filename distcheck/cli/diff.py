"""``distcheck diff``: two saved facts files side by side, only what differs and bears on training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click

from distcheck.core.model import to_plain
from distcheck.core.redaction import mask_all

from . import output
from .env import read_facts

#: Members of facts that change from run to run, or that identify the machine.
VOLATILE = frozenset(
    {
        "elapsed_s", "free_bytes", "memory_used_bytes", "memory_available_bytes", "processes", "pid", "started_at",
        "now", "temperature_c", "counters", "uuid", "mig_uuids", "gid", "gids", "addresses", "free_port", "tasks_now",
        "leftovers", "ancestors", "terminal", "remaining_s", "now_s", "origin",
    }
)  # fmt: skip
#: Facts about one process or one run, not about the machine.
LEFT_OUT = frozenset({"Ancestry", "HostName", "MasterName", "MasterReach"})
#: Variables that are meant to differ from process to process and from node to node.
NUMBERING = frozenset(
    {
        "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID",
        "SLURMD_NODENAME", "SLURM_TASK_PID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK",
        "PMIX_RANK", "HOSTNAME",
    }
)  # fmt: skip


class FactDifference(NamedTuple):
    """One difference between two files."""

    fact: str
    place: str
    left: Any
    right: Any


@click.command()
@click.argument("left", metavar="A.json")
@click.argument("right", metavar="B.json")
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also values that change from run to run.")
def command(left: str, right: str, output_format: str, verbose: bool) -> int:
    """Compare two files that 'distcheck env --save-facts' wrote: a good node against a bad one.

    Exit status: 0 nothing differs, 1 something does, 2 a file can't be read.
    """
    sides = [{made.__name__: value for made, value in read_facts(path).items()} for path in (left, right)]
    found = mask_all(list(differences(sides[0], sides[1], verbose=verbose)))
    if output_format == "json":
        rows = [{"fact": item.fact, "place": item.place, "a": item.left, "b": item.right} for item in found]
        output.to_stdout(json.dumps({"schema_version": 1, "a": left, "b": right, "differences": rows}, indent=2) + "\n")
    else:
        output.to_stdout(_table(found, left, right))
    return output.FOUND if found else output.CLEAN


def differences(
    left: Mapping[str, Any], right: Mapping[str, Any], *, verbose: bool = False
) -> Iterator[FactDifference]:
    """Where two sets of facts differ, by the name of the fact and the path within it."""
    for fact in sorted({*left, *right}):
        if fact in LEFT_OUT and not verbose:
            continue
        sides = [flatten(to_plain(side.get(fact))) for side in (left, right)]
        for place in dict.fromkeys([*sides[0], *sides[1]]):
            words = place.replace("[", ".").replace("]", "").split(".")
            if not verbose and (VOLATILE.intersection(words) or NUMBERING.intersection(words)):
                continue
            one, other = sides[0].get(place), sides[1].get(place)
            if one != other:
                yield FactDifference(fact, place, one, other)


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Nested values as one level: ``{"gpus[0].name": …}``. Rows with a name are found by it."""
    if isinstance(value, Mapping):
        flat: dict[str, Any] = {}
        for name, part in value.items():
            flat.update(flatten(part, f"{path}.{name}" if path else str(name)))
        return flat
    if isinstance(value, list) and any(isinstance(part, (Mapping, list)) for part in value):
        flat = {}
        for index, part in enumerate(value):
            name = part.get("name", part.get("device", part.get("path", index))) if isinstance(part, Mapping) else index
            if isinstance(part, Mapping) and set(part) == {"name", "value", "origin"}:
                flat[f"{path}[{name}]"] = part["value"]
                continue
            if isinstance(part, Mapping) and "index" in part:
                name = part["index"]
            if isinstance(part, list) and len(part) == 2 and isinstance(part[0], str):
                flat[f"{path}[{part[0]}]"] = part[1]
            else:
                place = f"{path}[{name}]"
                if any(key == place or key.startswith((f"{place}.", f"{place}[")) for key in flat):
                    place = f"{path}[{name} #{index}]"  # a device with two ports, a folder with two roles
                flat.update(flatten(part, place))
        return flat
    return {path: value}


def _table(found: list[FactDifference], left: str, right: str) -> str:
    from tabulate import tabulate

    if not found:
        return f"{left} and {right} agree in all that bears on training\n"
    rows = [(f"{item.fact} {item.place}", _show(item.left), _show(item.right)) for item in found]
    table = tabulate(
        rows, headers=("", left, right), tablefmt="plain", maxcolwidths=(34, 22, 22), disable_numparse=True
    )
    return f"{table}\n\n{len(found)} difference{'s' * (len(found) != 1)}\n"


def _show(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"  # tabulate takes the text "False" for a true value
    if value in ("", []):
        return "empty"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
