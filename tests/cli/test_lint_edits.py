"""After each of hundreds of random edits of a project, a run with the cache reports what one without it reports."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .test_lint_verdicts import FILES, OLD, Tree
from .test_lint_verdicts import tree as tree  # a fixture

CASES = Path(__file__).resolve().parents[1]

HELPERS = """\
import os
import torch
import torch.distributed as dist


def rank(default=0):
    return int(os.environ.get("RANK", default))


def is_main(strict=True):
    return rank() == 0


def save(model, path="model.pt"):
    torch.save(model.state_dict(), path)
    dist.barrier()


class Meter:
    def __init__(self, group=None):
        self.group = group

    def sync(self, value, average=True):
        dist.all_reduce(value, group=self.group)
        return value
"""
TRAIN = """\
import argparse
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from utils.helpers import Meter, is_main, rank, save


def train(args, epochs=3):
    dist.init_process_group("nccl")
    torch.cuda.set_device(args.local_rank)
    model = DDP(torch.nn.Linear(2, 2).cuda())
    meter = Meter()
    for epoch in range(epochs):
        if is_main():
            save(model)
        meter.sync(torch.ones(1).cuda())
    if rank() > 0:
        return
    dist.barrier()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    train(parser.parse_args())
"""
LAUNCH = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
source env.sh
torchrun --nnodes 4 --nproc_per_node 8 train.py --local_rank 0
"""
SYNTHETIC = {
    "pyproject.toml": "[project]\nname = 'x'\n",
    "train.py": TRAIN,
    "evaluate.py": TRAIN.replace("def train", "def evaluate").replace("    train(", "    evaluate("),
    "utils/__init__.py": "from .helpers import *\n",
    "utils/helpers.py": HELPERS,
    "utils/unused.py": "import torch\n\n\ndef helper(x):\n    return x.cuda()\n",
    "job.sbatch": LAUNCH,
    "env.sh": "export NCCL_DEBUG=INFO\n",
    "README.md": "Run it:\n\n```sh\ntorchrun --nproc_per_node 8 train.py\n```\n",
}


def joined_cases(pattern: str, start: int, count: int) -> dict[str, str]:
    """Return some cases of the rules as one project."""
    files: dict[str, str] = {"setup.py": ""}
    places = sorted(CASES.glob(pattern))
    for path in places[start :: max(1, len(places) // count)]:
        for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if one.is_file() and one.suffix != ".pyc":
                files[str(one.relative_to(path.parent.parent))] = one.read_text(errors="replace")
    return files


PROJECTS: dict[str, Callable[[], dict[str, str]]] = {
    "synthetic": lambda: dict(SYNTHETIC),
    "two projects": lambda: dict(FILES),
    "source cases": lambda: joined_cases("lint/DC7*/*.py", 3, 14),
    "launch cases": lambda: joined_cases("launch/DC*/bad_*", 5, 6),
}
#: Words that replace each other: constants, guards and names that decide findings.
_WORDS = [
    "True", "False", "None", "0", "1", "-1", "8", "rank", "local_rank", "world_size", "is_main()", "RANK", "LOCAL_RANK",
    "nccl", "gloo", "all_reduce", "barrier", "broadcast", "--nnodes", "--nproc_per_node", "train.py",
]  # fmt: skip
_LINES = [
    "", "# a comment", "import torch.distributed as dist", "from utils.helpers import rank", "x = 1", "import os",
    "if dist.get_rank() == 0: dist.barrier()", "torch.cuda.set_device(rank)", "export NCCL_DEBUG=WARN", "def f(rank=0):",
]  # fmt: skip


class Editor:
    """Edits the files of a tree at random."""

    def __init__(self, tree: Tree, files: dict[str, str], seed: int) -> None:
        self.tree = tree
        self.files = files
        self.random = random.Random(seed)
        self.deleted: dict[str, str] = {}
        self.time = OLD
        for name, text in files.items():
            tree.write(name, text)

    def edit(self) -> str:
        """Make one edit, and return what it was."""
        self.time += 1
        how = self.random.choice([self.word, self.word, self.rename, self.add_line, self.drop_line, self.file])
        name = self.random.choice(sorted(self.files))
        return f"{how.__name__} {name}: {how(name)}"

    def _write(self, name: str, text: str) -> None:
        self.files[name] = text
        self.tree.write(name, text, at=self.time)

    def word(self, name: str) -> str:
        """Replace a word by another: a default, a guard, an option."""
        text = self.files[name]
        found = [word for word in _WORDS if word in text]
        if not found:
            return self.add_line(name)
        old, new = self.random.choice(found), self.random.choice(_WORDS)
        places = [match.start() for match in re.finditer(re.escape(old), text)]
        place = self.random.choice(places)
        self._write(name, text[:place] + new + text[place + len(old) :])
        return f"{old} → {new}"

    def rename(self, name: str) -> str:
        """Rename a function in one file only."""
        text = self.files[name]
        names = re.findall(r"^[ \t]*def (\w+)", text, re.MULTILINE)
        if not names:
            return self.add_line(name)
        old = self.random.choice(names)
        new = self.random.choice([*names, "renamed"])
        self._write(name, re.sub(rf"\b{old}\b", new, text))
        return f"{old} → {new}"

    def add_line(self, name: str) -> str:
        """Add a line: an import, a guard, a comment."""
        lines = self.files[name].split("\n")
        place, line = self.random.randrange(len(lines)), self.random.choice(_LINES)
        indent = re.match(r"[ \t]*", lines[place])
        lines.insert(place, (indent[0] if indent else "") + line)
        self._write(name, "\n".join(lines))
        return line

    def drop_line(self, name: str) -> str:
        """Drop a line: an import, an assignment."""
        lines = self.files[name].split("\n")
        line = lines.pop(self.random.randrange(len(lines)))
        self._write(name, "\n".join(lines))
        return line

    def file(self, name: str) -> str:
        """Delete a file, or bring one back."""
        if self.deleted and (len(self.deleted) > 2 or self.random.random() < 0.6):
            back = self.random.choice(sorted(self.deleted))
            self._write(back, self.deleted.pop(back))
            return f"{back} is back"
        if len(self.files) > 2:
            self.deleted[name] = self.files.pop(name)
            (self.tree.folder / name).unlink()
        return "deleted"


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("project", PROJECTS)
def test_edits_give_what_a_run_without_a_cache_gives(tree: Tree, project: str, seed: int) -> None:
    editor = Editor(tree, PROJECTS[project](), seed)
    assert tree.check("-v", "--preview")
    done = []
    for _ in range(20):
        done.append(editor.edit())
        cached = tree.run("-v", "--preview")
        assert tree.run("-v", "--preview", cached=False) == cached, done
