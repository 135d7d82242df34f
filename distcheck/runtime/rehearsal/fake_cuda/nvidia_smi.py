"""The ``nvidia-smi`` of a simulated node: the list of its GPUs, and the queries that scripts and libraries send.

It runs as a program of its own, with the standard library alone. It sees all GPUs of the node, as the real one does:
no mask hides one.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

_LISTS = frozenset({"-L", "--list-gpus"})
#: Options with a value that do not change the answer: how often it is repeated, and where it goes.
_IGNORED = frozenset({"-l", "--loop", "-lms", "--loop-ms"})
_APPS = ("--query-compute-apps", "--query-accounted-apps")
_DRIVER, _CUDA = "570.133.20", "12.8"
#: Values of an idle GPU, and units.
_IDLE = {
    "memory.used": "0 MiB", "memory.reserved": "0 MiB", "utilization.gpu": "0 %", "utilization.memory": "0 %",
    "temperature.gpu": "30", "power.draw": "70.00 W", "power.limit": "700.00 W", "pstate": "P0",
    "driver_version": _DRIVER, "compute_mode": "Default", "persistence_mode": "Enabled",
    "mig.mode.current": "Disabled", "display_active": "Disabled", "clocks.sm": "345 MHz", "clocks.gr": "345 MHz",
    "clocks.max.sm": "1980 MHz", "ecc.mode.current": "Enabled",
    # as of a GPU without a fan of its own
    "fan.speed": "[N/A]",
}  # fmt: skip
_UNITS = frozenset({"MiB", "%", "W", "MHz"})
_NAMES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
#: Fields that differ between GPUs or nodes. A query of a field that is in no table has no answer.
_OF_EACH = frozenset({"index", "count", "compute_cap", "memory.total", "memory.free", *_NAMES.values()})


class Query(NamedTuple):
    """What one call requests."""

    #: ``list``, ``table``, ``gpu``, ``apps``
    kind: str
    fields: tuple[str, ...] = ()
    #: of ``--format``: ``noheader``, ``nounits``
    shape: frozenset[str] = frozenset()
    #: as the words name them; none: all
    gpus: tuple[str, ...] = ()


class FakeGpu(NamedTuple):
    """One GPU of the node."""

    number: int
    #: of the node
    gpus: int
    memory_mib: int
    capability: str
    name: str

    @property
    def uuid(self) -> str:
        return uuid_of(self.number)

    @property
    def bus_id(self) -> str:
        return f"00000000:{self.number + 1:02X}:00.0"

    def value(self, field: str) -> str:
        """Return what a query of one of the known fields gives, with its unit."""
        known = {
            "index": str(self.number), "count": str(self.gpus), "name": self.name, "uuid": self.uuid,
            "pci.bus_id": self.bus_id, "compute_cap": self.capability, "memory.total": f"{self.memory_mib} MiB",
            "memory.free": f"{self.memory_mib} MiB",
        }  # fmt: skip
        name = _NAMES.get(field, field)
        return known[name] if name in _OF_EACH else _IDLE[name]


def uuid_of(number: int) -> str:
    """Return the identifier of a GPU of the node, which ``torch.cuda.get_device_properties`` gives without ``GPU-``."""
    return f"GPU-0e5c0000-0000-0000-0000-{number:012d}"


def parse(words: Sequence[str]) -> Query | None:
    """Return what the words of a call request; None: a rehearsal has no answer to it."""
    kind, shape, gpus = "table", "", ""
    fields: tuple[str, ...] = ()
    pending = iter(words)
    for word in pending:
        option, equals, value = word.partition("=")
        if option in _LISTS:
            kind = "list"
        elif option == "--query-gpu" and equals:
            kind, fields = "gpu", tuple(part.strip() for part in value.split(","))
        elif option in _APPS and equals:
            kind, fields = "apps", tuple(part.strip() for part in value.split(","))
        elif option == "--format":
            shape = value or next(pending, "")
        elif option in ("-i", "--id"):
            gpus = value or next(pending, "")
        elif option in _IGNORED:
            value or next(pending, "")
        else:
            return None
    parts = frozenset(part.strip() for part in shape.split(","))
    if kind in ("gpu", "apps") and "csv" not in parts:
        return None
    if kind == "gpu" and not all(_NAMES.get(field, field) in _OF_EACH | _IDLE.keys() for field in fields):
        return None
    return Query(kind, fields, parts, tuple(part for part in gpus.split(",") if part))


def is_answered(command: str) -> bool:
    """Return whether all calls in a line of a shell are answered, and none names the program of the machine."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return False
    calls = [index for index, word in enumerate(words) if word.rpartition("/")[2] == "nvidia-smi"]
    if not calls:
        return False
    for at in calls:
        end = next((index for index in range(at, len(words)) if set(words[index]) <= set("();<>|&")), len(words))
        # a number right before a redirection is a descriptor
        given = words[at + 1 : end - (end < len(words) and words[end - 1].isdigit())]
        if words[at] != "nvidia-smi" or parse(given) is None:
            return False
    return True


def answer(query: Query, gpus: Sequence[FakeGpu]) -> tuple[list[str], int]:
    """Return the lines of an answer, and the exit status."""
    chosen = [gpu for gpu in gpus if not query.gpus or {str(gpu.number), gpu.uuid, gpu.bus_id}.intersection(query.gpus)]
    if not chosen:
        return ["No devices were found"], 6
    if query.kind == "list":
        return [f"GPU {gpu.number}: {gpu.name} (UUID: {gpu.uuid})" for gpu in chosen], 0
    if query.kind == "table":
        return list(_table(chosen)), 0
    plain = "nounits" in query.shape
    lines = [] if "noheader" in query.shape else [", ".join(_title(field) for field in query.fields)]
    if query.kind == "gpu":
        for gpu in chosen:
            values = [gpu.value(field) for field in query.fields]
            lines.append(", ".join(_without_unit(value) if plain else value for value in values))
    return lines, 0


def _title(field: str) -> str:
    """``memory.total [MiB]``, whether or not the rows have the unit."""
    unit = "MiB" if field.startswith("memory.") or field.endswith("_memory") else _unit(_IDLE.get(field, ""))
    return f"{field} [{unit}]" if unit else field


def _unit(value: str) -> str:
    number, _, unit = value.rpartition(" ")
    return unit if number and unit in _UNITS else ""


def _without_unit(value: str) -> str:
    return value.rpartition(" ")[0] if _unit(value) else value


def _table(gpus: Sequence[FakeGpu]) -> list[str]:
    edge = "+" + "-" * 78 + "+"
    rows = [edge, f"| NVIDIA-SMI {_DRIVER}    Driver Version: {_DRIVER}    CUDA Version: {_CUDA}".ljust(79) + "|", edge]
    for gpu in gpus:
        rows.append(f"| {gpu.number:3}  {gpu.name}   {gpu.bus_id}".ljust(79) + "|")
        rows.append(f"| N/A   30C    P0     70W / 700W |      0MiB / {gpu.memory_mib}MiB |      0%".ljust(79) + "|")
    return [*rows, edge]


def main(arguments: Sequence[str]) -> int:
    """Answer one call: the number of GPUs, their memory, capability and name, and then its words."""
    count, memory_gib, capability, name = arguments[0].split(":", 3)
    query = parse(arguments[1:])
    if query is None:
        sys.stderr.write(f"nvidia-smi: a rehearsal has no answer to: {' '.join(arguments[1:])}\n")
        return 1
    gpus = [FakeGpu(index, int(count), int(memory_gib) * 1024, capability, name) for index in range(int(count))]
    lines, status = answer(query, gpus)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
