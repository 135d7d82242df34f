"""Options of a launcher that stand after the script: the script gets them, and the launcher its defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence

from distcheck.core.patterns import lazy

from .model import LaunchCommand

_TORCHRUN_LAUNCHERS = frozenset({"torchrun", "torch.distributed.launch"})
#: Options of torchrun that scripts may have as well; they are moved together with a misplaced one.
_ALSO_TORCHRUN = lazy(r"--(?:node[-_]rank|master[-_](?:addr|port)|max[-_]restarts)(?:=.*)?", re.DOTALL)
#: Options of accelerate launch that no script has.
_ACCELERATE_ONLY = lazy(
    r"--(?:num[-_](?:machines|processes)|machine[-_]rank|main[-_]process[-_](?:ip|port)|multi[-_]gpu)(?:=.*)?",
    re.DOTALL,
)
_ACCELERATE_TOO = lazy(r"--config[-_]file(?:=.*)?", re.DOTALL)
_FLAGS = frozenset({"--standalone", "--multi_gpu", "--multi-gpu"})
#: The field of a command for each option that the launcher was given before the script.
_FIELDS = {
    "node_rank": "node_rank",
    "master_addr": "master_addr",
    "master_port": "master_port",
    "max_restarts": "max_restarts",
    "num_processes": "processes",
    "num_machines": "nnodes_min",
    "machine_rank": "node_rank",
    "main_process_ip": "master_addr",
    "main_process_port": "master_port",
    "config_file": "config_file",
}


def misplaced_options(command: LaunchCommand, arguments: Sequence[str]) -> list[list[int]]:
    """Return the indices of the words after the script that the launcher should get: each option with its value.

    :param arguments: the words after the script, as they are written
    """
    if command.launcher in _TORCHRUN_LAUNCHERS:
        problems = [problem.word for problem in command.problems if problem.kind == "misplaced-option"]
        surely, perhaps = re.compile("|".join(map(re.escape, problems)) or r"(?!)"), _ALSO_TORCHRUN
    elif command.launcher == "accelerate":
        surely, perhaps = _ACCELERATE_ONLY, _ACCELERATE_TOO
    else:
        return []
    found: list[list[int]] = []
    index = 0
    while index < len(arguments):
        text = arguments[index]
        if text == "--":
            break
        field = _FIELDS.get(text.partition("=")[0].lstrip("-").replace("-", "_"))
        # if the launcher has the option as well, the script has one of the same name
        given = field is not None and (getattr(command, field) is not None or field in command.unknown)
        if not given and (surely.fullmatch(text) or perhaps.fullmatch(text)):
            group = [index]
            alone = "=" not in text and text not in _FLAGS
            if alone and index + 1 < len(arguments) and not arguments[index + 1].startswith("--"):
                group.append(index + 1)
            found.append(group)
            index += len(group)
        else:
            index += 1
    sure = any(surely.fullmatch(arguments[group[0]]) for group in found)
    return found if sure else []
