"""Configurations of ``accelerate launch`` in YAML: what they say, with places; :mod:`.configurations` judges them."""

from __future__ import annotations

from .fragments import Fragment
from .model import Configured, LaunchFile, LookUp, Scalar
from .yaml_text import Node, read_yaml

#: Names that the rules ask for: where a template may have put one there, it is unknown, and not absent.
NAMES = (
    "compute_environment", "distributed_type", "num_machines", "num_processes", "machine_rank", "main_process_ip",
    "main_process_port", "gpu_ids", "use_cpu", "same_network", "rdzv_backend", "deepspeed_config",
    "deepspeed_config.deepspeed_config_file", "deepspeed_config.deepspeed_hostfile",
    "deepspeed_config.deepspeed_multinode_launcher",
)  # fmt: skip
#: Values that are entered at most; a configuration has about forty.
_MOST = 2000


def read_accelerate(path: str, text: str, look_up: LookUp | None = None) -> LaunchFile:
    """Everything that a configuration says. Never raises.

    accelerate reads one document, and refuses a file with several.

    :param look_up: not asked: what a configuration names is looked for among the files of the run
    """
    fragment = Fragment(text, path)
    got = read_yaml(fragment)
    configurations = []
    if got.documents and got.documents[0].root.kind == "table":
        root = got.documents[0].root
        values: dict[str, Scalar] = {}
        _enter(root, "", values)
        for name in NAMES:
            node = root.get(*name.split("."))
            if node is not None and node.open_ended:
                values.setdefault(name, Scalar(None, node.span, known=False))
        configurations.append(Configured("accelerate", root.span, values))
    return LaunchFile(
        path, "accelerate", configurations=tuple(configurations), comments=got.comments, problems=got.problems
    )


def _enter(node: Node, prefix: str, values: dict[str, Scalar]) -> None:
    for key, inner in node.table.items():
        if len(values) >= _MOST:
            return
        name = f"{prefix}{key}"
        if inner.kind == "value":
            values[name] = inner.scalar
        else:
            values[name] = Scalar(inner.plain(1000), inner.span, known=not inner.open_ended)
            if inner.kind == "table" and prefix.count(".") < 4:
                _enter(inner, f"{name}.", values)
