"""Values that torch or its launcher can't read, and words that only stand for others."""

from __future__ import annotations

import re
import subprocess

import pytest

from distcheck.checks.launch_files.files import read_file
from distcheck.checks.launch_files.malformed import addresses_are_set, rendezvous_values_are_readable
from distcheck.checks.launch_files.model import LaunchFiles

from .judging import findings, fixed, said

STATIC = "--nnodes=2 --node_rank=$R"
#: Its user fills in the list.
LIST = """\
IPS=('$master_ip' '$other_ip')
ADDRESS=${IPS[0]}
%s
torchrun --nnodes=2 --node_rank=$RANK_OF_NODE --master_addr $ADDRESS --nproc_per_node 8 train.py
"""


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("export MASTER_PORT=FREEPORT\nsrun -n 2 python train.py\n", 1, "MASTER_PORT"),
        ("export MASTER_PORT=tcp://10.0.0.1:29500\npython train.py\n", 1, "MASTER_PORT"),
        ("export MASTER_ADDR=tcp://10.0.0.1:29500\npython train.py\n", 1, "MASTER_ADDR"),
        ("export MASTER_ADDR=10.0.0.1:29500\npython train.py\n", 1, "MASTER_ADDR"),
        (f"A=http://node1\ntorchrun {STATIC} --master_addr=$A --master_port=29500 train.py\n", 1, "A"),
        ("export WORLD_SIZE=two\npython train.py\n", 1, "WORLD_SIZE"),
        ("WORLD_SIZE=0 RANK=0 python train.py\n", 1, "WORLD_SIZE"),
        ("export RANK=-1\npython train.py\n", 1, "RANK"),
        ("torchrun --nproc_per_node=eight train.py\n", 1, "--nproc_per_node"),
        ("torchrun --nproc_per_node=0 train.py\n", 1, "--nproc_per_node"),
        ("torchrun --nproc_per_node=2 \\\n  --nprocs 2 train.py\n", 2, "--nprocs"),
        ("torchrun --nproc_per_node=2 --rdzv_backend=tcp --rdzv_endpoint=a:1 train.py\n", 1, "--rdzv-backend"),
        ("torchrun --nproc_per_node=2 --rdzv_endpoint=http://a:29400 --rdzv_backend=c10d t.py\n", 1, "--rdzv-endpoint"),
        ("torchrun --nnodes=2 --node_rank=2 --master_addr=$A train.py\n", 1, "--node_rank"),
        ("accelerate launch --num_processes=all train.py\n", 1, "--num_processes"),
        ("set -e\ntorchrun --nproc_per_node=2\n", 2, "torchrun"),
    ],
)
def test_bad_values(text: str, line: int, name: str) -> None:
    (finding,) = findings(rendezvous_values_are_readable, text)
    assert (finding.code, finding.severity.word, finding.where.line) == ("DC102", "error", line)
    assert name in (finding.where.variable, finding.where.object)


@pytest.mark.parametrize(
    "text",
    [
        f"torchrun {STATIC} --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py\n",
        f"torchrun {STATIC} --master_addr=[fd00::1] --master_port=29500 train.py\n",
        "export MASTER_ADDR=fd00::1 MASTER_PORT=29500\nsrun python train.py\n",
        "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID\npython train.py\n",
        "export LOCAL_RANK=-1\npython train.py\n",
        "export WORLD_SIZE=\npython train.py\n",
        # torchrun sets these anew
        "export MASTER_PORT=FREEPORT WORLD_SIZE=two\ntorchrun --nproc_per_node=2 train.py\n",
        # whether there is such a port is told by port_is_wise
        "torchrun --nproc_per_node=2 --master_port=66665 train.py\n",
        "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=a:99999 train.py\n",
        "export MASTER_PORT=70000\npython train.py\n",
        # a reader is to replace them
        f"torchrun {STATIC} --master_addr=YOUR_IP --master_port=YOUR_PORT train.py\n",
        "accelerate launch --main_process_port ??? --num_processes ??? train.py\n",
        "accelerate launch --num_processes ???\n",
        "export MASTER_ADDR=xxx.xxx.xxx.xxx\npython train.py\n",
        # c10d does not use it
        "torchrun --nnodes=2 --node_rank=2 --rdzv_backend=c10d --rdzv_endpoint=a:29400 train.py\n",
        # pdsh puts the number of the host in its place
        "pdsh -w gpu[0-3] torchrun --nnodes=4 --node_rank=%n --master_addr=gpu0 train.py\n",
        "torchrun --help\n",
        "command -v torchrun\n",
        "torchrun $ARGS\n",
        'torchrun "$@"\n',
        "# torchrun --nproc_per_node=eight train.py\n",
    ],
)
def test_good_values(text: str) -> None:
    assert said(rendezvous_values_are_readable, text) == []


def test_a_line_that_the_grammar_does_not_understand_is_not_judged() -> None:
    text = 'torchrun --nproc_per_node=8 "train.py\necho\n'
    file = read_file("run.sh", text.encode(), "shell", lambda other: None)
    assert file.problems
    assert list(rendezvous_values_are_readable(LaunchFiles((file,)))) == []


@pytest.mark.parametrize(
    "block",
    [
        "torchrun --nproc_per_node=8 ...",
        "torchrun [options] script.py",
        "export MASTER_PORT=PORT\npython train.py",
        "torchrun --nnodes=2 --node_rank=RANK --master_addr=ip --master_port=port train.py",
        "torchrun --nproc_per_node=NUM_GPUS train.py",
    ],
)
def test_good_usage_in_a_document(block: str) -> None:
    assert said(rendezvous_values_are_readable, f"# How to\n\n```bash\n{block}\n```\n", path="README.md") == []


def test_the_fix_of_an_endpoint_keeps_its_port() -> None:
    text = "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_id=1 --rdzv_endpoint=http://node1:29500 train.py\n"
    (finding,) = findings(rendezvous_values_are_readable, text)
    assert finding.fix.text == "set it to node1, with its port behind a colon"


def test_the_fix_names_the_backend() -> None:
    text = "torchrun --nnodes=2 --rdzv_backend=C10D --rdzv_endpoint=a:29400 train.py\n"
    (finding,) = findings(rendezvous_values_are_readable, text)
    assert "c10d" in fixed(text, finding)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("torchrun --nproc_per_node=all train.py", "--nproc_per_node"),
        ("torchrun --nnodes=two --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=a:29400 t.py", "--nnodes"),
        ("torchrun --standalone --max_restarts=many train.py", "--max_restarts"),
        ("torchrun --standalone --nproc_per_node=8 --start-method=threads train.py", "--start-method"),
        ("torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=a:b:29400:x train.py", "--rdzv_endpoint"),
        ("accelerate launch --num_processes=all train.py", "--num_processes"),
        ("accelerate launch --num_machines=some --num_processes=8 train.py", "--num_machines"),
        ("deepspeed --num_gpus=all train.py", "--num_gpus"),
        ("deepspeed --num_nodes=all train.py", "--num_nodes"),
    ],
)
def test_the_value_in_the_fix_is_one_that_the_launcher_takes(line: str, option: str) -> None:
    (finding,) = findings(rendezvous_values_are_readable, line + "\n")
    name, _, value = finding.fix.text.rpartition(" ")[2].partition("=")
    assert name == option
    after = re.sub(rf"{option}=\S+", f"{option}={value}", line)
    assert after != line
    assert findings(rendezvous_values_are_readable, after + "\n") == []


def test_a_launcher_without_a_script_has_a_fix_of_its_own() -> None:
    (finding,) = findings(rendezvous_values_are_readable, "set -e\ntorchrun --nproc_per_node=2\n")
    assert finding.fix.text == "name the script after the options of the launcher, or -m and a module"


def test_a_list_that_the_script_compares_with_its_host_is_to_be_filled_in() -> None:
    test = 'if [ "$(hostname -i)" == "${IPS[$i]}" ]; then RANK_OF_NODE=$i; fi'
    assert not findings(rendezvous_values_are_readable, LIST % f'for i in "${{!IPS[@]}}"; do\n{test}\ndone')
    # nothing ends the script before the launcher reads the address
    (finding,) = findings(rendezvous_values_are_readable, LIST % 'echo "${IPS[0]}"')
    assert finding.code == "DC102"
    (finding,) = findings(rendezvous_values_are_readable, LIST % 'if [ "$1" == "${OTHER[0]}" ]; then exit; fi')
    assert finding.code == "DC102"


BATCH = "#!/bin/bash\n#SBATCH --nodes=1\n{}\ntorchrun --nproc-per-node=2 --rdzv-id=7 --rdzv-backend=c10d {} train.py\n"


@pytest.mark.parametrize(
    ("before", "option", "names"),
    [
        ("cd x", "--rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT", ["MASTER_ADDR", "MASTER_PORT"]),
        ("source env/bin/activate", "--rdzv-endpoint=$MASTER_ADDR:29400", ["MASTER_ADDR"]),
        ("HEAD=node1", "--rdzv-endpoint=${HEAD}:${PORT}", ["PORT"]),
    ],
)
def test_an_address_that_a_batch_script_never_sets(before: str, option: str, names: list[str]) -> None:
    """The fix is what bash takes, and with it nothing is reported."""
    text = BATCH.format(before, option)
    (finding,) = findings(addresses_are_set, text)
    assert finding.evidence["variables"] == names
    after = text.replace(before, f"{before}\n{finding.fix.text.partition(': ')[2]}")
    assert subprocess.run(["bash", "-n"], input=after, text=True, check=False).returncode == 0
    assert findings(addresses_are_set, after) == []


@pytest.mark.parametrize(
    ("before", "option"),
    [
        (". cluster.env", "--rdzv-endpoint=$HEAD:29400"),
        ("read -r HEAD < heads", "--rdzv-endpoint=$HEAD:29400"),
        (': "${HEAD:=node1}"', "--rdzv-endpoint=$HEAD:29400"),
        ("cd x", "--rdzv-endpoint=${HEAD:-localhost}:29400"),
        ("cd x", "--rdzv-endpoint=$SLURM_LAUNCH_NODE_IPADDR:29400"),
        ("#SBATCH --export=ALL,HEAD", "--rdzv-endpoint=$HEAD:29400"),
    ],
)
def test_good_an_address_that_is_set_or_may_be(before: str, option: str) -> None:
    assert findings(addresses_are_set, BATCH.format(before, option)) == []
