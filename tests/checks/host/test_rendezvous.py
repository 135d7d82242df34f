"""The five variables of the rendezvous, and what healthy places look like to all modules that judge a launch."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host.devices import Devices
from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.launcher import Script
from distcheck.checks.host.processes import Ancestor, Ancestry
from distcheck.core.model import Finding, Severity
from distcheck.launch.endpoint import is_node_list
from distcheck.launch.model import RENDEZVOUS_VARIABLES
from distcheck.launch.reader import LaunchOptions

from .launches import (
    OPENMPI_TASK,
    PYTORCHJOB_POD,
    SBATCH_BODY,
    SRUN_TASK,
    SRUN_TASK_A_NODE,
    TERMINAL,
    TORCHRUN_WORKER,
    UNDER_TORCHRUN,
    codes,
    judge,
)

EIGHT_GPUS = Devices((), tuple(str(index) for index in range(8)))
#: all that env:// asks for, well set by hand for one process
BY_HAND = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "LOCAL_RANK": "0"}
MAPPED = {
    **SRUN_TASK,
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
}
SECOND_NODE = {"RANK": "3", "WORLD_SIZE": "4", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"}
NOTEBOOK = Ancestry(
    (Ancestor(50, "python3", ("python3", "-m", "ipykernel_launcher")),), terminal=False, surroundings="jupyter"
)
TMUX = TERMINAL._replace(keepers=("tmux",), under_nohup=True)


def only(findings: list[Finding], code: str) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


# healthy places


@pytest.mark.parametrize(
    ("environ", "facts", "how"),
    [
        pytest.param({}, (), {}, id="stock desktop"),
        pytest.param(
            {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}, (), {}, id="desktop with an exported meeting place"
        ),
        pytest.param(
            {}, (EIGHT_GPUS,), {"command": "torchrun --standalone --nproc-per-node=8 t.py"}, id="torchrun on a desktop"
        ),
        pytest.param(SBATCH_BODY, (EIGHT_GPUS,), {}, id="body of a job script"),
        pytest.param(SRUN_TASK_A_NODE, (EIGHT_GPUS,), {}, id="srun --ntasks-per-node=1 distcheck env"),
        pytest.param(SRUN_TASK, (EIGHT_GPUS,), {}, id="srun distcheck env, a task a GPU"),
        pytest.param(PYTORCHJOB_POD, (EIGHT_GPUS,), {}, id="PyTorchJob pod before its torchrun"),
        pytest.param(PYTORCHJOB_POD, (EIGHT_GPUS,), {"command": "torchrun t.py"}, id="its torchrun"),
        pytest.param(TORCHRUN_WORKER, (UNDER_TORCHRUN,), {}, id="worker of torchrun"),
        pytest.param(
            {**TORCHRUN_WORKER, "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "1"},
            (UNDER_TORCHRUN,),
            {},
            id="--virtual-local-rank",
        ),
        pytest.param(
            {**PYTORCHJOB_POD, **TORCHRUN_WORKER}, (UNDER_TORCHRUN, EIGHT_GPUS), {}, id="worker of torchrun in a pod"
        ),
        pytest.param(
            {**SRUN_TASK_A_NODE, **TORCHRUN_WORKER, **SECOND_NODE},
            (UNDER_TORCHRUN,),
            {},
            id="worker of torchrun in a task of srun",
        ),
        pytest.param({**SRUN_TASK_A_NODE, **TORCHRUN_WORKER}, (UNDER_TORCHRUN,), {}, id="one job of torchrun a task"),
        pytest.param(
            {}, (), {"command": "srun -n 2 torchrun --standalone --nproc-per-node=2 t.py"}, id="the same, said so"
        ),
        pytest.param(MAPPED, (EIGHT_GPUS,), {}, id="one task a GPU, variables mapped"),
        pytest.param(
            {
                **OPENMPI_TASK,
                "RANK": "3",
                "LOCAL_RANK": "3",
                "WORLD_SIZE": "8",
                "MASTER_ADDR": "n1",
                "MASTER_PORT": "1234",
            },
            (),
            {},
            id="mpirun, variables mapped",
        ),
        pytest.param(BY_HAND, (NOTEBOOK,), {}, id="one process by hand"),
        pytest.param({}, (TMUX,), {"command": "nohup torchrun --nproc-per-node=8 t.py"}, id="nohup in tmux"),
        pytest.param({}, (), {"command": "nohup setsid torchrun t.py"}, id="nohup setsid"),
        pytest.param({}, (), {"options": LaunchOptions(nproc_per_node="8")}, id="options"),
        pytest.param(
            SBATCH_BODY,
            (EIGHT_GPUS,),
            {
                "command": "srun --ntasks=2 --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=8 "
                "--rdzv-backend=c10d --rdzv-endpoint=gpu01:29400 t.py",
                "host_name": "gpu01",
            },
            id="srun torchrun, one a node",
        ),
        pytest.param(
            {},
            (),
            {
                "command": "srun -N2 --ntasks-per-node=8 bash -c 'export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS "
                "LOCAL_RANK=$SLURM_LOCALID MASTER_ADDR=a MASTER_PORT=1234; exec python t.py'"
            },
            id="srun python, variables mapped in each task",
        ),
        pytest.param({}, (), {"command": "sbatch job.sh"}, id="sbatch from a login node"),
        pytest.param({}, (), {"command": "bash run.sh"}, id="a script of which nothing is known"),
        pytest.param({}, (Script("t.py", "starts its ranks itself"),), {"command": "python t.py"}, id="mp.spawn"),
        pytest.param({"TORCHELASTIC_USE_AGENT_STORE": "False", **BY_HAND}, (), {}, id="agent store off"),
    ],
)
def test_good_dc101_places_give_nothing_above_info(
    environ: Mapping[str, str], facts: tuple[object, ...], how: dict[str, object]
) -> None:
    assert codes(judge(environ, *facts, **how)) == []  # type: ignore[arg-type]


# DC101


def test_bad_plain_python_names_all_five_and_the_line_for_this_machine() -> None:
    (finding,) = judge({}, EIGHT_GPUS, command="python train.py --lr 1")
    assert (finding.code, finding.severity) == ("DC101", Severity.ERROR)
    assert all(name in finding.message for name in RENDEZVOUS_VARIABLES)
    assert finding.fix.command == "torchrun --standalone --nproc-per-node=8 train.py --lr 1"
    assert finding.fix.where == "launch-line"


def test_info_where_nothing_is_set_and_nobody_launched() -> None:
    (finding,) = judge({})
    assert (finding.code, finding.severity) == ("DC101", Severity.INFO)
    assert all(name in finding.message for name in RENDEZVOUS_VARIABLES)
    assert finding.evidence["variables"] == dict.fromkeys(RENDEZVOUS_VARIABLES, "absent")
    assert finding.fix.command == "torchrun --standalone --nproc-per-node=1 train.py"


@pytest.mark.parametrize(
    ("environ", "facts", "how", "words"),
    [
        pytest.param({}, (), {"launched": True}, "no launcher has set them", id="--launched"),
        pytest.param({}, (NOTEBOOK,), {"launched": True}, "notebook's kernel", id="notebook"),
        pytest.param({}, (NOTEBOOK._replace(surroundings="pycharm"),), {"launched": True}, "PyCharm", id="PyCharm"),
        pytest.param({"RANK": "0"}, (), {}, "exported in a shell", id="leaked export"),
        pytest.param(
            {**BY_HAND, "MASTER_ADDR": ""}, (), {}, "MASTER_ADDR is set but empty", id="empty counts as unset"
        ),
        pytest.param(
            {**BY_HAND, "MASTER_PORT": "", "MASTER_ADDR": ""}, (), {}, "are set but empty", id="two are empty"
        ),
        pytest.param(
            {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
            (),
            {"launched": True},
            "slurm",
            id="one task",
        ),
    ],
)
def test_bad_missing_variables(
    environ: Mapping[str, str], facts: tuple[object, ...], how: dict[str, object], words: str
) -> None:
    (finding,) = judge(environ, *facts, **how)  # type: ignore[arg-type]
    assert (finding.code, finding.severity) == ("DC101", Severity.ERROR)
    assert words in finding.message


def test_local_rank_alone_is_no_error() -> None:
    (finding,) = judge({name: value for name, value in BY_HAND.items() if name != "LOCAL_RANK"})
    assert (finding.code, finding.severity) == ("DC101", Severity.INFO)
    assert "LOCAL_RANK" in finding.fix.text


def test_a_notebook_can_run_one_process() -> None:
    (finding,) = judge({}, NOTEBOOK, launched=True)
    assert "os.environ.update" in finding.fix.text


def test_the_line_in_a_job_of_two_nodes() -> None:
    (finding,) = judge(SBATCH_BODY)
    assert finding.severity is Severity.INFO
    assert finding.fix.command is not None
    assert finding.fix.command.startswith(
        "srun --ntasks=$SLURM_NNODES --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES"
    )
    assert finding.fix.where == "job-script"


def test_gpus_are_counted_without_masks_too() -> None:
    gpus = Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", "H100") for index in range(4)))
    (finding,) = judge({}, gpus)
    assert finding.evidence["processes"] == 4


def test_a_line_never_holds_a_credential() -> None:
    (finding,) = judge({}, command="python t.py --api-key sesame")
    assert finding.fix.command is None
    assert "sesame" not in repr(finding)


def test_the_proposed_line_fixes_it() -> None:
    (finding,) = judge({}, EIGHT_GPUS, command="python -m pkg.train --lr 1")
    assert finding.fix.command == "torchrun --standalone --nproc-per-node=8 -m pkg.train --lr 1"
    assert judge({}, EIGHT_GPUS, command=finding.fix.command) == []


# DC102


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("RANK", "abc", "a whole number"),
        ("RANK", "-1", "a whole number from 0"),
        ("WORLD_SIZE", "0", "from 1"),
        ("WORLD_SIZE", "2.0", "from 1"),
        ("LOCAL_RANK", "zero", "from 0"),
        ("MASTER_PORT", "70000", "65535"),
        ("MASTER_PORT", "-1", "65535"),
        ("MASTER_PORT", "FREEPORT", "FREEPORT"),
        ("MASTER_PORT", "tcp://10.1.2.3:29500", "expected a port"),
        ("MASTER_ADDR", "tcp://10.0.0.1", "scheme"),
        ("MASTER_ADDR", " node1", "blanks"),
        ("MASTER_ADDR", "node1\n", "blanks"),
        ("MASTER_ADDR", "'node1'", "quotes"),
        ("MASTER_ADDR", "[fe80::1]", "brackets"),
        ("MASTER_ADDR", "10.0.0.1/24", "slash"),
        ("MASTER_ADDR", "node1:29500", "port as well"),
        ("MASTER_ADDR", "$(hostname)", "it was not replaced by a value"),
        ("MASTER_ADDR", "<your-ip>", "it was not replaced by a value"),
    ],
)
def test_bad_values(name: str, value: str, words: str) -> None:
    (finding,) = only(judge({**BY_HAND, name: value}), "DC102")
    assert (finding.code, finding.severity, finding.where.variable) == ("DC102", Severity.ERROR, name)
    assert words in finding.message
    # without a launch it is worth knowing at most
    shell = {key: text for key, text in {name: value}.items() if key.startswith("MASTER")}
    assert codes(judge(shell)) == []


def test_bad_port_of_a_service_named_master() -> None:
    pod = {
        **BY_HAND,
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "MASTER_SERVICE_HOST": "10.1.2.3",
        "MASTER_PORT": "tcp://10.1.2.3:29500",
    }
    (finding,) = only(judge(pod), "DC102")
    assert "Service" in finding.message
    assert "enableServiceLinks" in finding.fix.text


def test_bad_port_zero_with_several_ranks() -> None:
    (finding,) = only(judge({**BY_HAND, "WORLD_SIZE": "2", "MASTER_PORT": "0"}), "DC102")
    assert "any free port" in finding.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RANK", " 0\n"),  # torch uses Python's int
        ("WORLD_SIZE", "+1"),
        ("MASTER_PORT", "0"),  # one rank
        ("MASTER_PORT", " 29500 "),
        ("MASTER_ADDR", "fe80::1"),
        ("MASTER_ADDR", "::1"),
        ("MASTER_ADDR", "node-1.cluster.example"),
        ("MASTER_ADDR", "job_master_0"),
        ("LOCAL_RANK", "-1"),  # "not distributed" in older scripts: info
    ],
)
def test_good_values(name: str, value: str) -> None:
    assert codes(judge({**BY_HAND, name: value})) == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("torchrun --nproc-per-node=abc t.py", "abc"),
        ("torchrun --master-port=70000 t.py", "70000"),
        ("torchrun --rdzv-backend=c10d --rdzv-endpoint=tcp://a:29400 t.py", "scheme"),
        ("torchrun --rdzv-backend=c10d --rdzv-endpoint=a:70000 t.py", "70000"),
        ("torchrun --nnodes=2 --rdzv-endpoint=a t.py", "port"),
    ],
)
def test_bad_options(command: str, words: str) -> None:
    (finding,) = judge({}, command=command)
    assert (finding.code, finding.severity) == ("DC102", Severity.ERROR)
    assert words in finding.message


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        # torchrun sets these itself
        ({"RANK": "abc", "MASTER_PORT": "tcp://10.1.2.3:29500", "MASTER_ADDR": "[::1]"}, "torchrun t.py"),
        ({}, "torchrun --nnodes=2 --master-addr=[fe80::1] t.py"),
        ({}, "torchrun --rdzv-backend=c10d --rdzv-endpoint=[fe80::1]:29400 t.py"),
        ({}, "torchrun --rdzv-backend=c10d --rdzv-endpoint='$HEAD:29400' t.py"),
        ({}, "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 t.py"),
    ],
)
def test_good_options(environ: Mapping[str, str], command: str) -> None:
    assert judge(environ, command=command) == []


@given(st.fixed_dictionaries({name: st.text(max_size=20) for name in RENDEZVOUS_VARIABLES}), st.booleans())
def test_any_values_get_an_answer(environ: dict[str, str], launched: bool) -> None:
    for finding in judge(environ, launched=launched):
        assert finding.message
        assert finding.fix.text


# DC104


@pytest.mark.parametrize("how", [{"command": "python t.py"}, {"launched": True}])
def test_bad_agent_store_without_an_agent(how: dict[str, object]) -> None:
    (finding,) = only(judge({"TORCHELASTIC_USE_AGENT_STORE": "True", **BY_HAND}, **how), "DC104")  # type: ignore[arg-type]
    assert (finding.code, finding.severity) == ("DC104", Severity.WARNING)
    assert finding.fix.command == "unset ${!TORCHELASTIC_*}"


@pytest.mark.parametrize(
    ("environ", "ancestry", "how"),
    [
        pytest.param(TORCHRUN_WORKER, UNDER_TORCHRUN, {}, id="worker"),
        pytest.param(
            {"TORCHELASTIC_USE_AGENT_STORE": "True"}, TERMINAL, {"command": "torchrun t.py"}, id="torchrun sets it anew"
        ),
        pytest.param({"TORCHELASTIC_USE_AGENT_STORE": "true", **BY_HAND}, TERMINAL, {}, id="torch compares with True"),
        pytest.param({}, TERMINAL, {}, id="not set"),
    ],
)
def test_good_agent_store(environ: Mapping[str, str], ancestry: Ancestry, how: dict[str, object]) -> None:
    assert only(judge(environ, ancestry, **how), "DC104") == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ancestry",
    [
        pytest.param(
            Ancestry((Ancestor(9, "python3", ("python3", "my_agent.py")), *TERMINAL.ancestors)),
            id="an agent of one's own",
        ),
        pytest.param(TERMINAL._replace(complete=False), id="hidden ancestors"),
    ],
)
def test_an_agent_that_may_be_there_is_info(ancestry: Ancestry) -> None:
    (finding,) = only(judge(TORCHRUN_WORKER, ancestry), "DC104")
    assert finding.severity is Severity.INFO


# DC109


@pytest.mark.parametrize(
    ("value", "first"),
    [
        ("gpu[01-04]", "gpu01"),
        ("gpu01,gpu02", "gpu01"),
        ("10.0.0.1 172.17.0.1", "10.0.0.1"),
        ("10.0.0.1\n172.17.0.1\n", "10.0.0.1"),
    ],
)
def test_bad_address_is_a_list(value: str, first: str) -> None:
    (finding,) = judge({**MAPPED, "MASTER_ADDR": value})
    assert (finding.code, finding.severity, finding.where.variable) == ("DC109", Severity.ERROR, "MASTER_ADDR")
    assert finding.evidence["first_host"] == first
    assert finding.fix.command is not None
    assert finding.fix.command.startswith("export MASTER_ADDR=$(scontrol")


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nnodes=4 --rdzv-backend=c10d --rdzv-endpoint=gpu[01-04]:29400 t.py",
        "torchrun --nnodes=4 --master-addr=gpu[01-04] t.py",
    ],
)
def test_bad_option_is_a_list(command: str) -> None:
    (finding,) = judge({}, command=command)
    assert (finding.code, finding.severity) == ("DC109", Severity.ERROR)
    assert "scontrol" in finding.fix.text


@pytest.mark.parametrize(
    "value", ["gpu01", "10.0.0.1", "fe80::1", "[fe80::1]", "[0:0:0:0:0:0:0:1]", "node-1.example", " node1 "]
)
def test_good_address_is_one_host(value: str) -> None:
    assert not is_node_list(value)
    assert only(judge({**MAPPED, "MASTER_ADDR": value}), "DC109") == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("torchrun --nnodes 2 --node-rank 0 --master-addr n1 --master-port 0 t.py", "could not know it"),
        ("torchrun --nnodes 2 --node-rank 0 --master-addr http://n1 t.py", "scheme"),
        ("torchrun --rdzv-backend foo t.py", "'foo'"),
        ("torchrun --nprocs-per-node 8 t.py", "--nprocs-per-node"),
    ],
)
def test_bad_dc102_options_that_torchrun_can_not_use(command: str, words: str) -> None:
    found = [finding for finding in judge({}, command=command) if finding.code == "DC102"]
    assert found
    assert words in found[0].message
