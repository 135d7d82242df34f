"""Configuration files of launchers: accelerate's YAML, DeepSpeed's JSON, and hostfiles.

The readers return the contents with locations, and :mod:`.configurations` checks them. These files include no other
file, so ``look_up`` is not used. No reader raises.
"""

from __future__ import annotations

from distcheck.core.patterns import lazy

from .fragments import Fragment
from .json_text import read_json
from .model import Configured, HostSlots, LaunchFile, LookUp, Scalar
from .yaml_text import Node, read_yaml

#: Keys of accelerate that the rules use. Where a template may set one, it is unknown, not absent.
_ACCELERATE_NAMES = (
    "compute_environment", "distributed_type", "num_machines", "num_processes", "machine_rank", "main_process_ip",
    "main_process_port", "gpu_ids", "use_cpu", "same_network", "rdzv_backend", "deepspeed_config",
    "deepspeed_config.deepspeed_config_file", "deepspeed_config.deepspeed_hostfile",
    "deepspeed_config.deepspeed_multinode_launcher",
)  # fmt: skip
#: Limit of values in a configuration of accelerate; a real one has about forty.
_MAX_VALUES = 2000
#: The name for DeepSpeed keys that occur more than once, as one text with commas. DeepSpeed refuses such a file.
REPEATED = "repeated keys"
#: Limit of hosts; the largest machines have about ten thousand.
_MAX_HOSTS = 100_000
#: DeepSpeed and Open MPI write ``host slots=8``, MPICH ``host:8``; the number may be missing.
_HOST_LINE = lazy(
    r"(?P<host>\[[0-9A-Fa-f:]+\]|[^\s#:=]+)"
    r"(?:\s*:\s*(?P<colon>[0-9]{1,9})|[^#\n]*?\s(?i:slots|cpu|count)\s*=\s*(?P<slots>[0-9]{1,9})(?![0-9]))?"
)


def read_accelerate(path: str, text: str, look_up: LookUp | None = None) -> LaunchFile:
    """Return the values of a configuration of ``accelerate launch``; accelerate reads the first document only."""
    got = read_yaml(Fragment(text, path))
    configurations = []
    if got.documents and got.documents[0].kind == "table":
        root = got.documents[0]
        values: dict[str, Scalar] = {}
        _enter(root, "", values)
        for name in _ACCELERATE_NAMES:
            node = root.get(*name.split("."))
            if node is not None and node.open_ended:
                values.setdefault(name, Scalar(None, node.span, known=False))
        configurations.append(Configured("accelerate", root.span, values))
    return LaunchFile(
        path, "accelerate", configurations=tuple(configurations), comments=got.comments, problems=got.problems
    )


def _enter(node: Node, prefix: str, values: dict[str, Scalar]) -> None:
    for key, inner in node.table.items():
        if len(values) >= _MAX_VALUES:
            return
        name = f"{prefix}{key}"
        if inner.kind == "value":
            values[name] = inner.scalar
        else:
            values[name] = Scalar(inner.plain(1000), inner.span, known=not inner.open_ended)
            if inner.kind == "table" and prefix.count(".") < 4:
                _enter(inner, f"{name}.", values)


def read_deepspeed(path: str, text: str, look_up: LookUp | None = None) -> LaunchFile:
    """Return the values of a configuration of DeepSpeed."""
    fragment = Fragment(text, path)
    got = read_json(fragment)
    values = dict(got.values)
    for name, span in got.repeated:
        before = values.get(REPEATED)
        shown = name if before is None else f"{before.value}, {name}"
        values[REPEATED] = Scalar(shown, span if before is None else before.span)
    configured = Configured("deepspeed", fragment.span(0, len(text)), values)
    return LaunchFile(
        path,
        "deepspeed",
        configurations=(configured,) if values else (),
        comments=got.comments,
        problems=got.problems,
    )


def read_hostfile(path: str, text: str, look_up: LookUp | None = None) -> LaunchFile:
    """Return the hosts of a hostfile, each with its number of processes (slots)."""
    fragment = Fragment(text, path)
    hosts: list[HostSlots] = []
    comments: list[tuple[int, str]] = []
    position = 0
    for line in text.split("\n"):
        content, sign, comment = line.partition("#")
        if sign:
            comments.append((fragment.location(position + len(content))[0], sign + comment.rstrip("\r")))
        start = len(content) - len(content.lstrip())
        match = _HOST_LINE.match(content, start)
        if match and len(hosts) < _MAX_HOSTS:
            number = match["slots"] or match["colon"]
            span = fragment.span(position + start, position + len(content.rstrip()))
            hosts.append(HostSlots(match["host"], int(number) if number else None, span))
        position += len(line) + 1
    return LaunchFile(path, "hostfile", hosts=tuple(hosts), comments=tuple(comments))
