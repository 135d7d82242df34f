"""How a launch line starts its ranks: launchers in a row, tasks, hang-ups, restarts, GPUs, options out of place."""

from __future__ import annotations

import subprocess

import pytest

from distcheck.checks.launch_files.launcher import (
    first_error_stays_visible,
    launcher_is_started_once_a_node,
    launcher_options_stand_before_the_script,
    launcher_survives_a_hangup,
    processes_can_be_counted_by_gpus,
    task_count_fits_the_launcher,
    tasks_see_all_gpus,
)
from distcheck.checks.launch_files.model import LaunchFiles, Nodes
from distcheck.checks.launch_files.scripts import find_started
from distcheck.checks.source.engine import SourceFile, analyse
from distcheck.core.model import Unavailable

from .judging import C10D, HEAD, TWO_NODES, findings, fixed, read, said
from .sites import shell_file

EIGHT_TASKS = TWO_NODES.replace("per-node=1", "per-node=8")
NO_NODES = Unavailable("nobody says which nodes")
NO_PYTHON = Unavailable("no Python was read")


# DC106


@pytest.mark.parametrize(
    "text",
    [
        EIGHT_TASKS + HEAD + f"srun torchrun --nnodes=2 --nproc-per-node=8 {C10D} train.py\n",
        EIGHT_TASKS + HEAD + f"srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=gpu {C10D} train.py\n",
        EIGHT_TASKS + HEAD + f"srun bash -c 'torchrun --nnodes=2 --nproc-per-node=8 {C10D} train.py'\n",
        EIGHT_TASKS + HEAD + f"srun torchrun --nnodes=2 --nproc-per-node=$SLURM_NTASKS_PER_NODE {C10D} train.py\n",
        EIGHT_TASKS + HEAD + f"srun torchrun --nnodes=2 --nproc-per-node=$SLURM_GPUS_PER_NODE {C10D} train.py\n",
        EIGHT_TASKS + HEAD + "srun accelerate launch --num_processes=16 --num_machines=2 train.py\n",
        EIGHT_TASKS + HEAD + "srun deepspeed train.py --deepspeed\n",
        "#SBATCH -N 1\n#SBATCH -n 4\nX=1\n\nsrun torchrun --nproc-per-node=4 train.py\n",
    ],
)
def test_bad_tasks_that_each_start_all_ranks_of_a_node(text: str) -> None:
    (finding,) = findings(launcher_is_started_once_a_node, text)
    assert (finding.code, finding.where.line) == ("DC106", text.count("\n"))
    assert finding.severity.word == "error"
    assert finding.evidence["tasks_on_node"] in (4, 8)


def test_bad_mpirun_on_one_host() -> None:
    (finding,) = findings(launcher_is_started_once_a_node, "mpirun -np 8 torchrun --nproc-per-node=8 train.py\n")
    assert finding.where.object == "mpirun"
    assert "64 in all" in finding.message


@pytest.mark.parametrize(
    "line",
    [
        # one rank for each agent
        f"srun torchrun --nnodes=16 --nproc-per-node=1 {C10D} train.py",
        # each task counts as a node of its own
        f"srun torchrun --nnodes=16 --nproc-per-node=2 {C10D} train.py",
        # srun starts fewer tasks than the job may have
        f"srun --ntasks=2 --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=8 {C10D} train.py",
        f"srun -n 2 torchrun --nnodes=2 --nproc-per-node=8 {C10D} train.py",
        "srun -N 1 -n 1 torchrun --standalone --nproc-per-node=8 train.py",
        # agents side by side, each with its GPUs
        "srun --gpus-per-task=2 torchrun --nnodes=$AGENTS --nproc-per-node=2 train.py",
        # how many is not known
        f"srun torchrun --nnodes=2 --nproc-per-node=$GPUS {C10D} train.py",
        f"srun -n $N torchrun --nnodes=2 --nproc-per-node=8 {C10D} train.py",
        f"srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=8 {C10D} train.py",
        # the tasks are the ranks
        "srun python train.py",
        "torchrun --standalone --nproc-per-node=8 train.py",
    ],
)
def test_good_one_launcher_a_node(line: str) -> None:
    assert said(launcher_is_started_once_a_node, EIGHT_TASKS + HEAD + line + "\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "mpirun -np 2 --hostfile hosts torchrun --nproc-per-node=8 train.py",
        "mpirun -np 2 -H a:1,b:1 torchrun --nnodes=2 --nproc-per-node=8 train.py",
        "mpirun -np $N torchrun --nproc-per-node=8 train.py",
        "# mpirun -np 8 torchrun --nproc-per-node=8 train.py",
    ],
)
def test_good_mpirun_of_one_launcher_a_host(line: str) -> None:
    assert said(launcher_is_started_once_a_node, f"set -e\n{line}\necho torchrun\n") == []


def test_the_fix_keeps_the_cores_of_the_job() -> None:
    text = EIGHT_TASKS + "#SBATCH --cpus-per-task=12\nsrun torchrun --nproc-per-node=8 train.py\n"
    (finding,) = findings(launcher_is_started_once_a_node, text)
    new = fixed(text, finding)
    assert "--ntasks-per-node=1\n" in new and "--cpus-per-task=96\n" in new
    assert not finding.fix.safe
    assert said(launcher_is_started_once_a_node, new) == []


# DC108


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO_NODES + "srun torchrun --nproc-per-node=8 train.py\n", [(5, "warning")]),
        (TWO_NODES + HEAD + f"torchrun --nnodes=2 --nproc-per-node=8 {C10D} train.py\n", [(6, "warning")]),
        (TWO_NODES + HEAD + f"torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 {C10D} t.py\n", [(6, "warning")]),
        (TWO_NODES + "torchrun --nproc-per-node=8 train.py\n", [(5, "warning")]),
        (TWO_NODES + "main() {\n  torchrun --nproc-per-node=8 train.py\n}\nmain\n", [(6, "warning")]),
        (TWO_NODES + "export WORLD_SIZE=16\nsrun python train.py\n", [(5, "warning")]),
        ("srun -N 2 -c 8 torchrun --nnodes=2 --nproc-per-node=8 train.py\n", [(1, "warning")]),
        ("#!/bin/bash\n#SBATCH --exclusive\n#SBATCH -c 8\nsrun python train.py\n", [(4, "warning")]),
        # no training, as far as can be seen
        ("srun -c 8 python resample.py\n", [(1, "info")]),
        # one task fits into what the job is given
        ("#!/bin/bash\n#SBATCH -c 8\nsrun python train.py\n", [(3, "info")]),
        ("#!/bin/bash\n#SBATCH -c 8\nsrun torchrun --standalone --nproc-per-node=8 train.py\n", [(3, "info")]),
    ],
)
def test_bad_tasks_that_do_not_fit(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(task_count_fits_the_launcher, text) == expected


@pytest.mark.parametrize(
    "body",
    [
        HEAD + f"srun torchrun --nnodes=2 --nproc-per-node=8 {C10D} train.py",
        HEAD + f"srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 {C10D} train.py",
        HEAD + f"srun torchrun --nnodes=$N --nproc-per-node=8 {C10D} train.py",
        # jobs side by side, and said so
        "srun torchrun --standalone --nproc-per-node=8 sweep.py",
        "srun torchrun --nproc-per-node=8 generate.py --shard $SLURM_PROCID",
        "srun -N 1 -n 1 torchrun --nproc-per-node=8 evaluate.py",
        # other lines reach the other nodes
        'for host in $(scontrol show hostnames); do ssh "$host" torchrun --nnodes=2 train.py & done\ntorchrun --nnodes=2 t.py',
        "main() { torchrun --nnodes=2 --nproc-per-node=8 train.py; }\nexport -f main\nsrun bash -c main",
        "main() { torchrun --nnodes=2 --nproc-per-node=8 train.py; }\nexport -f main\npdsh -a $COMMAND\nmain",
        # the caller chooses
        'if [ "$NODES" = 1 ]; then torchrun --nproc-per-node=8 train.py; fi',
        "export WORLD_SIZE=2\nsrun python train.py",
        "export WORLD_SIZE=$SLURM_NTASKS\nsrun python train.py",
        "srun --cpus-per-task=12 --ntasks-per-node=1 python train.py",
        "deepspeed --hostfile=hosts train.py",
    ],
)
def test_good_tasks_that_fit(body: str) -> None:
    assert said(task_count_fits_the_launcher, TWO_NODES + body + "\n") == []


def test_good_cores_that_the_job_was_given() -> None:
    text = "#SBATCH --nodes=2\n#SBATCH --cpus-per-task=32\nsrun --cpus-per-task=32 torchrun --nnodes=2 train.py\n"
    assert said(task_count_fits_the_launcher, text) == []


# DC117


@pytest.mark.parametrize(
    "line",
    [
        "nohup torchrun --nproc-per-node=8 train.py > train.log 2>&1 &",
        "CUDA_VISIBLE_DEVICES=0,1 nohup python -m torch.distributed.run --nproc-per-node=2 train.py &",
        "nohup accelerate launch --num_processes=8 train.py &",
        "nohup bash -c 'torchrun --nproc-per-node=8 train.py' &",
    ],
)
def test_bad_nohup_of_an_agent(line: str) -> None:
    (finding,) = findings(launcher_survives_a_hangup, line + "\n")
    assert (finding.code, finding.severity.word) == ("DC117", "warning")
    new = fixed(line, finding)
    assert "nohup" not in new and "setsid" in new
    assert said(launcher_survives_a_hangup, new + "\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nproc-per-node=8 train.py &",
        "# nohup torchrun --nproc-per-node=8 train.py &",
        "nohup python train.py --ddp &",
        "nohup deepspeed train.py &",
        "nohup accelerate launch --num_processes=1 train.py &",
        "setsid nohup torchrun --nproc-per-node=8 train.py > train.log 2>&1 &",
        "nohup torchrun --signals-to-handle=SIGTERM,SIGINT --nproc-per-node=8 train.py &",
        "nohup torchrun --signals-to-handle=$SIGNALS --nproc-per-node=8 train.py &",
        'ssh node1 "nohup torchrun --nproc-per-node=8 train.py &"',
        "nohup srun torchrun --nproc-per-node=8 train.py &",
    ],
)
def test_good_nothing_relies_on_nohup(line: str) -> None:
    assert said(launcher_survives_a_hangup, line + "\n") == []


def test_good_nohup_in_a_job_script() -> None:
    assert said(launcher_survives_a_hangup, TWO_NODES + "nohup torchrun --nproc-per-node=8 train.py &\nwait\n") == []


@pytest.mark.parametrize(
    ("line", "inner", "expected"),
    [
        ("nohup bash jobs/train.sh", "torchrun --nproc-per-node=8 train.py\n", ["start.sh"]),
        ("nohup bash jobs/train.sh", "setsid torchrun --nproc-per-node=8 train.py\n", []),
        ("nohup bash jobs/train.sh", "python train.py\n", []),
        ("nohup bash jobs/other.sh", "torchrun --nproc-per-node=8 train.py\n", []),
        ("bash jobs/train.sh", "torchrun --nproc-per-node=8 train.py\n", []),
    ],
)
def test_bad_nohup_of_a_script_that_starts_an_agent(line: str, inner: str, expected: list[str]) -> None:
    files = LaunchFiles((shell_file(line, path="start.sh"), read(inner, "jobs/train.sh")))
    found = list(launcher_survives_a_hangup(files))
    assert [finding.where.path for finding in found] == expected
    assert all("jobs/train.sh" in finding.message for finding in found)


# DC118


@pytest.mark.parametrize("option", ["--max-restarts=3", "--max_restarts 3"])
def test_bad_restarts(option: str) -> None:
    text = f"torchrun --nproc-per-node=8 \\\n  {option} \\\n  train.py\n"
    (finding,) = findings(first_error_stays_visible, text)
    assert (finding.severity.word, finding.where.line) == ("info", 2)
    # who wants an elastic job keeps them
    assert not finding.fix.edits


@pytest.mark.parametrize("option", ["", "--max-restarts=0", "--max-restarts=$RESTARTS"])
def test_good_no_restarts(option: str) -> None:
    assert said(first_error_stays_visible, f"torchrun --nproc-per-node=8 {option} train.py --max-restarts=3\n") == []


# DC121


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('export CUDA_VISIBLE_DEVICES=""\ntorchrun --nproc-per-node=gpu train.py\n', [(2, "error")]),
        ("CUDA_VISIBLE_DEVICES=-1 torchrun --nproc_per_node gpu train.py\n", [(1, "error")]),
        ("CUDA_VISIBLE_DEVICES=-1 torchrun --nproc_per_node auto train.py\n", [(1, "info")]),
        ("docker run --rm image torchrun --nproc-per-node=gpu train.py\n", [(1, "info")]),
        # there may be some
        ("torchrun --nproc-per-node=gpu train.py\n", []),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node=gpu train.py\n", []),
        ("CUDA_VISIBLE_DEVICES=$MASK torchrun --nproc-per-node=gpu train.py\n", []),
        ("CUDA_VISIBLE_DEVICES=-1 torchrun --nproc-per-node=4 train.py\n", []),
        ("docker run --gpus all image torchrun --nproc-per-node=gpu train.py\n", []),
        ("docker run $DOCKER_ARGS image torchrun --nproc-per-node=gpu train.py\n", []),
        ("docker exec trainer torchrun --nproc-per-node=gpu train.py\n", []),
    ],
)
def test_bad_and_good_gpus_to_count(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(processes_can_be_counted_by_gpus, text, NO_NODES) == expected


def test_nodes_without_gpus_say_so() -> None:
    text = "torchrun --nproc-per-node=gpu train.py\n"
    assert said(processes_can_be_counted_by_gpus, text, Nodes("login.json", gpus=0)) == [(1, "error")]
    assert said(processes_can_be_counted_by_gpus, text, Nodes("node.json", gpus=8)) == []


# DC203

BOUND = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-task=1\nsrun {options}python train.py\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOUND.format(options=""), [(4, "info")]),
        ("#SBATCH --ntasks-per-node=4\nsrun --gpu-bind=single:1 python train.py\n", [(2, "info")]),
        (BOUND.format(options="--gpu-bind=none "), []),
        (BOUND.format(options="-n 1 "), []),
        ("#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-task=8\nsrun torchrun --nproc-per-node=8 train.py\n", []),
        ("#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\nsrun python train.py\n", []),
    ],
)
def test_bad_and_good_tasks_that_see_one_gpu(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(tasks_see_all_gpus, text, NO_PYTHON, path="job.sbatch") == expected


@pytest.mark.parametrize(("index", "severity"), [("local_rank", "warning"), ("0", "info")])
def test_a_script_that_takes_the_local_rank_as_device(index: str, severity: str) -> None:
    source = (
        "import os, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
        f"local_rank = int(os.environ['LOCAL_RANK'])\ntorch.cuda.set_device({index})\n"
    ).encode()
    program = analyse([SourceFile("train.py", lambda: source)])
    files = LaunchFiles((read(BOUND.format(options=""), "job.sbatch"),))
    (finding,) = tasks_see_all_gpus(files, find_started(files, program))
    assert finding.severity.word == severity


# DC803


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (
            "torchrun train.py --nproc_per_node=8 --lr 0.1\n",
            "torchrun --nproc_per_node=8 train.py --lr 0.1\n",
        ),
        (
            "torchrun train.py --lr 0.1 --nproc-per-node 8\n",
            "torchrun --nproc-per-node 8 train.py --lr 0.1\n",
        ),
        (
            "torchrun --standalone -m pkg.train --nproc-per-node=8\n",
            "torchrun --standalone --nproc-per-node=8 -m pkg.train\n",
        ),
        (
            "torchrun train.py \\\n  --nproc_per_node=8 \\\n  --nnodes 2 --node_rank 1 --lr 0.1\n",
            "torchrun --nproc_per_node=8 --nnodes 2 --node_rank 1 train.py \\\n   \\\n   --lr 0.1\n",
        ),
        (
            "accelerate launch train.py --num_machines 2 --machine_rank=$RANK\n",
            "accelerate launch --num_machines 2 --machine_rank=$RANK train.py\n",
        ),
    ],
)
def test_bad_options_behind_the_script(text: str, good: str) -> None:
    (finding,) = findings(launcher_options_stand_before_the_script, text)
    assert (finding.code, finding.severity.word) == ("DC803", "error")
    assert finding.fix.safe
    new = fixed(text, finding)
    assert [line.strip() for line in new.split("\n")] == [line.strip() for line in good.split("\n")]
    assert said(launcher_options_stand_before_the_script, new) == []


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
    - name: train
      image: train
      command:
        - torchrun
        - train.py
        - --nproc_per_node=4
"""


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (POD, "pod.yaml"),
        ('FROM train\nCMD ["torchrun", "train.py", "--nproc_per_node=4"]\n', "Dockerfile"),
        ('OPTIONS=(--nproc_per_node=4)\ntorchrun train.py "${OPTIONS[@]}"\n', "run.sh"),
    ],
)
def test_items_of_a_list_are_not_moved(text: str, path: str) -> None:
    (finding,) = findings(launcher_options_stand_before_the_script, text, path=path)
    assert finding.fix.edits == ()


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nproc_per_node=8 train.py --lr 0.1",
        # the script has one of the same name
        "torchrun --nproc_per_node=2 bench.py --nproc_per_node 8",
        "torchrun --nproc_per_node=2 train.py -- --nnodes 2",
        "torchrun --nproc_per_node=2 --no-python ./start --nnodes 2",
        # what it starts is another launcher
        "torchrun --nproc_per_node=1 launch.py torchrun --nnodes 2 train.py",
        "accelerate launch --num_processes 8 train.py --mixed_precision bf16 --config_file config.yaml",
        "python train.py --nproc_per_node=8",
        "torchrun $ARGS train.py --nnodes 2",
        "deepspeed train.py --num_gpus 8",
    ],
)
def test_good_options_in_their_place(line: str) -> None:
    assert said(launcher_options_stand_before_the_script, line + "\n") == []


@pytest.mark.parametrize("before", ["docker run --gpus all img", "ssh gpu1"])
def test_good_dc121_a_mask_that_does_not_get_there(before: str) -> None:
    text = f"export CUDA_VISIBLE_DEVICES=\n{before} torchrun --nproc_per_node=gpu train.py\n"
    assert said(processes_can_be_counted_by_gpus, text, NO_NODES) == []


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        ("torchrun --nproc_per_node=8 train.py", "torchrun --nnodes=$SLURM_NNODES "),
        ("python -m torch.distributed.run --nproc_per_node=8 t.py", "python -m torch.distributed.run --nnodes="),
        ("A=1 python3 -m torch.distributed.launch --nproc_per_node=8 t.py", "python3 -m torch.distributed.launch --n"),
        ("nohup torchrun --nproc_per_node=8 train.py", "torchrun --nnodes=$SLURM_NNODES "),
    ],
)
def test_the_fix_of_a_launcher_that_is_started_once_works(line: str, begins: str) -> None:
    (finding,) = findings(task_count_fits_the_launcher, f"{TWO_NODES}{line} > log\n")
    after = fixed(f"{TWO_NODES}{line} > log\n", finding)
    assert f"srun --ntasks=$SLURM_NNODES --ntasks-per-node=1 {begins}" in after
    assert subprocess.run(["bash", "-n"], input=after, text=True, check=False).returncode == 0
    assert said(task_count_fits_the_launcher, after) == []
    assert ("python -m torch.distributed" in finding.fix.text) == ("-m" in line)


def test_the_fix_of_a_line_with_a_rendezvous_of_its_own_is_left_to_the_author() -> None:
    text = f"{TWO_NODES}torchrun --nnodes=2 --node_rank=0 --master_addr=a --nproc_per_node=8 train.py\n"
    (finding,) = findings(task_count_fits_the_launcher, text)
    assert not finding.fix.edits
