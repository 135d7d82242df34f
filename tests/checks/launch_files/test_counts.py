"""Ranks, nodes, tasks and GPUs of launch lines, where the file says them."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files import counts
from distcheck.checks.launch_files.model import LaunchSite

from .reading import read
from .sites import site_of


def in_batch(line: str, *directives: str) -> LaunchSite:
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {one}\n" for one in directives) + line + "\n"
    return read("job.sbatch", text).sites[-1]


@pytest.mark.parametrize(
    ("line", "ranks", "nodes"),
    [
        ("torchrun --nproc_per_node=8 train.py", 8, 1),
        ("torchrun train.py", 1, 1),
        ("torchrun --nproc_per_node=gpu --nnodes=2 train.py", None, 2),
        ("torchrun --nproc_per_node=cpu train.py", None, 1),
        ("torchrun --nproc_per_node=$N --nnodes=$M train.py", None, None),
        ("torchrun --nnodes=1:4 --nproc_per_node=8 train.py", 8, 4),
        ("torchrun --standalone --nproc_per_node=2 train.py", 2, 1),
        ("accelerate launch --num_machines 2 --num_processes 16 train.py", 8, 2),
        ("accelerate launch --config_file a.yaml train.py", None, None),
        ("deepspeed --num_gpus 4 train.py", 4, 1),
        ("deepspeed --hostfile hosts train.py", None, None),
        ("python train.py", 1, None),
        ("mpirun -np 16 -H a:8,b:8 python train.py", 8, 2),
        ("srun -n 8 python train.py", None, None),
    ],
)
def test_what_a_line_says(line: str, ranks: int | None, nodes: int | None) -> None:
    site = site_of(line)
    assert (counts.ranks_on_node(site), counts.nodes_of(site)) == (ranks, nodes)


@pytest.mark.parametrize(
    ("line", "directives", "ranks", "nodes", "gpus"),
    [
        ("srun python t.py", ("-N2", "--ntasks-per-node=8", "--gpus-per-node=8"), 8, 2, 8),
        ("srun python t.py", ("-N2", "--ntasks=16", "--gpus=16"), 8, 2, 8),
        ("srun -N1 -n1 python t.py", ("-N2", "--ntasks-per-node=8", "--gpus-per-node=8"), 1, 1, 8),
        ("srun torchrun --nproc_per_node=4 t.py", ("-N1", "--ntasks-per-node=2", "--gpus-per-task=4"), 4, 1, 4),
        ("srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 t.py", ("-N4", "--gres=gpu:8"), 8, 4, 8),
        ("srun torchrun --nnodes=$N --nproc_per_node=8 t.py", ("-N4", "--gres=gpu:8"), 8, None, 8),
        ("srun python t.py", ("-N2-4", "--gres=gpu:8"), 1, None, 8),
        ("srun python t.py", ("--gpus=$N",), 1, None, None),
    ],
)
def test_what_a_job_adds(
    line: str, directives: tuple[str, ...], ranks: int, nodes: int | None, gpus: int | None
) -> None:
    site = in_batch(line, *directives)
    given = counts.gpus_given(site)
    found = (counts.ranks_on_node(site), counts.nodes_of(site), None if given is None else given.number)
    assert found == (ranks, nodes, gpus)


def test_tasks_of_a_step_without_a_number() -> None:
    assert counts.tasks_on_node(in_batch("srun torchrun t.py", "-N2", "--gres=gpu:8")) == 1
    # as many as fit, in some versions
    assert counts.tasks_on_node(in_batch("srun torchrun t.py", "-N2", "--cpus-per-task=4")) is None
    assert counts.tasks_on_node(in_batch("torchrun t.py", "-N2", "--ntasks-per-node=4")) == 1


@pytest.mark.parametrize(
    ("line", "on_cpu"),
    [
        ("torchrun --nproc_per_node=4 train.py --backend gloo", True),
        ("torchrun --nproc_per_node=4 train.py --dist-backend=gloo", True),
        ("torchrun --nproc_per_node=4 train.py --device cpu", True),
        ("torchrun --nproc_per_node=4 train.py --no-cuda", True),
        ("torchrun --nproc_per_node=4 train.py --use_cpu", True),
        ("torchrun --nproc_per_node=cpu train.py", True),
        ("accelerate launch --cpu --num_processes 4 train.py", True),
        ("torchrun --nproc_per_node=4 train.py --backend nccl", False),
        ("torchrun --nproc_per_node=4 train.py --use_cpu=false", False),
        ("torchrun --nproc_per_node=4 train.py --cpu-offload", False),
        ("torchrun --nproc_per_node=4 train.py --device cuda", False),
    ],
)
def test_whether_gpus_are_used(line: str, on_cpu: bool) -> None:
    assert counts.runs_on_cpu(site_of(line)) is on_cpu


def test_a_mask_that_hides_all_means_the_cpu() -> None:
    assert counts.runs_on_cpu(site_of("torchrun train.py", settings={"CUDA_VISIBLE_DEVICES": ""}))
    assert counts.runs_on_cpu(site_of("torchrun train.py", settings={"ACCELERATE_USE_CPU": "true"}))
    assert not counts.runs_on_cpu(site_of("torchrun train.py", settings={"CUDA_VISIBLE_DEVICES": "0"}))
    assert not counts.runs_on_cpu(site_of("torchrun train.py", settings={"ACCELERATE_USE_CPU": "0"}))


def test_what_surely_starts_ranks_of_one_job() -> None:
    assert counts.is_distributed(site_of("torchrun train.py"))
    assert not counts.is_distributed(site_of("srun -n 8 python prepare.py"))
    assert counts.is_distributed(site_of("srun -n 8 python train.py", settings={"MASTER_ADDR": "n1"}))
    assert not counts.is_distributed(site_of("python train.py", settings={"MASTER_ADDR": "n1"}))
