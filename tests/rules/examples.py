"""The examples of the rule pages: the blocks below *Bad* and *Good*, and what each of them says when it is carried out.

A Python block becomes a script, a block of shell a job script, one of a manifest a manifest. What a shell session shows
(``export``, ``$ cat FILE`` and what it printed, ``ls`` and what it did not find, the command) becomes the machine and
the launch that ``distcheck env`` is asked about.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import json
import re
import shlex
import string
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.rule_page import read_page

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE_SHOWN = re.compile(r"# ([/~][\w./-]+)")
#: Programs that stand in front of what they start.
_AROUND = ("docker", "podman", "wsl", "taskset")
_STARTS = ("torchrun", "python", "srun", "mpirun")
_HOME = "/home/ada"
#: Imports for the names that scripts of the field have in common.
_IMPORTS = {
    "argparse": "import argparse",
    "dcp": "import torch.distributed.checkpoint as dcp",
    "dist": "import torch.distributed as dist",
    "itertools": "import itertools",
    "json": "import json",
    "mp": "import torch.multiprocessing as mp",
    "nn": "import torch.nn as nn",
    "np": "import numpy as np",
    "os": "import os",
    "sys": "import sys",
    "threading": "import threading",
    "datetime": "from datetime import datetime",
    "timedelta": "from datetime import timedelta",
    "torch": "import torch",
    "torchvision": "import torchvision",
    "wandb": "import wandb",
    "Accelerator": "from accelerate import Accelerator",
    "DataLoader": "from torch.utils.data import DataLoader",
    "Dataset": "from torch.utils.data import Dataset",
    "DDP": "from torch.nn.parallel import DistributedDataParallel as DDP",
    "DistributedDataParallel": "from torch.nn.parallel import DistributedDataParallel",
    "DistributedSampler": "from torch.utils.data import DistributedSampler",
    "FSDP": "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP",
    "IterableDataset": "from torch.utils.data import IterableDataset",
    "Path": "from pathlib import Path",
    "ShardedGradScaler": "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler",
    "Subset": "from torch.utils.data import Subset",
    "TensorDataset": "from torch.utils.data import TensorDataset",
    "SummaryWriter": "from torch.utils.tensorboard import SummaryWriter",
    "defaultdict": "from collections import defaultdict",
    "fully_shard": "from torch.distributed.fsdp import fully_shard",
    "load_dataset": "from datasets import load_dataset",
    "random_split": "from torch.utils.data import random_split",
    "snapshot_download": "from huggingface_hub import snapshot_download",
}
#: What such names hold in the middle of a training script.
_HELD = {
    "local_rank": 'local_rank = int(os.environ["LOCAL_RANK"])',
    "rank": "rank = dist.get_rank()",
    "world_size": "world_size = dist.get_world_size()",
    "net": "net = nn.Linear(2, 2)",
    "model": "model = DDP(nn.Linear(2, 2).cuda())",
    "ddp": "ddp = DDP(nn.Linear(2, 2).cuda())",
    "ddp_model": "ddp_model = DDP(nn.Linear(2, 2).cuda())",
    "fsdp_model": "fsdp_model = FSDP(nn.Linear(2, 2).cuda())",
    "loader": "loader = DataLoader(data, sampler=DistributedSampler(data))",
}


class Script(NamedTuple):
    """What stands around a block of Python."""

    before: str = ""
    after: str = ""
    #: it stands in a script that has made its process group
    setup: bool = True
    #: it stands in ``main()``, behind a main guard
    guarded: bool = False
    #: other files of the project
    beside: Mapping[str, str] = {}
    #: what the block itself is called
    name: str = "train.py"


class Block(NamedTuple):
    """A fenced block."""

    language: str
    text: str


class Example(NamedTuple):
    """What a page shows in one of its two sections."""

    code: str
    #: ``Bad`` or ``Good``
    section: str
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """``DC701-bad``: the id of its test."""
        return f"{self.code}-{self.section.lower()}"

    @property
    def text(self) -> str:
        """All blocks."""
        return "".join(block.text for block in self.blocks)


def examples(code: str) -> tuple[Example, Example]:
    """The bad and the good example of a page."""
    page = read_page(code)
    assert page is not None
    bad, good = (
        Example(code, name, tuple(Block(*found) for found in _BLOCK.findall(text)))
        for name, text in zip(
            ("Bad", "Good"),
            re.split(r"^### (?:Bad|Good)\n", page.sections["Example"], flags=re.MULTILINE)[1:],
            strict=True,
        )
    )
    return bad, good


def codes() -> list[str]:
    """The rules that have a page."""
    return [rule.code for rule in rules.ALL if read_page(rule.code) is not None]


# scripts


def script(text: str, around: Script = Script()) -> str:
    """A block as a script: with the imports that its names need, and as if a process group and a model were there."""
    try:
        ast.parse(text)
    except SyntaxError:
        return text
    whole = around.before + text + around.after
    lines = []
    # a block that makes its group itself does not stand behind one
    if around.setup and not any(word in whole for word in ("init_process_group", "Accelerator(", "spawn(")):
        lines.append('dist.init_process_group("nccl")')
        if "set_device" not in text:
            lines.append('torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))')
    unknown = _free_names(whole)
    if around.setup:
        lines += [line for name, line in _HELD.items() if name in unknown]
    body = "".join(f"{line}\n" for line in lines) + whole
    imports = "".join(f"{line}\n" for name, line in _IMPORTS.items() if name in _free_names(body))
    if around.guarded:
        body = f"def main():\n{textwrap.indent(body, '    ')}\n\nif __name__ == '__main__':\n    main()\n"
    return imports + body


def _free_names(text: str) -> set[str]:
    """The names that a script takes from elsewhere."""
    tree = ast.parse(text)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return {node.id for node in names} - bound - set(dir(builtins))


# sessions


def session(text: str) -> dict[str, Any]:
    """What a shell session says of the machine and the launch, in the words of ``tests/hosts/*/cases.json``."""
    lines = text.replace("\\\n", " ").splitlines()
    shown = _FILE_SHOWN.match(lines[0])
    if shown is not None and not any(line.split()[:1] and line.split()[0] in _STARTS for line in lines):
        return {"files": {shown[1].replace("~", _HOME): "\n".join(lines[1:]) + "\n"}}
    made = _Session()
    has_prompt = any(line.startswith("$ ") for line in lines)
    for line in lines:
        if line.startswith("$ ") or not has_prompt:
            made.command(line.removeprefix("$ "))
        else:
            made.output(line)
    return {name: value for name, value in made.case.items() if value}


class _Session:
    def __init__(self) -> None:
        self.case: dict[str, Any] = {
            "environ": {}, "files": {}, "without": [], "world": {}, "facts": {}, "command": None,
        }  # fmt: skip
        self._last: list[str] = []

    def command(self, line: str) -> None:
        environ = self.case["environ"]
        if line.startswith("command: "):  # of a manifest
            self.case["command"] = json.loads(line.removeprefix("command: ").partition("#")[0])
            return
        words = self._last = shlex.split(line, comments=True)
        if words[:1] in (["export"], ["unset"]):
            for word in words[1:]:
                name, equals, value = word.partition("=")
                environ[name] = string.Template(value).safe_substitute(environ) if equals else None
            return
        if words[:2] == ["ulimit", "-n"]:
            self.case["world"] = {"limits": {"nofile": [int(words[2])] * 2}}
        own = {}
        while words and re.fullmatch(r"\w+=.*", words[0], re.DOTALL):
            name, _, value = words.pop(0).partition("=")
            own[name] = value
        if "distcheck" in words and "--" in words:
            words = words[words.index("--") + 1 :]
        if words[:1] and words[0] in _AROUND:
            given = (word.partition("=") for option, word in itertools.pairwise(words) if option == "-e")
            environ.update({name: value for name, _, value in given})
            words = words[next((place for place, word in enumerate(words) if word in _STARTS), 0) :]
        if words[:1] and words[0] in _STARTS and "-c" not in words[1:2]:
            environ.update(own)
            self.case["command"] = [word for word in words if word != "&"]

    def output(self, line: str) -> None:
        if "torch.__version__" in " ".join(self._last):
            self.case["facts"] = {"Software": {"python": "3.13.1", "torch": line.strip()}}
        if self._last[:1] == ["cat"]:
            files = self.case["files"]
            files[self._last[-1]] = files.get(self._last[-1], "") + line + "\n"
        elif self._last[:1] == ["ls"] and "No such file" in line:
            self.case["without"].append(self._last[-1])
        elif self._last[:1] == ["ls"]:
            self.case["files"][f"{self._last[-1].rstrip('/')}/{line.strip()}"] = ""
