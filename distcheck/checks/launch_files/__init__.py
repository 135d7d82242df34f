"""Launch files: shell and Slurm scripts, manifests of Kubernetes, configurations of launchers; read, never run.

Importing this package imports nothing of it: most trees hold files that may be launch files, and are none. A checker
that is given this room asks for its probes.
"""

from __future__ import annotations

import importlib
import pkgutil

#: Readers and values; every other module of the package is a room of probes.
_READERS = frozenset(
    [
        "accelerate_config",
        "context",
        "plain_commands",
        "containers",
        "counts",
        "deepspeed_config",
        "dockerfile",
        "engine",
        "files",
        "fragments",
        "hostfiles",
        "json_text",
        "kubernetes",
        "makefile",
        "markdown",
        "model",
        "nodes",
        "paths",
        "scripts",
        "shell",
        "shell_assignments",
        "shell_builtins",
        "shell_commands",
        "shell_expressions",
        "shell_flow",
        "shell_grammar",
        "shell_state",
        "shell_tests",
        "shell_words",
        "slurm",
        "training_signs",
        "workflow",
        "workloads",
        "yaml_text",
    ]
)


def load_probes() -> None:
    """Import the modules that register probes: :class:`distcheck.core.checker.Checker` does so for its rooms."""
    for module in pkgutil.iter_modules(__path__):
        if module.name not in _READERS:
            importlib.import_module(f"{__name__}.{module.name}")
