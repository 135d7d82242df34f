"""``distcheck lint`` on code that nothing of a project runs: it gives notes that show why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .test_lint import report_of
from .test_lint_launch_files import jobs

MAIN = """\
import torch.distributed as dist

import helpers


def main():
    dist.init_process_group("nccl")
    helpers.setup()
    {use}


if __name__ == "__main__":
    main()
"""
#: All ranks sum a tensor on the CPU, with a group of NCCL.
HELPERS = '''\
import torch
import torch.distributed as dist


def setup():
    """Set up what total() and outer() need."""


{decorator}
def total(value):
    tensor = torch.tensor([1.0, 2.0])
    dist.all_reduce(tensor)
    return tensor * value


def outer(value):
    return total(value)
'''
CLASS = '''\
import torch
import torch.distributed as dist


def setup():
    """Set up."""


class Counter{bases}:
    def {name}(self, value):
        tensor = torch.tensor([1.0, 2.0])
        dist.all_reduce(tensor)
        return tensor * value
'''
#: A function of the same name as one in helpers.py.
OTHER = """\
import torch.distributed as dist

import helpers


def outer():
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    helpers.setup()
    outer()
"""
LAUNCH = "```bash\ntorchrun --nproc-per-node=8 train.py\n```\n"


def judged(folder: Path, name: str = "helpers.py") -> tuple[str, str]:
    """The level and the message of DC714 about a file; the rule is named, so that it is at its own level."""
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC714", cwd=folder)["findings"]
    one = next(one for one in found if one["where"]["path"].endswith(name))
    assert "unreached" not in one["evidence"]
    return one["severity"], one["message"]


def helpers(decorator: str = "") -> str:
    return HELPERS.format(decorator=decorator).replace("\n\n\n\ndef", "\n\n\ndef")


@pytest.mark.parametrize(
    ("use", "more"),
    [
        ("helpers.total(1)", {}),
        ("helpers.outer(1)", {}),
        ("run = [helpers.outer]", {}),
        ("from helpers import outer as summed\n    summed(1)", {}),
        ("getattr(helpers, 'out' + 'er')(1)", {}),
        ("pass", {"other_py": "import helpers\n\nif __name__ == '__main__':\n    helpers.outer(1)\n"}),
        ("pass", {"conf_yaml": "_target_: helpers.outer\n"}),
        ("pass", {"more_py": "import helpers\n\nTABLE = {'sum': 'outer'}\n"}),
        # a file that this Python can't read
        ("pass", {"other_py": "import torch.distributed\nimport helpers\n\nhelpers.outer(1)\nprint 'done'\n"}),
        # a file that the linter puts aside
        ("import plain\n    plain.go()", {"plain_py": "import helpers\n\n\ndef go():\n    helpers.outer(1)\n"}),
    ],
)
def test_what_a_script_may_run_keeps_its_level(tmp_path: Path, use: str, more: dict[str, str]) -> None:
    jobs(tmp_path, train_py=MAIN.format(use=use), helpers_py=helpers(), **more)
    assert judged(tmp_path)[0] == "error"


@pytest.mark.parametrize(
    ("use", "more"),
    [
        ("pass", {}),
        ("pass  # helpers.outer(1)", {}),
        ("from helpers import outer", {}),
        ("pass", {"tests__test_helpers_py": "import helpers\n\n\ndef test_outer():\n    helpers.outer(1)\n"}),
        # another function of that name
        ("pass", {"other_py": OTHER}),
        # its only user runs nowhere
        ("pass", {"more_py": "import helpers\n\n\ndef inner():\n    return helpers.outer(1)\n"}),
    ],
)
def test_what_nothing_that_runs_names_is_a_note(tmp_path: Path, use: str, more: dict[str, str]) -> None:
    jobs(tmp_path, train_py=MAIN.format(use=use), helpers_py=helpers(), **more)
    level, message = judged(tmp_path)
    assert level == "info"
    assert message.endswith("no documented launch reaches total(): nothing that runs names it")


def test_a_decorator_may_register_a_function(tmp_path: Path) -> None:
    registered = jobs(tmp_path / "a", train_py=MAIN.format(use="pass"), helpers_py=helpers("@TASKS.register"))
    assert judged(registered)[0] == "error"
    plain = jobs(tmp_path / "b", train_py=MAIN.format(use="pass"), helpers_py=helpers("@torch.no_grad()"))
    assert judged(plain)[0] == "info"


@pytest.mark.parametrize(
    ("bases", "name", "use", "level"),
    [
        ("", "total", "helpers.Counter().total(1)", "error"),
        ("", "total", "helpers.Counter()", "info"),
        ("", "__call__", "helpers.Counter()(1)", "error"),
        ("", "__call__", "pass", "info"),
        ("(torch.nn.Module)", "forward", "helpers.Counter()", "error"),
        ("(torch.utils.data.Dataset)", "total", "helpers.Counter()", "error"),
        # no code makes an object, or a word of a text is no use of a method
        ("(torch.utils.data.Dataset)", "total", "pass", "info"),
        ("(torch.utils.data.Dataset)", "total", "table = ['Counter']", "error"),
        ("", "total", "helpers.Counter()\n    print('the total is 1')", "info"),
        ("", "total", "print(getattr(helpers.Counter(), 'total'))", "error"),
        ("", "total", "print(helpers.Counter().\\\n        total(1))", "error"),
    ],
)
def test_methods(tmp_path: Path, bases: str, name: str, use: str, level: str) -> None:
    jobs(tmp_path, train_py=MAIN.format(use=use), helpers_py=CLASS.format(bases=bases, name=name))
    assert judged(tmp_path)[0] == level


@pytest.mark.parametrize(("use", "level"), [("pass", "info"), ("helpers.Counter().total(1)", "error")])
def test_a_name_in_all_is_passed_on_and_not_used(tmp_path: Path, use: str, level: str) -> None:
    text = CLASS.format(bases="", name="total").replace("def setup", '__all__ = ["Counter", "setup"]\n\n\ndef setup')
    jobs(tmp_path, train_py=MAIN.format(use=use), helpers_py=text)
    assert judged(tmp_path)[0] == level


@pytest.mark.parametrize(
    ("more", "level"),
    [
        ({}, "error"),
        ({"README_md": "Call total() of kit.helpers.\n"}, "error"),
        ({"README_md": LAUNCH}, "info"),
        ({"run_sh": "#!/bin/bash\ntorchrun --nproc-per-node=8 train.py\n"}, "info"),
    ],
)
def test_users_may_call_what_a_package_offers(tmp_path: Path, more: dict[str, str], level: str) -> None:
    jobs(
        tmp_path,
        setup_py="from setuptools import setup\n\nsetup(name='kit')\n",
        train_py=MAIN.format(use="pass").replace("import helpers", "from kit import helpers"),
        kit__helpers_py=helpers(),
        **more,
    )
    (tmp_path / "kit" / "__init__.py").touch()
    assert judged(tmp_path)[0] == level


def test_a_part_of_a_project_shows_nothing(tmp_path: Path) -> None:
    folder = jobs(tmp_path, train_py=MAIN.format(use="pass"), helpers_py=helpers())
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC714", "train.py", "helpers.py", cwd=folder)
    assert [one["severity"] for one in found["findings"] if one["where"]["path"] == "helpers.py"] == ["error"]


#: A cell with a function that only an outer one calls.
CELL = """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def total(value):
    tensor = torch.tensor([1.0, 2.0])
    dist.all_reduce(tensor)
    return tensor * value


def outer(rank):
    dist.init_process_group("nccl", rank=rank, world_size=2)
    return total(1.0)
"""


def notebook(*cells: str) -> str:
    plain = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"cells": plain, "nbformat": 4, "metadata": {}})


@pytest.mark.parametrize(
    ("last", "level"),
    [
        ("mp.spawn(outer, nprocs=2)", "error"),
        ("%time outer(0)", "error"),
        ("%%timeit\nouter(0)", "error"),
        ("getattr(torch, 'outer')(0)", "error"),
        ("run = {'name': 'outer'}", "error"),
        ("def more():\n    outer(0)\n\n\nmore()", "error"),
        ("#| export\nprint('done')", "error"),
        ("# mp.spawn(outer, nprocs=2)\n!python train.py", "info"),
        ("print('done')", "info"),
        ("def more():\n    outer(0)", "info"),
    ],
)
def test_a_cell_that_runs_uses_a_function_of_a_notebook(tmp_path: Path, last: str, level: str) -> None:
    jobs(tmp_path, first_ipynb=notebook("print(1)\n" * 30, CELL, last))
    assert judged(tmp_path, "first.ipynb")[0] == level


def test_another_notebook_may_run_a_notebook(tmp_path: Path) -> None:
    jobs(tmp_path, first_ipynb=notebook(CELL), second_ipynb=notebook("%run ./first\nouter(0)"))
    assert judged(tmp_path, "first.ipynb")[0] == "error"


#: A function that trains, another that calls it, and what the script itself does.
CHAIN = """\
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    model = DDP(torch.nn.Linear(5, 5).cuda(rank), device_ids=[rank])
    model(torch.zeros(1, 5, device=rank)).sum().backward()
    torch.save(model.module.state_dict(), "net.pth")
    dist.destroy_process_group()


def run(rank, size):
    # train() of one rank
    train(rank, size)


if __name__ == "__main__":
    START
"""


@pytest.mark.parametrize(
    ("start", "level"),
    [
        ("print(os.environ)", "info"),
        ('run(int(os.environ["LOCAL_RANK"]), 8)', "warning"),
        ('{"run": run}["run"](int(os.environ["LOCAL_RANK"]), 8)', "warning"),
        ("globals()[os.environ['MODE']](0, 8)", "warning"),
    ],
)
def test_a_chain_of_functions_that_a_script_does_not_start(tmp_path: Path, start: str, level: str) -> None:
    folder = jobs(tmp_path, train_py=CHAIN.replace("START", start))
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC720", cwd=folder)["findings"]
    assert [one["severity"] for one in found] == [level]


@pytest.mark.parametrize(
    ("path", "own", "level"),
    [
        ("build/lib/kit/helpers.py", "src/kit/helpers.py", "info"),
        ("build/lib/kit/helpers.py", "src/kit/others.py", "error"),
        ("builder/lib/kit/helpers.py", "src/kit/helpers.py", "error"),
    ],
)
def test_the_copy_that_a_build_has_made_is_a_note(tmp_path: Path, path: str, own: str, level: str) -> None:
    text = helpers().replace('"""Set up what total() and outer() need."""', 'dist.init_process_group("nccl")')
    text += '\n\nif __name__ == "__main__":\n    setup()\n    outer(1)\n'
    for name in (path, own):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert judged(tmp_path, path)[0] == level
