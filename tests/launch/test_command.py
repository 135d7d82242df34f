"""The parser of launch commands against commands as people type them, against argparse, and against anything."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distcheck.launch._arguments import read_arguments
from distcheck.launch._options import TORCHRUN
from distcheck.launch._shell import split_commands
from distcheck.launch.command import nproc_on, parse_command, shell_line
from distcheck.launch.endpoint import split_endpoint
from distcheck.launch.model import LaunchCommand

NOTHING = LaunchCommand("other")


def said(command: LaunchCommand) -> dict[str, Any]:
    """What a command says: the fields that are not as in an empty one, without words and problems."""
    return {
        name: value
        for name, value in command._asdict().items()
        if name not in ("argv", "problems") and value != getattr(NOTHING, name)
    }


def torchrun(**fields: Any) -> dict[str, Any]:
    return {"launcher": "torchrun", **fields}


def python(**fields: Any) -> dict[str, Any]:
    return {"launcher": "python", **fields}


TORCHRUN_COMMANDS = [
    ("torchrun train.py", torchrun(script="train.py")),
    ("/opt/venv/bin/torchrun train.py", torchrun(script="train.py")),
    ("torchrun.exe train.py", torchrun(script="train.py")),
    (
        "torchrun --standalone --nproc-per-node=gpu train.py --lr 3",
        torchrun(standalone=True, nproc="gpu", script="train.py", script_args=("--lr", "3")),
    ),
    (
        "nohup torchrun --nnodes 2 --nproc_per_node=8 --rdzv-backend c10d --rdzv-endpoint node1:29400 "
        "-m pkg.train --lr 3",
        torchrun(
            wrappers=("nohup",),
            nnodes_min=2,
            nnodes_max=2,
            nproc="8",
            rdzv_backend="c10d",
            rdzv_endpoint="node1:29400",
            script="pkg.train",
            module=True,
            script_args=("--lr", "3"),
        ),
    ),
    (
        "torchrun --nnodes=1:4 --max_restarts=3 --rdzv_id=job7 --rdzv_backend=c10d "
        "--rdzv_endpoint=[fe80::1]:29400 a.py",
        torchrun(
            nnodes_min=1,
            nnodes_max=4,
            max_restarts=3,
            rdzv_id="job7",
            rdzv_backend="c10d",
            rdzv_endpoint="[fe80::1]:29400",
            script="a.py",
        ),
    ),
    (
        "torchrun --nnodes 2 --node_rank 1 --master_addr 10.0.0.1 --master_port 29501 --nproc_per_node 8 a.py",
        torchrun(
            nnodes_min=2, nnodes_max=2, node_rank=1, master_addr="10.0.0.1", master_port=29501, nproc="8", script="a.py"
        ),
    ),
    (
        "torchrun --rdzv-conf timeout=900,is_host=1 --local-addr 10.0.0.2 --signals-to-handle SIGTERM,SIGUSR1 "
        "--virtual-local-rank a.py",
        torchrun(
            rdzv_conf={"timeout": "900", "is_host": "1"},
            local_addr="10.0.0.2",
            signals_to_handle="SIGTERM,SIGUSR1",
            virtual_local_rank=True,
            script="a.py",
        ),
    ),
    ("torchrun -r 3 -t3 --log-dir /tmp/x --tee 0:1,1:2 --role trainer a.py", torchrun(script="a.py")),
    ("torchrun -mr3 pkg.train", torchrun(script="pkg.train", module=True)),
    (
        "torchrun --no-python ./run.sh --nnodes 3",
        torchrun(no_python=True, script="./run.sh", script_args=("--nnodes", "3")),
    ),
    ("torchrun --run-path /abs/a.py", torchrun(script="/abs/a.py")),
    ("torchrun --nproc-per-node 2 -- a.py --log x", torchrun(nproc="2", script="a.py", script_args=("--log", "x"))),
    (
        "torchrun --log-line-prefix-template '[${hostname}]' --numa-binding node --shutdown-timeout 60 a.py",
        torchrun(script="a.py"),
    ),
    # Abbreviations, as argparse takes them.
    (
        "torchrun --nn 2 --nproc-per 4 --rdzv_e h:1 --rdzv-b=c10d --stand --max-r 1 a.py",
        torchrun(
            nnodes_min=2,
            nnodes_max=2,
            nproc="4",
            rdzv_endpoint="h:1",
            rdzv_backend="c10d",
            standalone=True,
            max_restarts=1,
            script="a.py",
        ),
    ),
    ("torchrun --mod pkg --virtual-l", torchrun(script="pkg", module=True, script_args=("--virtual-l",))),
    # The script's options are the script's, whatever they look like.
    ("torchrun a.py -m --tee 3 -- b", torchrun(script="a.py", script_args=("-m", "--tee", "3", "--", "b"))),
    (
        "torchrun a.py --master_port 1 --node_rank 2",
        torchrun(script="a.py", script_args=("--master_port", "1", "--node_rank", "2")),
    ),
    (
        "torchrun --nnodes 2 a.py --nnodes 2",
        torchrun(nnodes_min=2, nnodes_max=2, script="a.py", script_args=("--nnodes", "2")),
    ),
    (
        "torchrun a.py torchrun --nnodes 2 b.py",
        torchrun(script="a.py", script_args=("torchrun", "--nnodes", "2", "b.py")),
    ),
    # argparse takes the last of several.
    ("torchrun --nproc_per_node 2 --nproc-per-node 4 a.py", torchrun(nproc="4", script="a.py")),
    ("torchrun --nproc-per-node npu a.py", torchrun(nproc="npu", script="a.py")),
    (
        "torchrun --rdzv-backend c10d --rdzv-endpoint node1 a.py",
        torchrun(rdzv_backend="c10d", rdzv_endpoint="node1", script="a.py"),
    ),
    (
        "torchrun --rdzv-backend mine --rdzv-endpoint http://x/y a.py",
        torchrun(rdzv_backend="mine", rdzv_endpoint="http://x/y", script="a.py"),
    ),
    (
        "torchrun --rdzv-backend c10d --rdzv-conf store_type=file --rdzv-endpoint /tmp/a:b a.py",
        torchrun(rdzv_backend="c10d", rdzv_conf={"store_type": "file"}, rdzv_endpoint="/tmp/a:b", script="a.py"),
    ),
    ("torchrun --help", torchrun()),
    ("torchrun -h", torchrun()),
    ("torchrun --print-completion bash", torchrun()),
    # A script's argument that begins as several of torchrun's options do.
    (
        "torchrun a.py --log=x --local --log_dir y --lr 1 -- --log",
        torchrun(
            script="a.py",
            script_args=("--log=x", "--local", "--log_dir", "y", "--lr", "1", "--", "--log"),
            shadowed_script_args=("--log=x", "--local"),
        ),
    ),
    # Other ways to the same program.
    ("python -m torch.distributed.run --nproc_per_node 2 a.py", torchrun(nproc="2", script="a.py")),
    (
        "python3.11 -u -X dev -Wignore -mtorch.distributed.run --nproc_per_node 2 a.py",
        torchrun(nproc="2", script="a.py"),
    ),
    ("/usr/bin/python -um torch.distributed.run a.py", torchrun(script="a.py")),
    ("python /opt/venv/bin/torchrun a.py", torchrun(script="a.py")),
    ("python /usr/lib/python3/torch/distributed/run.py a.py", torchrun(script="a.py")),
    ("python -m pdb -c continue -m torch.distributed.run a.py", torchrun(wrappers=("pdb",), script="a.py")),
    (
        "python -m debugpy --listen 0.0.0.0:5678 --wait-for-client -m torch.distributed.run --nproc-per-node 1 a.py",
        torchrun(wrappers=("debugpy",), nproc="1", script="a.py"),
    ),
    (
        "python -m torch.distributed.launch --nproc_per_node=4 --nnodes=2 --node_rank=0 --master_addr=h "
        "--master_port=29500 a.py",
        {
            "launcher": "torch.distributed.launch",
            "nproc": "4",
            "nnodes_min": 2,
            "nnodes_max": 2,
            "node_rank": 0,
            "master_addr": "h",
            "master_port": 29500,
            "script": "a.py",
            "local_rank_argument": "--local-rank",
        },
    ),
    (
        "python -m torch.distributed.launch --use_env a.py",
        {"launcher": "torch.distributed.launch", "script": "a.py"},
    ),
]

WRAPPED_COMMANDS = [
    ("NCCL_DEBUG=INFO X='a b' torchrun a.py", torchrun(assignments={"NCCL_DEBUG": "INFO", "X": "a b"}, script="a.py")),
    (
        "env -u RANK NCCL_DEBUG=INFO torchrun a.py",
        torchrun(wrappers=("env",), assignments={"NCCL_DEBUG": "INFO"}, script="a.py"),
    ),
    ("env -S 'X=1 torchrun' a.py", torchrun(wrappers=("env",), assignments={"X": "1"}, script="a.py")),
    ("time -p torchrun a.py", torchrun(wrappers=("time",), script="a.py")),
    ("setsid -w nice -n 10 torchrun a.py", torchrun(wrappers=("setsid", "nice"), script="a.py")),
    ("nice -10 torchrun a.py", torchrun(wrappers=("nice",), script="a.py")),
    ("numactl --cpunodebind=0 --membind 0 -l torchrun a.py", torchrun(wrappers=("numactl",), script="a.py")),
    ("numactl -N 0 -m0 python a.py", python(wrappers=("numactl",), script="a.py")),
    ("stdbuf -oL -e 0 taskset -c 0-7 torchrun a.py", torchrun(wrappers=("stdbuf", "taskset"), script="a.py")),
    ("timeout -k 10s --signal=TERM 1h torchrun a.py", torchrun(wrappers=("timeout",), script="a.py")),
    ("sudo -E -u me A=1 torchrun a.py", torchrun(wrappers=("sudo",), assignments={"A": "1"}, script="a.py")),
    ("exec torchrun a.py", torchrun(wrappers=("exec",), script="a.py")),
    ("uv run --with torch torchrun a.py", torchrun(wrappers=("uv",), script="a.py")),
    ("uv run -m torch.distributed.run a.py", torchrun(wrappers=("uv",), script="a.py")),
    ("uv run a.py --x", python(wrappers=("uv",), script="a.py", script_args=("--x",))),
    ("uv sync", {}),
    ("poetry run torchrun a.py", torchrun(wrappers=("poetry",), script="a.py")),
    ("conda run -n env --no-capture-output torchrun a.py", torchrun(wrappers=("conda",), script="a.py")),
    ("nsys profile -o out --trace=cuda,nvtx -w true torchrun a.py", torchrun(wrappers=("nsys",), script="a.py")),
    ("bash -c 'torchrun a.py'", torchrun(wrappers=("bash",), script="a.py")),
    (
        "bash -euxo pipefail -c 'cd /x && export A=1 B; . venv/activate; torchrun a.py > log 2>&1 &'",
        torchrun(wrappers=("bash",), assignments={"A": "1"}, script="a.py"),
    ),
    ("sh -lc 'echo hi; python a.py; torchrun b.py || true'", torchrun(wrappers=("sh",), script="b.py")),
    (
        "bash -c 'for i in 0 1; do torchrun --node_rank 1 a.py & done'",
        torchrun(wrappers=("bash",), node_rank=1, script="a.py"),
    ),
    ("bash run.sh --x", {"wrappers": ("bash",), "script": "run.sh", "script_args": ("--x",)}),
    (
        "ssh -p 22 node1 cd /x '&&' A=1 torchrun a.py",
        torchrun(wrappers=("ssh",), assignments={"A": "1"}, script="a.py"),
    ),
    ("tmux new-session -d -s train 'torchrun a.py'", torchrun(wrappers=("tmux",), script="a.py")),
    ("screen -dmS train torchrun a.py", torchrun(wrappers=("screen",), script="a.py")),
    (
        "apptainer exec --nv -B /data --env A=1,B=2 image.sif torchrun a.py",
        torchrun(wrappers=("apptainer",), assignments={"A": "1", "B": "2"}, script="a.py"),
    ),
    (
        "docker run --rm -it --gpus all --shm-size=1g -e A=1 --env B=2 -v /a:/b --network host "
        "nvcr.io/x:1 torchrun a.py",
        torchrun(wrappers=("docker",), assignments={"A": "1", "B": "2"}, script="a.py"),
    ),
    ("docker build .", {}),
    ("kubectl exec -it pod-0 -n ns -- torchrun a.py", torchrun(wrappers=("kubectl",), script="a.py")),
    ("kubectl get pods", {}),
    (
        "gantry run --gpus 8 --workspace org/a -- torchrun --nproc_per_node 8 a.py",
        torchrun(wrappers=("gantry",), nproc="8", script="a.py"),
    ),
    ("gantry list", {}),
    (
        "axolotl train c.yml --micro-batch-size 2 --launcher torchrun -- --nproc_per_node=8 --nnodes=2",
        torchrun(nproc="8", nnodes_min=2, nnodes_max=2, script="axolotl.cli.train", module=True),
    ),
    (
        "axolotl train c.yml --launcher=torchrun -- --nproc_per_node=8",
        torchrun(nproc="8", script="axolotl.cli.train", module=True),
    ),
    (
        "axolotl train c.yml -- --num_processes=8",
        {"launcher": "accelerate", "processes": 8, "script": "axolotl.cli.train", "module": True},
    ),
    ("axolotl train c.yml --launcher python", python(script="axolotl.cli.train", module=True)),
    ("axolotl train c.yml", {}),
    ("axolotl preprocess c.yml --launcher torchrun", {}),
    (
        "torchx run -s local_cwd dist.ddp -j 1x8 --script train.py -- --lr 0.1",
        torchrun(
            wrappers=("torchx",),
            nproc="8",
            nnodes_min=1,
            nnodes_max=1,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            unknown={"rdzv_id"},
            script="train.py",
            script_args=("--lr", "0.1"),
        ),
    ),
    (
        "torchx run -s slurm -cfg partition=a,time=10 --wait dist.ddp --cpu=4 -j 1:4x8 -m pkg.train -- --lr 0.1",
        torchrun(
            wrappers=("torchx",),
            nproc="8",
            nnodes_min=1,
            nnodes_max=4,
            rdzv_backend="c10d",
            unknown={"rdzv_id", "rdzv_endpoint"},
            script="pkg.train",
            module=True,
            script_args=("--lr", "0.1"),
        ),
    ),
    # its default, a number alone, and what only the shell knows
    (
        "torchx run dist.ddp --script=train.py",
        torchrun(
            wrappers=("torchx",),
            nproc="2",
            nnodes_min=1,
            nnodes_max=1,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            unknown={"rdzv_id"},
            script="train.py",
        ),
    ),
    (
        "torchx run dist.ddp -j ${NODES}x${GPUS} --script train.py",
        torchrun(
            wrappers=("torchx",),
            rdzv_backend="c10d",
            script="train.py",
            unknown={"rdzv_id", "rdzv_endpoint", "nnodes_min", "nnodes_max", "nproc"},
        ),
    ),
    (
        "torchx run dist.ddp -j $SHAPE --script train.py",
        torchrun(
            wrappers=("torchx",),
            rdzv_backend="c10d",
            script="train.py",
            unknown={"rdzv_id", "rdzv_endpoint", "nnodes_min", "nnodes_max", "nproc"},
        ),
    ),
    ("torchx run utils.echo --msg torchrun", {}),
    ("torchx status local_cwd://torchx/train", {}),
    (
        "ray job submit --working-dir . --no-wait -- torchrun --nproc_per_node 8 a.py",
        torchrun(wrappers=("ray",), nproc="8", script="a.py"),
    ),
    ("ray start --head", {}),
]

CLUSTER_COMMANDS = [
    ("srun python train.py", python(wrappers=("srun",), script="train.py")),
    ("srun -n4 -N 2 python a.py", python(wrappers=("srun",), tasks=4, nodes=2, script="a.py")),
    (
        "srun --nodes=2 --ntasks-per-node=8 --gpus-per-task=1 -c 12 --mpi=pmix --label python -u a.py",
        python(wrappers=("srun",), nodes=2, tasks_per_node=8, gpus_per_task=1, cpus_per_task=12, script="a.py"),
    ),
    (
        "srun -K0 -l -u --kill-on-bad-exit=1 --gres=gpu:a100:4(S:0-1),nvme:1 --job-name x torchrun a.py",
        torchrun(wrappers=("srun",), gpus_per_node=4, script="a.py"),
    ),
    ("srun --gres gpu --exclusive torchrun a.py", torchrun(wrappers=("srun",), gpus_per_node=1, script="a.py")),
    ("srun --gres=shard:2 torchrun a.py", torchrun(wrappers=("srun",), script="a.py")),
    (
        "srun -G 16 --gpus-per-node=h100:8 torchrun a.py",
        torchrun(wrappers=("srun",), gpus=16, gpus_per_node=8, script="a.py"),
    ),
    ("srun -N 2-4 torchrun a.py", torchrun(wrappers=("srun",), script="a.py")),
    (
        "srun --export=ALL,A=1 --container-image=x.sqsh --container-mounts /a:/a bash -c 'torchrun a.py'",
        torchrun(wrappers=("srun", "bash"), assignments={"A": "1"}, script="a.py"),
    ),
    (
        "sbatch -N2 --ntasks-per-node=1 --wait job.sh a b",
        {"wrappers": ("sbatch",), "nodes": 2, "tasks_per_node": 1, "script": "job.sh", "script_args": ("a", "b")},
    ),
    ("sbatch -N 2 --wrap 'srun torchrun a.py'", torchrun(wrappers=("sbatch", "srun"), nodes=2, script="a.py")),
    (
        "salloc -N 1 --gres=gpu:8 srun --pty torchrun a.py",
        torchrun(wrappers=("salloc", "srun"), nodes=1, gpus_per_node=8, script="a.py"),
    ),
    (
        "mpirun -np 8 --hostfile hosts -x NCCL_DEBUG=INFO -x PATH --mca btl ^openib --bind-to none python a.py",
        python(wrappers=("mpirun",), assignments={"NCCL_DEBUG": "INFO"}, tasks=8, script="a.py"),
    ),
    (
        "mpirun -np 8 -H a:4,b:4 python a.py",
        python(wrappers=("mpirun",), tasks=8, nodes=2, tasks_per_node=4, script="a.py"),
    ),
    # Open MPI fills the first host before the second.
    ("mpirun -np 4 -H a:4,b:4 python a.py", python(wrappers=("mpirun",), tasks=4, script="a.py")),
    (
        "mpirun --map-by ppr:4:node -n 16 python a.py",
        python(wrappers=("mpirun",), tasks=16, tasks_per_node=4, script="a.py"),
    ),
    (
        "mpirun -pernode --allow-run-as-root torchrun a.py",
        torchrun(wrappers=("mpirun",), tasks_per_node=1, script="a.py"),
    ),
    (
        "mpiexec.hydra -genv FI_PROVIDER tcp -genv A=1 -n 8 -ppn 4 -hosts a,b python a.py",
        python(
            wrappers=("mpiexec.hydra",),
            assignments={"FI_PROVIDER": "tcp", "A": "1"},
            tasks=8,
            tasks_per_node=4,
            nodes=2,
            script="a.py",
        ),
    ),
    (
        "mpiexec -n 8 --ppn 4 --cpu-bind depth -d 8 python a.py",
        python(wrappers=("mpiexec",), tasks=8, tasks_per_node=4, cpus_per_task=8, script="a.py"),
    ),
    (
        "mpirun_rsh -np 2 -hostfile h A=1 python a.py",
        python(wrappers=("mpirun_rsh",), assignments={"A": "1"}, tasks=2, script="a.py"),
    ),
    (
        "jsrun -n 4 -a 6 -g 6 -c 42 -r 1 python a.py",
        python(wrappers=("jsrun",), tasks=24, tasks_per_node=6, script="a.py"),
    ),
    ("ibrun -n 4 python a.py", python(wrappers=("ibrun",), tasks=4, script="a.py")),
    (
        "flux run -N2 -n 8 -g 1 python a.py",
        python(wrappers=("flux",), nodes=2, tasks=8, gpus_per_task=1, script="a.py"),
    ),
]

OTHER_COMMANDS = [
    ("python train.py --lr 3", python(script="train.py", script_args=("--lr", "3"))),
    ("python -m pkg.train --lr 3", python(script="pkg.train", module=True, script_args=("--lr", "3"))),
    ("python -c 'import torch' --x", python(script_args=("--x",))),
    ("python - --x", python(script_args=("--x",))),
    ("python3 -W ignore -OO -B --check-hash-based-pycs never train.py", python(script="train.py")),
    ("python", python()),
    ("./train.py --x", python(script="./train.py", script_args=("--x",))),
    ("./run.sh --nproc 3", {"script": "./run.sh", "script_args": ("--nproc", "3")}),
    ("all_reduce_perf -b 8 -e 8G", {}),
    ("", {}),
    (
        "accelerate launch --multi_gpu --num_processes 16 --num-machines=2 --machine_rank 1 --main_process_ip 10.0.0.1 "
        "--main_process_port 29500 --mixed_precision bf16 --fsdp_version 2 train.py --lr 3",
        {
            "launcher": "accelerate",
            "processes": 16,
            "nnodes_min": 2,
            "nnodes_max": 2,
            "node_rank": 1,
            "master_addr": "10.0.0.1",
            "master_port": 29500,
            "script": "train.py",
            "script_args": ("--lr", "3"),
        },
    ),
    (
        "accelerate launch --config_file fsdp.yaml --gpu_ids 0,1 -m pkg.train",
        {"launcher": "accelerate", "config_file": "fsdp.yaml", "gpu_ids": "0,1", "script": "pkg.train", "module": True},
    ),
    ("accelerate-launch --cpu train.py", {"launcher": "accelerate", "processes": 1, "script": "train.py"}),
    (
        "python -m accelerate.commands.launch --num_processes=2 a.py",
        {"launcher": "accelerate", "processes": 2, "script": "a.py"},
    ),
    # An option of a later release is neither refused nor taken for the script.
    (
        "accelerate launch --quantum_mode deep --num_processes 2 a.py",
        {"launcher": "accelerate", "processes": 2, "script": "a.py"},
    ),
    (
        "accelerate launch --rdzv_conf timeout=9 --rdzv_backend c10d --no_python ./a",
        {
            "launcher": "accelerate",
            "rdzv_conf": {"timeout": "9"},
            "rdzv_backend": "c10d",
            "no_python": True,
            "script": "./a",
        },
    ),
    ("python -m accelerate.commands.accelerate_cli launch a.py", {"launcher": "accelerate", "script": "a.py"}),
    ("accelerate config", {}),
    (
        "python -m coverage run --source x -m pkg --y",
        python(wrappers=("coverage",), script="pkg", module=True, script_args=("--y",)),
    ),
    ("python -m coverage report", python(script="coverage", module=True, script_args=("report",))),
    ("bash --rcfile x -c 'python a.py'", python(wrappers=("bash",), script="a.py")),
    ("bash", {"wrappers": ("bash",)}),
    ("nohup", {"wrappers": ("nohup",)}),
    ("mpirun -H a -n 3 python a.py", python(wrappers=("mpirun",), nodes=1, tasks=3, script="a.py")),
    (
        "aprun -n 8 -N 4 -d 2 python a.py",
        python(wrappers=("aprun",), tasks=8, tasks_per_node=4, cpus_per_task=2, script="a.py"),
    ),
    ("nice -- torchrun a.py", torchrun(wrappers=("nice",), script="a.py")),
    # A fork has options of its own.
    (
        "deepspeed --num_devs 16 a.py",
        {"launcher": "deepspeed", "script": "a.py", "local_rank_argument": "--local_rank"},
    ),
    (
        "deepspeed --num_nodes 2 --num_gpus=8 --master_addr h --master_port 29501 --hostfile hosts --no_ssh "
        "--node_rank 1 train.py --deepspeed ds.json",
        {
            "launcher": "deepspeed",
            "nnodes_min": 2,
            "nnodes_max": 2,
            "nproc": "8",
            "master_addr": "h",
            "master_port": 29501,
            "hostfile": "hosts",
            "node_rank": 1,
            "script": "train.py",
            "script_args": ("--deepspeed", "ds.json"),
            "local_rank_argument": "--local_rank",
        },
    ),
    (
        "deepspeed --include localhost:0,1,2 --module --no_local_rank pkg.train",
        {
            "launcher": "deepspeed",
            "include": "localhost:0,1,2",
            "nnodes_min": 1,
            "nnodes_max": 1,
            "nproc": "3",
            "script": "pkg.train",
            "module": True,
        },
    ),
    (
        "deepspeed -i w0:0,1@w1 -e w2:0 a.py",
        {
            "launcher": "deepspeed",
            "include": "w0:0,1@w1",
            "exclude": "w2:0",
            "nnodes_min": 2,
            "nnodes_max": 2,
            "script": "a.py",
            "local_rank_argument": "--local_rank",
        },
    ),
    (
        "deepspeed --num_acc 4 a.py",
        {"launcher": "deepspeed", "nproc": "4", "script": "a.py", "local_rank_argument": "--local_rank"},
    ),
]

GOOD_COMMANDS = TORCHRUN_COMMANDS + WRAPPED_COMMANDS + CLUSTER_COMMANDS + OTHER_COMMANDS


@pytest.mark.parametrize(("line", "fields"), GOOD_COMMANDS)
def test_a_command_that_works_is_read_without_a_problem(line: str, fields: dict[str, Any]) -> None:
    command = parse_command(shlex.split(line))
    assert command.problems == ()
    assert said(command) == fields
    assert command.argv == tuple(shlex.split(line))


TORCHRUN_UNKNOWN = {
    "nnodes_min",
    "nnodes_max",
    "nproc",
    "node_rank",
    "master_addr",
    "master_port",
    "rdzv_backend",
    "rdzv_endpoint",
    "rdzv_id",
    "rdzv_conf",
    "local_addr",
    "standalone",
    "max_restarts",
    "virtual_local_rank",
    "signals_to_handle",
    "module",
}

UNEXPANDED_COMMANDS = [
    ("torchrun --nnodes $SLURM_NNODES --nproc_per_node ${GPUS:-8} a.py", {"nnodes_min", "nnodes_max", "nproc"}, "a.py"),
    (
        "torchrun --nnodes=$MIN:$MAX --rdzv-endpoint=$HOST:29400 a.py",
        {"nnodes_min", "nnodes_max", "rdzv_endpoint"},
        "a.py",
    ),
    ("torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) a.py", {"nproc"}, "a.py"),
    (
        "torchrun --master_port=$((10000 + RANDOM % 1000)) --node-rank `cat rank` a.py",
        {"master_port", "node_rank"},
        "a.py",
    ),
    ("torchrun --nproc-per-node {{ nproc }} --max-restarts {{restarts}} a.py", {"nproc", "max_restarts"}, "a.py"),
    ("torchrun --rdzv_conf timeout=$T --rdzv_id $SLURM_JOB_ID a.py", {"rdzv_conf", "rdzv_id"}, "a.py"),
    ("torchrun --nnodes=2 $DIR/train.py", {"script"}, None),
    ("torchrun --nnodes=2 $SCRIPT --log x --nodes", {"script"}, None),
    ("torchrun --nnodes=2 $TARGET --lr 3 --standalone-ish", {"script"}, None),
    ("torchrun -m $MODULE --lr 3", {"script"}, None),
    ("torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${GPT_ARGS[@]} --nnodes 3", TORCHRUN_UNKNOWN, "pretrain_gpt.py"),
    ("torchrun $A $B -m pkg.train", TORCHRUN_UNKNOWN - {"module"}, "pkg.train"),
    ("torchrun $A --nproc_per_node 8 train.py", TORCHRUN_UNKNOWN - {"nproc"}, "train.py"),
    ("torchrun --$A train.py", TORCHRUN_UNKNOWN, "train.py"),
    ('torchrun --nproc_per_node 8 "${CMD[@]}" --lr 3', TORCHRUN_UNKNOWN - {"nproc"} | {"script", "script_args"}, None),
    ("torchrun ${DIST_ARGS[@]} -m ${MODULE_NAME} ${TRAIN_ARGS[@]}", TORCHRUN_UNKNOWN - {"module"} | {"script"}, None),
    ("torchrun $A $SCRIPT --lr 3", TORCHRUN_UNKNOWN | {"script"}, None),
    ("torchrun -m $MOD config.py", {"script"}, None),
    ("torchrun $ARGS", TORCHRUN_UNKNOWN | {"script", "script_args"}, None),
    ("srun -n $N --gres=gpu:$G python a.py", {"tasks", "gpus_per_node"}, "a.py"),
    (
        "srun $SRUN_ARGS -N 2 python a.py",
        {"tasks", "tasks_per_node", "gpus_per_task", "gpus_per_node", "gpus", "cpus_per_task"},
        "a.py",
    ),
    ("$LAUNCHER train.py", {"launcher", "script"}, None),
    ("$PYTHON -m torch.distributed.run a.py", set(), "a.py"),
    ("${PYTHON_BIN:-python3} a.py", set(), "a.py"),
    ("${TORCHRUN} --nproc_per_node=2 a.py", TORCHRUN_UNKNOWN - {"nproc"}, "a.py"),
    (
        "$ACCELERATE_LAUNCH --num_processes 2 a.py",
        {
            "nnodes_min",
            "nnodes_max",
            "node_rank",
            "master_addr",
            "master_port",
            "gpu_ids",
            "config_file",
            "module",
        },
        "a.py",
    ),
    (
        "deepspeed $DS_ARGS a.py",
        {
            "nproc",
            "nnodes_min",
            "nnodes_max",
            "node_rank",
            "master_addr",
            "master_port",
            "hostfile",
            "include",
            "exclude",
            "module",
        },
        "a.py",
    ),
    ("python $(which torchrun) a.py", set(), "a.py"),
    ("`command -v torchrun` a.py", set(), "a.py"),
    ("accelerate launch --num_processes $N --num_machines $M a.py", {"processes", "nnodes_min", "nnodes_max"}, "a.py"),
    ("deepspeed --num_gpus=$N a.py", {"nproc"}, "a.py"),
    ("bash -c 'torchrun --nnodes $SLURM_NNODES a.py'", {"nnodes_min", "nnodes_max"}, "a.py"),
]


@pytest.mark.parametrize(("line", "unknown", "script"), UNEXPANDED_COMMANDS)
def test_what_only_the_shell_knows_is_named_and_makes_no_problem(
    line: str, unknown: set[str], script: str | None
) -> None:
    command = parse_command(split_commands(line)[0])
    assert command.problems == ()
    assert command.unknown == unknown
    assert command.script == script
    for field in unknown - {"launcher"}:
        assert getattr(command, field) == getattr(NOTHING, field)


BAD_COMMANDS = [
    ("torchrun", "missing-script", "torchrun"),
    ("torchrun --nproc-per-node 8", "missing-script", "torchrun"),
    ("accelerate launch --num_processes 8", "missing-script", "accelerate launch"),
    ("deepspeed --num_gpus 8", "missing-script", "deepspeed"),
    ("torchrun a.py --nproc_per_node=8", "misplaced-option", "--nproc_per_node=8"),
    ("torchrun a.py --lr 3 --nproc-per-node 8", "misplaced-option", "--nproc-per-node"),
    ("torchrun --nproc_per_node 2 a.py --nnodes 2", "misplaced-option", "--nnodes"),
    ("torchrun -m pkg --rdzv_endpoint=h:1", "misplaced-option", "--rdzv_endpoint=h:1"),
    ("torchrun a.py --standalone", "misplaced-option", "--standalone"),
    ("python -m torch.distributed.launch a.py --nproc_per_node 8", "misplaced-option", "--nproc_per_node"),
    ("torchx run dist.ddp -j 2,8 --script a.py", "bad-value", "-j"),
    ("torchx run dist.ddp --script a.py -j", "bad-value", "-j"),
    ("torchrun --nproc-per-node 0 a.py", "bad-value", "--nproc-per-node"),
    ("torchrun --nproc-per-node -1 a.py", "bad-value", "--nproc-per-node"),
    ("torchrun --nproc-per-node=abc a.py", "bad-value", "--nproc-per-node"),
    ("torchrun --nproc-per-node cuda a.py", "bad-value", "--nproc-per-node"),
    ("torchrun --nnodes 0 a.py", "bad-value", "--nnodes"),
    ("torchrun --nnodes a a.py", "bad-value", "--nnodes"),
    ("torchrun --nnodes 4:2 a.py", "bad-value", "--nnodes"),
    ("torchrun --nnodes 1:2:3 a.py", "bad-value", "--nnodes"),
    ("torchrun --nnodes= a.py", "bad-value", "--nnodes"),
    ("torchrun --node-rank one a.py", "bad-value", "--node-rank"),
    ("torchrun --master-port 65536 a.py", "bad-value", "--master-port"),
    ("torchrun --master_port=-1 a.py", "bad-value", "--master_port"),
    ("torchrun --master-port h:1 a.py", "bad-value", "--master-port"),
    ("torchrun --rdzv-backend c10d --rdzv-endpoint h:99999 a.py", "bad-value", "--rdzv-endpoint"),
    ("torchrun --rdzv-backend c10d --rdzv-endpoint h:port a.py", "bad-value", "--rdzv-endpoint"),
    ("torchrun --nnodes 2 --rdzv-endpoint h a.py", "bad-value", "--rdzv-endpoint"),
    ("torchrun --rdzv-conf timeout a.py", "bad-value", "--rdzv-conf"),
    ("torchrun --max-restarts -1 a.py", "bad-value", "--max-restarts"),
    ("torchrun --monitor-interval soon a.py", "bad-value", "--monitor-interval"),
    ("torchrun --start-method thread a.py", "bad-value", "--start-method"),
    ("torchrun --numa-binding core a.py", "bad-value", "--numa-binding"),
    ("torchrun --standalone=1 a.py", "bad-value", "--standalone=1"),
    ("torchrun -mpkg.train a", "bad-value", "-mpkg.train"),
    ("torchrun --no-python -m pkg", "bad-value", "--no-python"),
    ("python -m torch.distributed.launch --no-python a", "bad-value", "--no-python"),
    ("accelerate launch --num_processes all a.py", "bad-value", "--num_processes"),
    ("accelerate launch --multi_gpu --num_processes 1 a.py", "bad-value", "--num_processes"),
    ("accelerate launch --main_process_port 70000 a.py", "bad-value", "--main_process_port"),
    ("deepspeed --num_gpus all a.py", "bad-value", "--num_gpus"),
    ("torchrun --nprocs 8 a.py", "unknown-option", "--nprocs"),
    ("torchrun --use_env a.py", "unknown-option", "--use_env"),
    ("torchrun -nproc_per_node=8 a.py", "unknown-option", "-nproc_per_node=8"),
    ("torchrun \u2014nproc_per_node 8 a.py", "unknown-option", "\u2014nproc_per_node"),
    ("torchrun --nproc 8 a.py", "unknown-option", "--nproc"),
    ("torchrun --rdzv h:1 a.py", "unknown-option", "--rdzv"),
    ("torchrun --no a.py", "unknown-option", "--no"),
    # accelerate takes no abbreviations.
    ("accelerate launch --num_proc 8 a.py", "unknown-option", "--num_proc"),
    ("deepspeed --num-gpus 8 a.py", "unknown-option", "--num-gpus"),
    ("torchrun --nnodes --standalone a.py", "missing-value", "--nnodes"),
    ("torchrun --nnodes -- a.py", "missing-value", "--nnodes"),
]


@pytest.mark.parametrize(("line", "kind", "word"), BAD_COMMANDS)
def test_what_a_launcher_refuses_is_one_problem(line: str, kind: str, word: str) -> None:
    problems = parse_command(shlex.split(line)).problems
    assert [(problem.kind, problem.word) for problem in problems] == [(kind, word)]
    text = problems[0].text
    assert word.partition("=")[0].removesuffix("pkg.train") in text
    assert not text.endswith(".")
    assert "\n" not in text


def test_an_option_without_its_value_at_the_end_lacks_the_script_too() -> None:
    problems = parse_command(["torchrun", "--nnodes"]).problems
    assert [problem.kind for problem in problems] == ["missing-value", "missing-script"]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("torchrun --nprocs 8 a.py", "--nproc-per-node"),
        ("torchrun --nproc_per_nod3 8 a.py", "--nproc_per_node"),
        ("torchrun --rdzv-endpont h:1 a.py", "--rdzv-endpoint"),
        ("torchrun --nproc 8 a.py", "--nproc-per-node"),
        ("torchrun --nproc-per-node cuda a.py", "gpu"),
        ("accelerate launch --num_process 8 a.py", "--num_processes"),
        ("deepspeed --num-gpus 8 a.py", "--num_gpus"),
    ],
)
def test_a_slip_gets_a_hint_and_the_script_is_still_found(line: str, hint: str) -> None:
    command = parse_command(shlex.split(line))
    assert hint in command.problems[0].text
    assert command.script == "a.py"


def test_a_port_that_is_none_is_not_kept() -> None:
    assert parse_command(shlex.split("torchrun --master-port 70000 a.py")).master_port is None


PET = {
    "PET_NNODES": "1:2",
    "PET_NPROC_PER_NODE": "gpu",
    "PET_MASTER_ADDR": "job-master-0",
    "PET_MASTER_PORT": "23456",
    "PET_NODE_RANK": "1",
    "PET_RDZV_ENDPOINT": "job:29400",
    "PET_RDZV_BACKEND": "c10d",
    "PET_RDZV_ID": "job",
    "PET_RDZV_CONF": "timeout=1",
    "PET_MAX_RESTARTS": "3",
    "PET_LOCAL_ADDR": "10.0.0.3",
    "PET_STANDALONE": "0",
    "PET_VIRTUAL_LOCAL_RANK": "1",
}
PET_FIELDS = {
    "nnodes_min": 1,
    "nnodes_max": 2,
    "nproc": "gpu",
    "master_addr": "job-master-0",
    "master_port": 23456,
    "node_rank": 1,
    "rdzv_endpoint": "job:29400",
    "rdzv_backend": "c10d",
    "rdzv_id": "job",
    "rdzv_conf": {"timeout": "1"},
    "max_restarts": 3,
    "local_addr": "10.0.0.3",
    "virtual_local_rank": True,
}


def test_pet_variables_are_defaults_of_torchrun() -> None:
    command = parse_command(["torchrun", "a.py"], PET)
    assert command.problems == ()
    assert said(command) == torchrun(script="a.py", **PET_FIELDS)


def test_the_command_line_wins_over_pet_variables() -> None:
    command = parse_command(shlex.split("torchrun --nnodes 3 --nproc_per_node=4 --standalone a.py"), PET)
    assert (command.nnodes_min, command.nnodes_max, command.nproc, command.standalone) == (3, 3, "4", True)
    assert command.master_port == 23456


def test_pet_variables_yield_to_options_that_are_not_known_yet() -> None:
    command = parse_command(["torchrun", "$ARGS", "a.py"], PET)
    assert command.unknown == TORCHRUN_UNKNOWN


@pytest.mark.parametrize("line", ["python a.py", "accelerate launch a.py", "deepspeed a.py", "ssh n torchrun a.py"])
def test_pet_variables_are_torchruns_alone_and_stay_on_this_host(line: str) -> None:
    assert parse_command(shlex.split(line), PET).nnodes_min is None


@pytest.mark.parametrize(
    ("line", "nnodes"),
    [
        ("torchrun a.py", 7),
        ("PET_NNODES=2 torchrun a.py", 2),
        ("env PET_NNODES=2 torchrun a.py", 2),
        ("env -u PET_NNODES torchrun a.py", None),
        ("env -i torchrun a.py", None),
        ("sudo torchrun a.py", None),
        ("sudo -E torchrun a.py", 7),
        ("srun --export=NONE torchrun a.py", None),
        ("srun --export=ALL,PET_NNODES=3 torchrun a.py", 3),
        ("docker run image torchrun a.py", None),
        ("docker run -e PET_NNODES=4 image torchrun a.py", 4),
        ("bash -c 'export PET_NNODES=5; torchrun a.py'", 5),
        ("bash -c 'PET_NNODES=5; torchrun a.py'", 7),
    ],
)
def test_pet_variables_come_from_where_torchrun_would_see_them(line: str, nnodes: int | None) -> None:
    assert parse_command(shlex.split(line), {"PET_NNODES": "7"}).nnodes_max == nnodes


@pytest.mark.parametrize(
    ("name", "value"),
    [("PET_NNODES", ""), ("PET_NPROC_PER_NODE", "x"), ("PET_MASTER_PORT", "70000"), ("PET_STANDALONE", "true")],
)
def test_a_pet_variable_that_torchrun_refuses_is_a_problem_with_its_name(name: str, value: str) -> None:
    command = parse_command(["torchrun", "a.py"], {name: value})
    assert [(problem.kind, problem.word) for problem in command.problems] == [("bad-value", name)]
    assert parse_command(["python", "a.py"], {name: value}).problems == ()


@pytest.mark.parametrize(
    ("line", "gpus", "expected"),
    [
        ("torchrun a.py", 8, 1),
        ("torchrun --nproc-per-node 4 a.py", 8, 4),
        ("torchrun --nproc-per-node gpu a.py", 8, 8),
        ("torchrun --nproc-per-node gpu a.py", 0, None),
        ("torchrun --nproc-per-node gpu a.py", None, None),
        ("torchrun --nproc-per-node auto a.py", 8, 8),
        ("torchrun --nproc-per-node auto a.py", 0, 64),
        ("torchrun --nproc-per-node auto a.py", None, None),
        ("torchrun --nproc-per-node cpu a.py", 8, 64),
        ("torchrun --nproc-per-node xpu a.py", 8, None),
        ("torchrun --nproc-per-node '$N' a.py", 8, None),
        ("torchrun --nproc-per-node 0 a.py", 8, None),
        ("srun -N2 --ntasks-per-node=1 torchrun --nproc-per-node 4 a.py", 8, 4),
        ("python -m torch.distributed.launch a.py", 8, 1),
        ("accelerate launch --num_processes 16 --num_machines 2 a.py", 8, 8),
        ("accelerate launch --num_processes 4 a.py", 8, 4),
        ("accelerate launch --cpu --num_processes 2 a.py", 8, 1),
        ("accelerate launch --cpu --mpirun_hostfile hosts --num_processes 2 a.py", 8, 2),
        ("accelerate launch --num_processes 4 --config_file x.yaml a.py", 8, None),
        ("accelerate launch --num_processes '$N' a.py", 8, None),
        ("accelerate launch a.py", 8, None),
        ("deepspeed --num_gpus 4 a.py", 8, 4),
        ("deepspeed a.py", 8, 8),
        ("deepspeed a.py", None, None),
        ("deepspeed --hostfile h a.py", 8, None),
        ("deepspeed --include localhost:1,2 a.py", 8, 2),
        ("python a.py", 8, 1),
        ("salloc -n 8 -N 1 python a.py", 8, 1),
        ("srun --ntasks-per-node=4 python a.py", 8, 4),
        ("srun -N 2 -n 8 python a.py", 8, 4),
        ("srun -N 3 -n 8 python a.py", 8, None),
        ("srun -n 1 python a.py", 8, 1),
        ("srun -n 8 python a.py", 8, None),
        ("srun -n '$N' -N 2 python a.py", 8, None),
        ("mpirun -np 8 -H a:4,b:4 python a.py", 8, 4),
        ("bash run.sh", 8, None),
    ],
)
def test_processes_on_one_host_are_counted_as_the_launcher_counts_them(
    line: str, gpus: int | None, expected: int | None
) -> None:
    assert nproc_on(parse_command(shlex.split(line)), gpus=gpus, cpus=64) == expected


@pytest.mark.parametrize(
    ("endpoint", "parts"),
    [
        ("node1:29400", ("node1", "29400")),
        ("node1", ("node1", None)),
        ("[::1]:29400", ("::1", "29400")),
        ("[::1]", ("::1", None)),
        (" node1:x ", ("node1", "x")),
        ("", ("", None)),
    ],
)
def test_an_endpoint_is_split_as_torch_splits_it(endpoint: str, parts: tuple[str, str | None]) -> None:
    assert split_endpoint(endpoint) == parts


@pytest.mark.parametrize("line", [line for line, _ in GOOD_COMMANDS] + [line for line, _, _ in BAD_COMMANDS])
def test_the_line_to_paste_has_the_same_words(line: str) -> None:
    argv = shlex.split(line)
    assert shlex.split(shell_line(parse_command(argv))) == argv


@pytest.mark.parametrize(
    ("line", "assignments", "expected"),
    [
        ("torchrun a.py", {"A": "x y"}, "A='x y' torchrun a.py"),
        ("A=1 B='x y' torchrun a.py", {"A": "2", "B": "x y"}, "A=2 B='x y' torchrun a.py"),
        ("A=1 torchrun a.py A=1", {"A": "2"}, "A=2 torchrun a.py A=1"),
        ("A=1 torchrun a.py", {}, "torchrun a.py"),
        ("env A=1 torchrun a.py", {}, "env A=1 torchrun a.py"),
        ("env A=1 torchrun a.py", {"A": "2"}, "env A=2 torchrun a.py"),
        ("mpirun -x A=1 python a.py", {"A": "2", "B": "3"}, "B=3 mpirun -x A=2 python a.py"),
        ("torchrun a.py 'price is $5'", {}, "torchrun a.py 'price is $5'"),
    ],
)
def test_changed_assignments_are_written(line: str, assignments: dict[str, str], expected: str) -> None:
    command = parse_command(shlex.split(line))._replace(assignments=assignments)
    assert shell_line(command) == expected


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a b", [["a", "b"]]),
        ("a 'b c' \"d $e\" f\\ g", [["a", "b c", "d $e", "f g"]]),
        ("a; b && c || d | e & f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("a # b; c\nd#e", [["a"], ["d#e"]]),
        ("a > log 2>&1 < in &> all b2 >x", [["a", "b2"]]),
        ("a $(b | c; d) ${e:-f g} `h i` $((1 + 2))", [["a", "$(b | c; d)", "${e:-f g}", "`h i`", "$((1 + 2))"]]),
        ("if a; then ! b; fi", [["a"], ["b"], ["fi"]]),
        ("(a) { b; }", [["a"], ["b"]]),
        ("''", [[""]]),
        ("a 'b", [["a", "b"]]),
        ("a $(b", [["a", "$(b"]]),
        ("", []),
    ],
)
def test_a_shell_text_is_split_into_commands(text: str, commands: list[list[str]]) -> None:
    assert split_commands(text) == commands


WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(sorted({word for line, _ in GOOD_COMMANDS for word in shlex.split(line)})),
    st.sampled_from(sorted({word for line, _, _ in UNEXPANDED_COMMANDS for word in split_commands(line)[0]})),
    st.sampled_from(sorted(TORCHRUN.options)),
)


@given(st.lists(WORDS, max_size=12), st.dictionaries(st.sampled_from(sorted(PET)), st.text(max_size=5)))
@example(["torchrun", "-" + "m" * 5000], {})
@example(["ssh", "h"] * 500 + ["torchrun", "a.py"], {})
@example(["nohup"] * 5000, {})
@example(["bash", "-c", "bash -c " * 3000], {})
@example(["torchrun"] + ["$A"] * 2000, {})
@example(["torchrun", "--nproc-per-node", "9" * 5000, "a.py"], {})
def test_nothing_raises(argv: list[str], environ: dict[str, str]) -> None:
    command = parse_command(argv, environ)
    assert command.argv == tuple(argv)
    assert nproc_on(command, gpus=8, cpus=64) is None or command.launcher != "other"
    assert shlex.split(shell_line(command)) == argv


@given(st.text(alphabet=" \n\t'\"\\$`(){};&|<>#abc=-2", max_size=40))
def test_no_shell_text_raises(text: str) -> None:
    for words in split_commands(text):
        assert words
    parse_command(["bash", "-c", text])


PLAIN = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789._", min_size=1, max_size=10)
OPTIONS = {
    "nnodes": st.integers(1, 99).map(str) | st.integers(1, 9).map(lambda low: f"{low}:{low + 3}"),
    "nproc-per-node": st.integers(1, 16).map(str) | st.sampled_from(["gpu", "cpu", "auto", "xpu"]),
    "node-rank": st.integers(0, 99).map(str),
    "master-addr": PLAIN,
    "master-port": st.integers(0, 65535).map(str),
    "rdzv-backend": st.sampled_from(["c10d", "etcd"]),
    "rdzv-endpoint": st.builds("{}:{}".format, PLAIN, st.integers(0, 65535)),
    "rdzv-id": PLAIN,
    "local-addr": PLAIN,
    "max-restarts": st.integers(0, 9).map(str),
    "signals-to-handle": PLAIN,
    "role": PLAIN,
    "tee": PLAIN,
}


@given(
    st.dictionaries(st.sampled_from(sorted(OPTIONS)), st.tuples(st.booleans(), st.booleans(), st.data())),
    st.sets(st.sampled_from(["standalone", "module", "virtual-local-rank"])),
    st.lists(PLAIN, max_size=3),
)
def test_what_was_generated_is_what_is_read(
    choices: dict[str, tuple[bool, bool, st.DataObject]], flags: set[str], script_args: list[str]
) -> None:
    words = ["torchrun"]
    values: dict[str, str] = {}
    for option, (underscores, equals, data) in choices.items():
        values[option] = data.draw(OPTIONS[option])
        spelling = "--" + (option.replace("-", "_") if underscores else option)
        words += [f"{spelling}={values[option]}"] if equals else [spelling, values[option]]
    words += [f"--{flag}" for flag in sorted(flags)]
    if "rdzv-endpoint" in values and "rdzv-backend" not in values:
        words += ["--rdzv-backend", "c10d"]
    command = parse_command([*words, "script", *script_args])

    assert command.problems == ()
    assert command.unknown == frozenset()
    assert (command.script, command.script_args) == ("script", tuple(script_args))
    assert {flag for flag in ("standalone", "module") if getattr(command, flag)} == flags - {"virtual-local-rank"}
    assert command.virtual_local_rank == ("virtual-local-rank" in flags)
    nnodes = values.pop("nnodes", None)
    if nnodes is not None:
        assert [command.nnodes_min, command.nnodes_max] == [int(part) for part in (nnodes.split(":") * 2)[:2]]
    for option in ("role", "tee"):
        values.pop(option, None)
    for option, value in values.items():
        field = "nproc" if option == "nproc-per-node" else option.replace("-", "_")
        assert str(getattr(command, field)) == value


def argparse_reads(words: list[str]) -> dict[str, Any] | None:
    """The same options in Python's own argparse; None where it refuses."""
    parser = argparse.ArgumentParser(add_help=False)
    names = sorted(set(TORCHRUN.options.values()))
    for name in names:
        spellings = [option for option in TORCHRUN.options if TORCHRUN.options[option] == name]
        if name in TORCHRUN.flags:
            parser.add_argument(*spellings, dest=name, action="store_true")
        else:
            parser.add_argument(*spellings, dest=name)
    parser.add_argument("script")
    parser.add_argument("script_args", nargs=argparse.REMAINDER)

    def refuse(message: str) -> Any:
        raise ValueError(message)

    parser.error = refuse  # type: ignore[method-assign]
    try:
        return vars(parser.parse_args(words))
    except (ValueError, argparse.ArgumentError):
        return None


LONG_OPTIONS = sorted(option for option in TORCHRUN.options if option.startswith("--"))
OPTION_WORDS = st.one_of(
    st.sampled_from(sorted(TORCHRUN.options)),
    st.builds(lambda option, length: option[: max(3, length)], st.sampled_from(LONG_OPTIONS), st.integers(3, 24)),
)
# argparse loses the value of --option=-- and, by version, a -- right behind the script: neither is a case here.
VALUE_WORDS = st.sampled_from(
    ["8", "gpu", "-1", "-1.5", "x y", "", "-", "a=b", "-x", "train.py", "--standalone", "-r3"]
)
LINES = st.lists(
    st.one_of(
        st.tuples(OPTION_WORDS),
        st.tuples(OPTION_WORDS, VALUE_WORDS),
        # argparse reads -h=t3 as a cluster of -h and -t3, which nobody writes
        st.builds(
            lambda option, value: (f"{option}={value}",),
            OPTION_WORDS.filter(lambda word: word not in ("-h", "-m")),
            VALUE_WORDS,
        ),
        st.tuples(st.sampled_from(["-r", "-t"])).map(lambda option: (option[0] + "3",)),
    ),
    max_size=5,
).flatmap(
    lambda parts: st.lists(VALUE_WORDS, max_size=3).map(
        lambda rest: [*(word for part in parts for word in part), *rest]
    )
)


@given(LINES)
def test_options_are_read_as_argparse_reads_them(words: list[str]) -> None:
    theirs = argparse_reads(words)
    ours = read_arguments(words, TORCHRUN)
    if theirs is None:
        command = parse_command(["torchrun", *words])
        # Before Python 3.12.8 argparse also refuses for the sake of words behind the script.
        refused = command.problems or command.shadowed_script_args or "help" in ours.flags
        assert refused or "print-completion" in ours.given
        return
    assert ours.problems == ()
    assert [theirs["script"], *theirs["script_args"]] == list(ours.rest)
    for name in set(TORCHRUN.options.values()):
        expected = (
            name in ours.flags if name in TORCHRUN.flags else ours.given[name].value if name in ours.given else None
        )
        assert theirs[name] == expected


@pytest.mark.skipif(
    sys.version_info >= (3, 12, 8), reason="argparse sorts out only the words before the script since 3.12.8"
)
@pytest.mark.parametrize("argument", ["--log=x", "--local", "--node", "--run", "--max=3"])
def test_argparse_of_this_python_refuses_what_is_called_shadowed(argument: str) -> None:
    assert parse_command(["torchrun", "a.py", argument]).shadowed_script_args == (argument,)
    assert argparse_reads(["a.py", argument]) is None
    assert argparse_reads(["--", "a.py", argument]) is not None
    assert parse_command(["torchrun", "--", "a.py", argument]).shadowed_script_args == ()


def test_reading_a_command_imports_nothing_heavy() -> None:
    import subprocess

    code = (
        "import sys; before = set(sys.modules); from distcheck.launch.command import parse_command;"
        "parse_command(['torchrun', '--nproc-per-node', '8', 'a.py']);"
        "print(sorted({'argparse', 'difflib', 'subprocess', 'inspect', 'dataclasses'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
