"""The launch that a run is about."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.launch.model import Launch
from distcheck.launch.reader import C10D_DEFAULT_PORT, LaunchOptions, make_launch
from tests.checks.host.launches import (
    OPENMPI_TASK,
    PYTORCHJOB_POD,
    SBATCH_BODY,
    SRUN_TASK,
    SRUN_TASK_A_NODE,
    TORCHRUN_WORKER,
    make,
)

MAPPED = {
    **SRUN_TASK,
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
}
EXPORTED = {"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "12345"}


# stages


@pytest.mark.parametrize(
    ("environ", "how", "stage"),
    [
        pytest.param({}, {}, "shell", id="desktop"),
        pytest.param({"RANK": "", "WORLD_SIZE": ""}, {}, "shell", id="empty is unset"),
        pytest.param(EXPORTED, {}, "shell", id="a meeting place alone is no rank"),
        pytest.param(SBATCH_BODY, {}, "shell", id="body of a job script"),
        pytest.param(SRUN_TASK_A_NODE, {}, "shell", id="step before its torchrun"),
        pytest.param(PYTORCHJOB_POD, {}, "shell", id="pod before its torchrun"),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "x", "RANK": "0", "WORLD_SIZE": "2"}, {}, "shell", id="pod without PET_"
        ),
        pytest.param(PYTORCHJOB_POD, {"launched": True}, "rank", id="pod, said to be launched"),
        pytest.param({**PYTORCHJOB_POD, "LOCAL_RANK": "0"}, {}, "rank", id="in a pod, after its launcher"),
        pytest.param({**PYTORCHJOB_POD, **OPENMPI_TASK}, {}, "rank", id="task of an MPIJob"),
        pytest.param({}, {"launched": True}, "rank", id="--launched"),
        pytest.param({"LOCAL_RANK": "0"}, {}, "rank", id="one of three is enough"),
        pytest.param(TORCHRUN_WORKER, {}, "rank", id="torchrun"),
        pytest.param({}, {"options": LaunchOptions(nproc_per_node="8")}, "planned", id="options"),
        pytest.param(PYTORCHJOB_POD, {"options": LaunchOptions(nproc_per_node="8")}, "planned", id="options in a pod"),
        pytest.param({}, {"command": "torchrun t.py"}, "planned", id="command"),
        pytest.param(TORCHRUN_WORKER, {"command": "torchrun t.py"}, "planned", id="command inside of a rank"),
        pytest.param(
            TORCHRUN_WORKER, {"options": LaunchOptions(backend="gloo")}, "rank", id="options inside of a rank"
        ),
    ],
)
def test_stage(environ: Mapping[str, str], how: dict[str, object], stage: str) -> None:
    assert make(environ, **how).stage == stage  # type: ignore[arg-type]


# rank


def test_a_worker_of_torchrun() -> None:
    launch = make(TORCHRUN_WORKER)
    assert (launch.launcher, launch.scheduler) == ("torchrun", None)
    assert (launch.rank, launch.local_rank, launch.world_size, launch.local_world_size) == (1, 1, 2, 2)
    assert (launch.node_rank, launch.nnodes, launch.ranks_here, launch.max_restarts) == (0, 1, 2, 0)
    assert (launch.master_addr, launch.master_port) == ("node1.example", 41235)
    assert launch.agent_store
    assert not launch.port_chosen
    assert launch.serves_store is False


def test_a_leaked_agent_store_is_no_agent() -> None:
    assert not make({"RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"}).agent_store
    assert not make({**TORCHRUN_WORKER, "TORCHELASTIC_USE_AGENT_STORE": "true"}).agent_store


def test_tasks_with_mapped_variables() -> None:
    launch = make(MAPPED)
    assert (launch.launcher, launch.scheduler) == ("slurm", "slurm")
    assert (launch.rank, launch.node_rank, launch.nnodes, launch.ranks_here) == (9, 1, 2, 8)
    assert (launch.port_chosen, launch.serves_store) == (True, False)


@pytest.mark.parametrize(
    ("environ", "launcher"),
    [
        ({**SRUN_TASK_A_NODE, **TORCHRUN_WORKER}, "torchrun"),
        ({**OPENMPI_TASK, "RANK": "3"}, "openmpi"),
        ({"PMI_RANK": "0", "PMI_SIZE": "2", "RANK": "0"}, "pmi"),
        ({"MV2_COMM_WORLD_RANK": "0", "RANK": "0"}, "mvapich"),
        ({"RANK": "0", "CROSS_RANK": "0", "CROSS_SIZE": "1"}, "deepspeed"),
        ({"RANK": "0", "ACCELERATE_MIXED_PRECISION": "no"}, "accelerate"),
        ({"RANK": "0"}, None),
    ],
)
def test_launcher_of_a_rank(environ: Mapping[str, str], launcher: str | None) -> None:
    assert make(environ).launcher == launcher


def test_torchrun_in_a_step_has_its_own_nodes() -> None:
    """Tasks of srun are agents there, and no ranks."""
    launch = make({**SRUN_TASK_A_NODE, **TORCHRUN_WORKER})
    assert (launch.nnodes, launch.node_rank, launch.scheduler) == (1, 0, "slurm")


def test_values_that_cannot_be_read_are_kept_as_text() -> None:
    launch = make({"RANK": "abc", "WORLD_SIZE": "2", "MASTER_PORT": "70000", "LOCAL_RANK": ""})
    assert (launch.rank, launch.world_size, launch.master_port) == (None, 2, None)
    assert launch.variables["RANK"] == "abc"
    assert launch.variables["MASTER_PORT"] == "70000"
    assert launch.empty == {"LOCAL_RANK"}


def test_options_fill_in_what_a_rank_does_not_say() -> None:
    launch = make(TORCHRUN_WORKER, options=LaunchOptions(backend="gloo", nnodes="4", master_port=1))
    assert (launch.backend, launch.nnodes, launch.master_port, launch.port_chosen) == ("gloo", 1, 41235, False)
    launch = make({"RANK": "0"}, options=LaunchOptions(nnodes="4", master_port=1234))
    assert (launch.nnodes, launch.master_port, launch.port_chosen) == (4, 1234, True)


# planned: torchrun


@pytest.mark.parametrize(
    "command", ["torchrun t.py", "torchrun --standalone t.py", "torchrun --nproc-per-node=2 --nnodes=1 t.py"]
)
def test_one_node_meets_on_a_free_port(command: str) -> None:
    """Whatever is exported: torchrun does not look at MASTER_PORT."""
    launch = make(EXPORTED, command=command)
    assert (launch.master_addr, launch.master_port, launch.rdzv_backend, launch.rdzv_endpoint) == (
        None,
        None,
        "c10d",
        "localhost:0",
    )
    assert launch.standalone
    assert not launch.static_rendezvous
    assert not launch.port_chosen


@pytest.mark.parametrize(
    ("environ", "command", "place", "chosen", "backend"),
    [
        pytest.param({}, "torchrun --nnodes=2 t.py", ("127.0.0.1", 29500), False, "static", id="defaults"),
        pytest.param({}, "torchrun --nnodes=2 --master-addr=a t.py", ("a", 29500), False, "static", id="default port"),
        pytest.param(
            {},
            "torchrun --master-port=1234 t.py",
            ("127.0.0.1", 1234),
            True,
            "static",
            id="a port makes one node static",
        ),
        pytest.param({"PET_MASTER_PORT": "1234"}, "torchrun t.py", ("127.0.0.1", 1234), True, "static", id="PET_"),
        pytest.param(
            {}, "torchrun --nnodes=2 --master-addr=[fe80::1] t.py", ("fe80::1", 29500), False, "static", id="IPv6"
        ),
        pytest.param(
            {},
            "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a t.py",
            ("a", C10D_DEFAULT_PORT),
            False,
            "c10d",
            id="c10d's port",
        ),
        pytest.param(
            {},
            "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a:1234 t.py",
            ("a", 1234),
            True,
            "c10d",
            id="c10d",
        ),
        pytest.param(
            {},
            "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 t.py",
            ("localhost", None),
            False,
            "c10d",
            id="port 0",
        ),
        pytest.param(
            {},
            "torchrun --nnodes=2 --rdzv-endpoint=a:1234 t.py",
            ("a", 1234),
            True,
            "static",
            id="static with endpoint",
        ),
        pytest.param(
            {},
            "torchrun --nnodes=2 --rdzv-backend=etcd --rdzv-endpoint=a:2379 t.py",
            (None, None),
            False,
            "etcd",
            id="etcd",
        ),
        pytest.param(
            {},
            "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=[::1]:1234 t.py",
            ("::1", 1234),
            True,
            "c10d",
            id="v6",
        ),
    ],
)
def test_where_torchrun_meets(
    environ: dict[str, str], command: str, place: tuple[str | None, int | None], chosen: bool, backend: str
) -> None:
    launch = make({**EXPORTED, **environ}, command=command)
    assert (launch.master_addr, launch.master_port) == place
    assert (launch.port_chosen, launch.rdzv_backend) == (chosen, backend)


def test_what_only_the_shell_knows_stays_open() -> None:
    launch = make({}, command="torchrun --nnodes='$N' --nproc-per-node='$P' --master-addr='$A' --master-port='$M' t.py")
    assert (launch.nnodes, launch.nnodes_max, launch.nproc, launch.master_addr, launch.master_port) == (None,) * 5
    assert make({}, command="torchrun --nnodes='$N' t.py").master_port == 29500


@pytest.mark.parametrize(("text", "nproc"), [("8", 8), ("gpu", None), ("auto", None), ("cpu", None), ("abc", None)])
def test_processes_of_torchrun(text: str, nproc: int | None) -> None:
    launch = make({}, command=f"torchrun --nproc-per-node={text} t.py")
    assert (launch.nproc, launch.nproc_text) == (nproc, text)


def test_nodes_and_node_rank() -> None:
    static = make({}, command="torchrun --nnodes=2 --node-rank=1 --master-addr=a t.py")
    assert (static.nnodes, static.nnodes_max, static.node_rank, static.serves_store) == (2, 2, 1, False)
    elastic = make({}, command="torchrun --nnodes=1:4 --node-rank=1 --rdzv-backend=c10d --rdzv-endpoint=a t.py")
    assert (elastic.nnodes, elastic.nnodes_max, elastic.node_rank, elastic.serves_store) == (1, 4, None, None)


# planned: others


def test_accelerate_and_deepspeed() -> None:
    launch = make({}, command="accelerate launch --num_processes 16 --num_machines 2 --main_process_ip 10.0.0.1 t.py")
    assert (launch.launcher, launch.nnodes, launch.nproc) == ("accelerate", 2, 8)
    assert (launch.master_addr, launch.master_port, launch.port_chosen) == ("10.0.0.1", 29500, False)
    alone = make({}, command="accelerate launch --num_processes 2 t.py")
    assert (alone.nnodes, alone.master_port) == (1, None)
    deepspeed = make({}, command="deepspeed --num_gpus 4 t.py")
    assert (deepspeed.nnodes, deepspeed.nproc, deepspeed.master_addr, deepspeed.master_port) == (
        1,
        4,
        "127.0.0.1",
        29500,
    )
    assert make({}, command="deepspeed --hostfile hosts t.py").nnodes is None


def test_plain_python_sees_the_variables() -> None:
    launch = make({**EXPORTED, "RANK": "1", "WORLD_SIZE": "2"}, command="python t.py --x")
    assert (launch.launcher, launch.rank, launch.world_size, launch.script) == ("python", 1, 2, "t.py")
    assert (launch.master_addr, launch.master_port, launch.port_chosen, launch.nproc) == ("10.0.0.9", 12345, True, None)
    assert make({"RANK": "1"}, command="RANK=3 python t.py").rank == 3


def test_srun_python_gives_tasks() -> None:
    launch = make({"RANK": "0"}, command="srun -N 2 --ntasks-per-node=8 python t.py")
    assert (launch.launcher, launch.nnodes, launch.nproc, launch.rank) == ("slurm", 2, 8, None)
    launch = make({}, command="srun bash -c 'export RANK=$SLURM_PROCID; exec python t.py'")
    assert launch.variables["RANK"] == "$SLURM_PROCID"
    assert launch.rank is None


def test_an_unknown_program_is_no_launcher() -> None:
    launch = make(EXPORTED, command="bash run.sh")
    assert (launch.stage, launch.launcher, launch.script) == ("planned", None, "run.sh")


def test_options_over_a_command() -> None:
    launch = make({}, command="torchrun t.py", options=LaunchOptions(backend="nccl", nproc_per_node="4"))
    assert (launch.backend, launch.nproc, launch.nproc_text) == ("nccl", 4, "4")


# options alone


def test_options_describe_a_launch_of_torchrun() -> None:
    launch = make(EXPORTED, options=LaunchOptions(nproc_per_node="8"))
    assert (launch.launcher, launch.nproc, launch.nnodes, launch.master_port) == ("torchrun", 8, 1, None)
    launch = make(EXPORTED, options=LaunchOptions(nnodes="2", node_rank=0, master_addr="10.0.0.1", master_port=1234))
    assert (launch.nnodes, launch.node_rank, launch.master_addr, launch.master_port, launch.port_chosen) == (
        2,
        0,
        "10.0.0.1",
        1234,
        True,
    )
    assert launch.serves_store is True


def test_options_say_only_a_part() -> None:
    """Nobody said that two nodes would meet on the loopback address."""
    launch = make({}, options=LaunchOptions(nnodes="2"))
    assert (launch.master_addr, launch.master_port) == (None, 29500)
    assert make({}, options=LaunchOptions(master_addr="10.0.0.1")).nnodes is None


def test_pet_variables_fill_in_options() -> None:
    launch = make(PYTORCHJOB_POD, options=LaunchOptions(backend="nccl", nproc_per_node="4"))
    assert (launch.nproc, launch.nnodes, launch.node_rank, launch.master_addr) == (4, 2, 1, "job-master-0")


def test_the_backend_alone_says_nothing_about_torchrun() -> None:
    launch = make(EXPORTED, options=LaunchOptions(backend="nccl"))
    assert (launch.stage, launch.launcher, launch.backend, launch.master_port) == ("planned", None, "nccl", 12345)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (LaunchOptions(nproc_per_node="abc"), "--nproc-per-node is 'abc'"),
        (LaunchOptions(nproc_per_node="0"), "at least 1"),
        (LaunchOptions(nnodes="a"), "--nnodes is 'a'"),
        (LaunchOptions(nnodes="4:2"), "MIN:MAX"),
        (LaunchOptions(node_rank=-1), "--node-rank is -1"),
        (LaunchOptions(master_port=70000), "65535"),
    ],
)
def test_options_that_cannot_be_read(options: LaunchOptions, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make({}, options=options)


# where it runs


@pytest.mark.parametrize(
    ("environ", "command", "host", "here"),
    [
        ({}, "torchrun t.py", "login1", True),
        ({}, "sbatch job.sh", "login1", False),
        (SBATCH_BODY, "sbatch job.sh", "gpu01", False),
        ({}, "srun torchrun t.py", "login1", False),
        ({}, "salloc -N 2 srun torchrun t.py", "login1", False),
        ({}, "kubectl exec pod -- torchrun t.py", "laptop", False),
        ({}, "ray job submit -- torchrun t.py", "laptop", False),
        ({}, "gantry run -- torchrun t.py", "laptop", False),
        ({}, "torchx run -s slurm dist.ddp -j 2x8 --script t.py", "laptop", False),
        ({}, "torchx run --scheduler=kubernetes dist.ddp -j 2x8 --script t.py", "laptop", False),
        ({}, "torchx run -s local_cwd dist.ddp -j 1x8 --script t.py", "laptop", True),
        # its configuration decides, and -s is an option of the script
        ({}, "torchx run dist.ddp -j 1x8 --script t.py -- -s slurm", "laptop", True),
        ({}, "timeout -s KILL 60 torchrun t.py", "laptop", True),
        ({}, "ssh node7 torchrun t.py", "node1", False),
        (SBATCH_BODY, "srun torchrun t.py", "gpu01.cluster", True),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "gpu[01-02]"}, "srun torchrun t.py", "login1", False),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "gpu[01-02]"}, "srun torchrun t.py", "", True),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "gpu[01-02]"}, "mpirun -np 2 python t.py", "login1", False),
        ({}, "mpirun -np 8 python t.py", "node1", True),
        ({}, "mpirun -np 8 -H node1:4,node2:4 python t.py", "node1.cluster", True),
        ({}, "mpirun -np 8 -H node2:4,node3:4 python t.py", "node1", False),
        ({}, "mpirun -np 8 -H localhost:8 python t.py", "node1", True),
        ({}, "flux run -n 2 python t.py", "login1", False),
    ],
)
def test_on_this_host(environ: Mapping[str, str], command: str, host: str, here: bool) -> None:
    assert make(environ, command=command, host_name=host).on_this_host is here


@given(
    st.dictionaries(st.sampled_from(sorted({**TORCHRUN_WORKER, **SRUN_TASK, **PYTORCHJOB_POD})), st.text(max_size=20)),
    st.booleans(),
)
def test_no_environment_is_a_crash(environ: dict[str, str], launched: bool) -> None:
    launch = make_launch(environ, launched=launched)
    assert isinstance(launch, Launch)
    assert launch.stage == "rank" or not launched
    assert all(launch.variables.values())
