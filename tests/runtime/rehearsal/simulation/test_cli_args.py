"""What is typed behind ``distcheck rehearse`` becomes the job that it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.runtime.rehearsal.simulation.cli_args import CannotRehearse, ParsedCommand, RehearseOptions, read
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text("pass\n")
    (tmp_path / "run.sh").write_text("torchrun train.py\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(
    line: str, folder: Path, options: RehearseOptions = RehearseOptions(), *, spawns: bool = False
) -> ParsedCommand:
    return read(line.split(), options, folder=str(folder), starts_ranks=lambda _: spawns)


def shape(plan: RehearsalPlan) -> tuple[int, int, int, str]:
    return plan.nnodes, plan.nproc_per_node, plan.gpus_per_node, plan.launcher


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("train.py --lr 1", (2, 2, 2, "torchrun")),
        ("python train.py --lr 1", (2, 2, 2, "torchrun")),
        ("torchrun --nproc-per-node 4 train.py --lr 1", (1, 4, 4, "torchrun")),
        ("torchrun train.py --lr 1", (1, 1, 1, "torchrun")),
        ("torchrun --nnodes 1:4 --nproc-per-node=gpu train.py --lr 1", (1, 2, 2, "torchrun")),
        ("python -m torch.distributed.run --nnodes=2 --nproc-per-node 3 train.py --lr 1", (2, 3, 3, "torchrun")),
        ("accelerate launch --num_processes 4 --num_machines 2 train.py --lr 1", (2, 2, 2, "torchrun")),
        ("srun torchrun --nnodes=2 --nproc-per-node=4 train.py --lr 1", (2, 4, 4, "torchrun")),
        ("srun --nodes=2 --ntasks-per-node=4 python train.py --lr 1", (2, 4, 4, "slurm")),
        ("srun -N 2 -n 8 python train.py --lr 1", (2, 4, 4, "slurm")),
        ("CUDA_VISIBLE_DEVICES=4,5 torchrun --nproc-per-node 2 train.py --lr 1", (1, 2, 6, "torchrun")),
    ],
)
def test_a_launch_line_says_how_many_there_are(line: str, expected: tuple[int, int, int, str], folder: Path) -> None:
    plan = typed(line, folder).plan
    assert shape(plan) == expected
    assert (plan.target, plan.arguments, plan.module) == ("train.py", ("--lr", "1"), False)


def test_options_count_more_than_the_line(folder: Path) -> None:
    options = RehearseOptions(nnodes=3, nproc_per_node=1, gpus_per_node=8, launcher="slurm")
    assert shape(typed("torchrun --nproc-per-node 4 train.py", folder, options).plan) == (3, 1, 8, "slurm")


@pytest.mark.parametrize(("name", "asked"), [("package.train", "package/train.py"), ("package", "package/__main__.py")])
def test_a_module_may_start_its_own_ranks_too(name: str, asked: str, folder: Path) -> None:
    (folder / "package" / "__init__.py").touch()
    (folder / "package" / "__main__.py").touch()
    seen: list[str] = []

    def starts_ranks(path: str) -> bool:
        seen.append(path)
        return True

    options = RehearseOptions(module=True)
    assert read([name], options, folder=str(folder), starts_ranks=starts_ranks).plan.launcher == "script"
    assert seen == [asked]
    assert typed(name, folder, options).plan.launcher == "torchrun"
    assert typed("json.tool", folder, RehearseOptions(module=True), spawns=True).plan.launcher == "torchrun"


def test_a_script_that_starts_its_own_ranks_has_one_node_unless_told_more(folder: Path) -> None:
    assert shape(typed("train.py", folder, spawns=True).plan) == (1, 2, 2, "script")
    assert shape(typed("train.py", folder, RehearseOptions(gpus_per_node=4), spawns=True).plan) == (1, 4, 4, "script")
    assert shape(typed("python train.py", folder, RehearseOptions(nnodes=2), spawns=True).plan) == (2, 2, 2, "script")


def test_under_a_launcher_it_is_the_launcher_that_starts_them(folder: Path) -> None:
    assert typed("torchrun --nproc-per-node 2 train.py", folder, spawns=True).plan.launcher == "torchrun"


@pytest.mark.parametrize("line", ["-m package.train --lr 1", "torchrun -m package.train --lr 1"])
def test_a_module(line: str, folder: Path) -> None:
    plan = typed(line, folder).plan
    assert (plan.target, plan.module, plan.arguments) == ("package.train", True, ("--lr", "1"))
    plan = typed("package.train --lr 1", folder, RehearseOptions(module=True)).plan
    assert (plan.target, plan.module, plan.arguments) == ("package.train", True, ("--lr", "1"))


def test_what_is_assigned_on_the_line_is_for_the_ranks(folder: Path) -> None:
    assert typed("NCCL_DEBUG=INFO torchrun train.py", folder).assignments == {"NCCL_DEBUG": "INFO"}


def test_gpus_of_slurms_tasks(folder: Path) -> None:
    line = "srun --nodes=2 --ntasks-per-node=2 --gpus-per-task={} python train.py"
    assert typed(line.format(1), folder).plan.gpus_per_task == 1
    plan = typed(line.format(2), folder).plan
    assert (plan.gpus_per_task, plan.gpus_per_node) == (2, 4)
    assert typed("torchrun --nproc-per-node 2 train.py", folder).plan.gpus_per_task is None


def test_the_argument_that_a_launcher_adds(folder: Path) -> None:
    assert typed("deepspeed --num_gpus 2 train.py", folder).plan.local_rank_argument == "--local_rank"
    assert typed("torchrun train.py", folder).plan.local_rank_argument == ""


def test_numbers_that_only_the_shell_knows_are_said_to_be_unknown(folder: Path) -> None:
    found = typed("torchrun --nproc-per-node $GPUS train.py", folder)
    assert shape(found.plan) == (1, 2, 2, "torchrun")
    assert [what for what, _ in found.left_out] == ["numbers of the launch line"]
    options = RehearseOptions(nnodes=1, nproc_per_node=2)
    assert typed("torchrun --nproc-per-node $GPUS train.py", folder, options).left_out == ()


def test_no_steps_means_no_limit(folder: Path) -> None:
    assert typed("train.py", folder, RehearseOptions(steps=0)).plan.steps is None
    assert typed("train.py", folder).plan.steps == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nowhere.py", "nowhere.py: no such file"),
        ("nothing", "'nothing' is neither an existing script nor a launch line"),
        ("torchrun --nproc-per-node 2", "the launch line has no script:"),
        ("python", "the launch line has no script:"),
        ("bash run.sh", "run.sh is a shell script; pass the launch line that it contains"),
        ("package", "package is a folder without a __main__.py"),
        ("-m train.py", "train.py is a file, but -m needs the name of a module"),
        ("-m no.such", "no.such: no module of this name is installed or in"),
        ("-m package.other", "package.other: no module of this name"),
        ("-m package.train.other", "package.train.other: no module of this name"),
        ("torchrun --nproc-per-node 0 train.py", "starts '0' processes a node"),
        ("torchrun --nproc-per-node two train.py", "starts 'two' processes a node"),
        ("torchrun --no-python train.py", "--no-python"),
        ("torchrun --nnodes 64 --nproc-per-node 8 train.py", "512 processes"),
    ],
)
def test_what_can_not_be_rehearsed_is_said_in_one_line(line: str, said: str, folder: Path) -> None:
    with pytest.raises(CannotRehearse) as raised:
        typed(line, folder)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_one_rank_to_compare_with_gets_arguments_of_its_own(folder: Path) -> None:
    options = RehearseOptions(reference=True, reference_args="--batch-size 64 --name 'a b'")
    plan = typed("train.py --batch-size 8", folder, options).plan
    assert plan.reference
    assert (plan.arguments, plan.reference_arguments) == (
        ("--batch-size", "8"),
        ("--batch-size", "64", "--name", "a b"),
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (RehearseOptions(reference_args="--batch-size 64"), "is for --reference"),
        (RehearseOptions(reference=True, reference_args="'"), "No closing quotation"),
        (RehearseOptions(nnodes=1, nproc_per_node=1, reference=True), "set --nproc-per-node to 2 or more"),
    ],
)
def test_a_reference_that_cannot_be_made(options: RehearseOptions, text: str, folder: Path) -> None:
    with pytest.raises(CannotRehearse, match=text):
        typed("train.py", folder, options)
