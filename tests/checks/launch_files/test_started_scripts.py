"""The launch line and its script, judged together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distcheck.checks.launch_files.model import Allocation, FileSetting, LaunchFile, LaunchFiles, Pods, Scalar
from distcheck.checks.launch_files.passed_local_rank import (
    launch_line_has_the_old_launcher,
    local_rank_is_passed_as_it_is_taken,
)
from distcheck.checks.launch_files.scripts import Started, find_started
from distcheck.checks.launch_files.started_scripts import (
    plain_python_starts_ranks,
    ranks_are_mixed_up_on_several_nodes,
    ranks_spawn_ranks,
)
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.spans import Span

from .sites import shell_file
from .test_scripts import program_of

Probe = Callable[[LaunchFiles, Started], Iterator[Finding]]

ENV = """\
import torch.distributed as dist

def main():
    dist.init_process_group("nccl")

if __name__ == "__main__":
    main()
"""
READS = """\
import os
import torch.distributed as dist

rank = int(os.environ["RANK"])
local_rank = int(os.environ["LOCAL_RANK"])
"""


def judged(probe: Probe, line: str | LaunchFile, *scripts: str, **fields: Any) -> list[Finding]:
    """What a probe says of a line that starts ``train.py``, the first of the scripts; the second is ``utils.py``."""
    names = ("train.py", "utils.py")
    program = program_of(dict(zip(names, scripts, strict=False)))
    file = line if isinstance(line, LaunchFile) else shell_file(line, **fields)
    launch_files = LaunchFiles((file,))
    return list(probe(launch_files, find_started(launch_files, program)))


def fixed(line: str, fix: Fix) -> str:
    """A line with the edits of a fix carried out."""
    for edit in sorted(fix.edits, key=lambda edit: -edit.column):
        assert (edit.line, edit.end_line) == (1, 1)
        line = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
    return line


# plain python


@pytest.mark.parametrize(
    "line", ["python train.py", "python3 -u train.py --lr 1", "nohup python train.py", "./train.py"]
)
@pytest.mark.parametrize("script", [ENV, READS, ENV.replace('"nccl"', '"nccl", init_method="env://"')])
def test_bad_dc802_plain_python_without_the_variables(line: str, script: str) -> None:
    (found,) = judged(plain_python_starts_ranks, line, script)
    assert found.severity is Severity.WARNING
    assert found.where.path == "run.sh"
    assert found.where.column == line.index("train.py") + 1 - 2 * line.startswith("./")
    assert "RANK" in found.message
    assert "torchrun --standalone --nproc-per-node=gpu" in found.fix.text


def test_bad_dc802_through_a_helper_of_another_file() -> None:
    script = "from utils import setup\nsetup()\n"
    helper = "import torch.distributed as dist\ndef setup():\n    dist.init_process_group('gloo')\n"
    (found,) = judged(plain_python_starts_ranks, "python train.py", script, helper)
    assert "utils.py:3" in found.message


def test_bad_dc802_srun_sets_none_of_torch_s_variables() -> None:
    (found,) = judged(plain_python_starts_ranks, "srun -n 8 python train.py", ENV)
    assert "srun python" in found.message
    assert "SLURM_PROCID" in found.fix.text


def test_bad_dc802_only_some_of_the_variables() -> None:
    (found,) = judged(plain_python_starts_ranks, "RANK=0 WORLD_SIZE=1 python train.py", ENV)
    assert found.evidence["missing"] == ["MASTER_ADDR", "MASTER_PORT"]


def test_dc802_the_command_that_it_writes() -> None:
    line = "python train.py --lr 1"
    (found,) = judged(plain_python_starts_ranks, line, ENV)
    assert not found.fix.safe
    assert fixed(line, found.fix) == "torchrun --standalone --nproc-per-node=gpu train.py --lr 1"
    (found,) = judged(plain_python_starts_ranks, "python -u train.py", ENV)
    assert not found.fix.edits
    (found,) = judged(plain_python_starts_ranks, line, ENV.replace("nccl", "gloo"))
    assert fixed(line, found.fix) == "torchrun --standalone --nproc-per-node=2 train.py --lr 1"
    assert "GPU" not in found.fix.text + str(found.fix.risk)


SPAWNS = """\
import os
import torch.distributed as dist
import torch.multiprocessing as mp

def worker(index, world):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29501"
    dist.init_process_group("nccl", rank=index, world_size=world)

if __name__ == "__main__":
    mp.spawn(worker, args=(8,), nprocs=8)
"""


@pytest.mark.parametrize(
    "script",
    [
        SPAWNS,
        # one process where nothing is set
        "import os\nimport torch.distributed as dist\nif 'RANK' in os.environ:\n    dist.init_process_group()\n",
        "import os\nimport torch.distributed as dist\nrank = int(os.environ.get('RANK', 0))\n",
        # on one way only
        "import argparse, torch.distributed as dist\nargs = argparse.ArgumentParser().parse_args()\n"
        "if args.distributed:\n    dist.init_process_group()\n",
        "import torch.distributed as dist\ntry:\n    dist.init_process_group()\nexcept ValueError:\n    pass\n",
        # it sets them itself
        "import os\nimport torch.distributed as dist\nfor name in ('RANK', 'WORLD_SIZE'):\n    os.environ.setdefault(name, '0')\n"
        "dist.init_process_group()\n",
        "import os\nimport torch.distributed as dist\nos.environ['MASTER_ADDR'] = 'localhost'\nos.environ['MASTER_PORT'] = '29501'\n"
        "dist.init_process_group('gloo', rank=0, world_size=1)\n",
        "import torch.distributed as dist\ndist.init_process_group('gloo', init_method='tcp://localhost:29501', rank=0, world_size=1)\n",
        "import torch.distributed as dist\ndist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n",
        # a framework does
        "import accelerate\nimport torch.distributed as dist\naccelerate.Accelerator()\ndist.init_process_group()\n",
        "import lightning as L\nimport os\nrank = os.environ['RANK']\n",
        # nobody calls it
        "import torch.distributed as dist\ndef main():\n    dist.init_process_group()\n",
    ],
)  # fmt: skip
def test_good_dc802_scripts_that_do_without(script: str) -> None:
    assert judged(plain_python_starts_ranks, "python train.py", script) == []


@pytest.mark.parametrize(
    "line",
    [
        "torchrun train.py",
        "accelerate launch train.py",
        "RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500 python train.py",
        "python train.py --rank $RANK",
        "python other.py",
        "python -m pytest train.py",
    ],
)
def test_good_dc802_lines_that_give_the_variables(line: str) -> None:
    assert judged(plain_python_starts_ranks, line, ENV) == []


def test_good_dc802_the_file_exports_them() -> None:
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert judged(plain_python_starts_ranks, "python train.py", ENV, settings=dict.fromkeys(names, "1")) == []


def test_bad_dc802_variables_that_stay_in_the_shell() -> None:
    span = Span("run.sh", 1, 1, 1, 1)
    own = {name: FileSetting(name, "1", span, span, reach="shell") for name in ("RANK", "WORLD_SIZE")}
    (found,) = judged(plain_python_starts_ranks, "python train.py", ENV, unexported=own)
    assert "RANK" in found.message


def test_good_dc802_an_operator_sets_them() -> None:
    pods = Pods("PyTorchJob", None, "Worker", Span("run.sh", 1, 1, 1, 1), injected=frozenset(
        {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    ))  # fmt: skip
    assert judged(plain_python_starts_ranks, "python train.py", ENV, pods=pods, kind="pod") == []
    (found,) = judged(plain_python_starts_ranks, "python train.py", READS, pods=pods, kind="pod")
    assert found.evidence["missing"] == ["LOCAL_RANK"]
    assert "--standalone" not in found.fix.text
    assert '--nnodes="$WORLD_SIZE"' in found.fix.text


def test_dc802_in_a_job_of_several_nodes_srun_starts_the_launcher() -> None:
    given = Allocation("slurm", nodes=Scalar(2, Span("run.sh", 1, 1, 1, 1)))
    (found,) = judged(plain_python_starts_ranks, "python train.py", ENV, allocation=given, job=given)
    assert "srun --ntasks=$SLURM_NNODES" in found.fix.text
    assert not found.fix.edits


def test_good_dc802_an_image_may_be_started_by_an_operator() -> None:
    assert judged(plain_python_starts_ranks, "python train.py", ENV, kind="dockerfile") == []


def test_good_dc802_a_launcher_starts_the_file_of_the_line() -> None:
    program = program_of({"train.py": ENV})
    inner = shell_file("python train.py", path="rank.sh")
    outer = shell_file("torchrun --no-python ./rank.sh", path="job.sh")
    files = LaunchFiles((outer, inner))
    assert list(plain_python_starts_ranks(files, find_started(files, program))) == []
    alone = LaunchFiles((inner,))
    assert len(list(plain_python_starts_ranks(alone, find_started(alone, program)))) == 1


# two launchers


def spawning(more: str = "", nprocs: str = "torch.cuda.device_count()", call: str = "init_process_group") -> str:
    return f"""\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def worker(index):
    dist.{call}("nccl", rank=index, world_size=8, init_method="tcp://localhost:29501")

if __name__ == "__main__":
    {more}mp.spawn(worker, nprocs={nprocs})
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("torchrun --nproc_per_node=8 train.py", "torchrun starts 8 processes"),
        ("torchrun --nproc_per_node=gpu train.py", "torchrun starts a process a GPU"),
        ("deepspeed train.py", "deepspeed starts a process a GPU"),
        ("accelerate launch --num_processes 4 train.py", "accelerate starts 4 processes"),
        ("python -m torch.distributed.launch --nproc_per_node 2 train.py", "torch.distributed.launch starts 2"),
        ("srun --ntasks-per-node=8 python train.py", "srun starts 8 processes"),
    ],
)
def test_bad_dc106_spawn_below_a_launcher(line: str, words: str) -> None:
    (found,) = judged(ranks_spawn_ranks, line, spawning())
    assert found.severity is Severity.ERROR
    assert words in found.message
    assert "train.py:9" in found.message
    assert (found.where.path, found.where.line) == ("run.sh", 1)


@pytest.mark.parametrize(
    "line",
    [
        "python train.py",
        "torchrun train.py",
        "torchrun --nproc_per_node=1 train.py",
        "torchrun --nproc_per_node=$N train.py",
        "accelerate launch train.py",
        "deepspeed --num_gpus 1 train.py",
        "srun --ntasks-per-node=1 python train.py",
        "srun python train.py",
        "srun --ntasks-per-node=8 --gpus-per-task=1 python train.py",
    ],
)
def test_good_dc106_lines_that_start_it_once(line: str) -> None:
    assert judged(ranks_spawn_ranks, line, spawning()) == []


@pytest.mark.parametrize(
    "script",
    [
        spawning(nprocs="1"),
        spawning("if 'LOCAL_RANK' not in __import__('os').environ: "),
        spawning("if dist.is_available(): "),
        # no ranks of a job
        spawning(call="get_backend"),
        ENV,
    ],
)
def test_good_dc106_scripts_that_choose(script: str) -> None:
    assert judged(ranks_spawn_ranks, "torchrun --nproc_per_node=8 train.py", script) == []


# the option with the local rank


def parsing(*options: str, more: str = "", parse: str = "parser.parse_args()") -> str:
    lines = "\n".join(f"parser.add_argument({option})" for option in options)
    return f"""\
import argparse
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
{lines}
args = {parse}
dist.init_process_group("nccl")
{more}
"""


USE = "torch.cuda.set_device(args.local_rank)"
OLD = "python -m torch.distributed.launch --nproc_per_node=8 train.py"


@pytest.mark.parametrize(
    ("line", "script", "words"),
    [
        (OLD, parsing('"--local_rank", type=int', more=USE), "knows --local_rank only"),
        (OLD, parsing('"--lr", type=float'), "knows no such option"),
        # what only looks first refuses it after all
        (OLD, parsing('"--lr"').replace("args =", "first, _ = parser.parse_known_args()\nargs ="), "knows no such"),
        ("deepspeed train.py", parsing('"--local-rank", type=int', more=USE), "knows --local-rank only"),
        ("deepspeed train.py", parsing('"--lr"'), "adds --local_rank=N"),
        ("torchrun --nproc_per_node=8 train.py", parsing('"--local_rank", default=0', more=USE), "takes the default"),
        ("torchrun --nproc_per_node=8 train.py", parsing('"--local_rank", "--local-rank", default=0', more=USE), "default"),
        ("torchrun train.py", parsing('"--local_rank", required=True', more=USE), "ends at once"),
        (OLD.replace("--nproc", "--use_env --nproc"), parsing('"--local_rank", default=0', more=USE), "takes the default"),
    ],
)  # fmt: skip
def test_bad_dc207_an_option_that_does_not_fit_the_launcher(line: str, script: str, words: str) -> None:
    (found,) = judged(local_rank_is_passed_as_it_is_taken, line, script)
    assert found.severity is Severity.WARNING
    assert words in found.message
    assert found.where.path == "run.sh"


READ = 'import os\nlocal_rank = int(os.environ["LOCAL_RANK"])'


@pytest.mark.parametrize(
    ("line", "script"),
    [
        (OLD, parsing('"--local-rank", type=int', more=USE)),
        (OLD, parsing('"--local_rank", "--local-rank", type=int', more=USE)),
        (OLD, parsing('"--lr"', parse="parser.parse_known_args()[0]")),
        (OLD, parsing('"--lr"').replace("args =", "_, rest = parser.parse_known_args()\nargs =").replace("parse_args()", "parse_args(rest)")),
        (OLD, parsing('"rest", nargs=argparse.REMAINDER')),
        (OLD, ENV),
        (OLD.replace("--nproc", "--use_env --nproc"), parsing('"--lr"')),
        ("deepspeed train.py", parsing('"--local_rank", type=int', more=USE)),
        ("deepspeed --no_local_rank train.py", parsing('"--lr"')),
        # others may add options of their own
        (OLD, "from zoo import add_options\n" + parsing('"--lr"').replace("args =", "add_options(parser)\nargs =")),
        (OLD, parsing('"--lr"').replace("ArgumentParser()", "ArgumentParser(parents=[base])")),
        ("torchrun --nproc_per_node=8 train.py", parsing('"--local_rank", default=0', more=READ)),
        ("torchrun --nproc_per_node=8 train.py", parsing('"--local_rank", default=0')),
        ("torchrun --nproc_per_node=8 train.py", parsing('"--lr"')),
        ("torchrun --nproc_per_node=1 train.py", parsing('"--local_rank", default=0', more=USE)),
        ("torchrun --nproc_per_node=8 train.py --local_rank 0", parsing('"--local_rank"', more=USE)),
        ("python train.py", parsing('"--local_rank", default=0', more=USE)),
    ],
)  # fmt: skip
def test_good_dc207_an_option_that_fits_or_is_not_known(line: str, script: str) -> None:
    assert judged(local_rank_is_passed_as_it_is_taken, line, script) == []


def test_good_dc207_deepspeed_s_own_options_are_known() -> None:
    script = "import deepspeed\n" + parsing('"--lr"').replace(
        "args =", "parser = deepspeed.add_config_arguments(parser)\nargs ="
    )
    (found,) = judged(local_rank_is_passed_as_it_is_taken, "deepspeed train.py", script)
    assert "--local_rank" in found.message


# the global rank as a device

DEVICE = """\
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
"""


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nnodes 2 --nproc_per_node 8 train.py",
        "torchrun --nnodes 1:4 --nproc_per_node 8 train.py",
        "srun -N 2 --ntasks-per-node=8 python train.py",
    ],
)
def test_bad_dc201_on_several_nodes(line: str) -> None:
    (found,) = judged(ranks_are_mixed_up_on_several_nodes, line, DEVICE)
    assert found.severity is Severity.ERROR
    assert (found.where.path, found.where.line) == ("train.py", 6)
    assert found.message.endswith("and run.sh:1 starts it on several nodes")
    assert found.evidence["started_by"] == "run.sh:1"


def test_bad_dc201_in_a_file_that_the_script_imports() -> None:
    helper = DEVICE.replace("rank = ", "def bind():\n    rank = ").replace("torch.cuda", "    torch.cuda")
    (found,) = judged(
        ranks_are_mixed_up_on_several_nodes,
        "torchrun --nnodes 2 train.py",
        "import utils\nutils.bind()\n",
        helper,
    )
    assert found.where.path == "utils.py"


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nproc_per_node 8 train.py",
        "torchrun --standalone --nproc_per_node 8 train.py",
        "torchrun --nnodes 1 --nproc_per_node 8 train.py",
        "torchrun --nnodes 2 other.py",
        "python train.py",
    ],
)
def test_good_dc201_one_node_or_another_script(line: str) -> None:
    assert judged(ranks_are_mixed_up_on_several_nodes, line, DEVICE) == []


def test_bad_dc201_nodes_in_a_variable_are_no_error() -> None:
    line = "torchrun --nnodes $N --nproc_per_node 8 train.py"
    (found,) = judged(ranks_are_mixed_up_on_several_nodes, line, DEVICE)
    assert found.severity is Severity.WARNING
    assert found.message.endswith("and run.sh:1 starts it on as many nodes as a variable holds")


def test_bad_dc201_of_a_script_that_is_only_likely_is_no_error() -> None:
    (found,) = judged(ranks_are_mixed_up_on_several_nodes, "torchrun --nnodes 2 $ROOT/train.py", DEVICE)
    assert found.severity is Severity.WARNING


def test_good_dc201_the_local_rank() -> None:
    script = DEVICE.replace("dist.get_rank()", 'int(__import__("os").environ["LOCAL_RANK"])')
    assert judged(ranks_are_mixed_up_on_several_nodes, "torchrun --nnodes 2 train.py", script) == []


def test_bad_dc201_in_a_job_of_several_nodes() -> None:
    nodes = Scalar(2, Span("run.sh", 1, 1, 1, 1))
    given = Allocation("slurm", nodes=nodes)
    line = "srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 train.py"
    found = judged(ranks_are_mixed_up_on_several_nodes, line, DEVICE, allocation=given, job=given)
    assert [item.severity for item in found] == [Severity.ERROR]


# the old launcher


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        (OLD, "torchrun --nproc_per_node=8 train.py"),
        ("python3 -m torch.distributed.launch --use_env --nproc_per_node=8 train.py", "torchrun --nproc_per_node=8 train.py"),
        ("python -u -m torch.distributed.launch train.py", "python -u -m torch.distributed.run train.py"),
        ("$PYTHON -m torch.distributed.launch train.py", "$PYTHON -m torch.distributed.run train.py"),
        ("/opt/conda/bin/python -m torch.distributed.launch train.py", "/opt/conda/bin/python -m torch.distributed.run train.py"),
        ("nohup python -m torch.distributed.launch --nnodes 2 train.py --lr 1", "nohup torchrun --nnodes 2 train.py --lr 1"),
    ],
)  # fmt: skip
def test_bad_dc801_the_old_launcher_and_its_successor(line: str, becomes: str) -> None:
    (found,) = judged(launch_line_has_the_old_launcher, line, READS)
    assert found.severity is Severity.WARNING
    assert found.fix.safe
    assert fixed(line, found.fix) == becomes


@pytest.mark.parametrize("script", [ENV, parsing('"--local-rank"', more=READ), parsing('"--local_rank"', more=USE)])
def test_dc801_is_not_safe_where_the_script_may_need_the_option(script: str) -> None:
    (found,) = judged(launch_line_has_the_old_launcher, OLD, script)
    assert found.fix.edits
    assert not found.fix.safe
    assert found.fix.risk


def test_dc801_is_not_safe_without_the_script() -> None:
    (found,) = judged(launch_line_has_the_old_launcher, OLD.replace("train.py", "gone.py"), ENV)
    assert not found.fix.safe
    files = LaunchFiles((shell_file(OLD),))
    (found,) = launch_line_has_the_old_launcher(files, Started())
    assert not found.fix.safe


@pytest.mark.parametrize(
    "line",
    [
        "torchrun train.py",
        "python -m torch.distributed.run train.py",
        "python train.py",
        "python -m torch.distributed.launch --help",
    ],
)
def test_good_dc801_other_launchers(line: str) -> None:
    assert judged(launch_line_has_the_old_launcher, line, READS) == []


def test_nothing_is_said_without_python() -> None:
    files = LaunchFiles((shell_file("python train.py"),))
    for probe in (
        plain_python_starts_ranks,
        ranks_spawn_ranks,
        local_rank_is_passed_as_it_is_taken,
        ranks_are_mixed_up_on_several_nodes,
    ):
        assert list(probe(files, Started())) == []
