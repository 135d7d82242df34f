"""Job files of cloud launchers: their commands with the variables of the file."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.files import kind_of
from distcheck.checks.launch_files.launcher import launcher_is_started_once_a_node
from distcheck.checks.launch_files.malformed import rendezvous_values_are_readable
from distcheck.checks.launch_files.model import LaunchFile

from .judging import findings, fixed, read

SKY = """\
name: train
resources:
  accelerators: H100:8
num_nodes: 2
envs:
  PROCESSES: 8
setup: pip install -r requirements.txt
run: |
  torchrun --nnodes=2 --nproc_per_node=$PROCESSES train.py
"""
MCLI = """\
name: pretrain
image: example/pytorch:latest
compute: {gpus: 16, cluster: one}
command: |
  cd project
  torchrun --nproc_per_node=8 train.py
"""
AZURE = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: >-
  python train.py --data ${{inputs.data}}
environment: azureml:torch@latest
distribution: {type: pytorch, process_count_per_instance: 8}
"""
PIPELINE = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
jobs:
  train:
    type: command
    command: torchrun --nproc_per_node=8 train.py
"""
DSTACK = """\
type: task
resources: {gpu: 8}
commands:
  - export PROCESSES=8
  - torchrun --nproc_per_node=$PROCESSES train.py
"""


@pytest.mark.parametrize(
    ("text", "launcher", "line"),
    [
        (SKY, "torchrun", 9),
        (MCLI, "torchrun", 6),
        (AZURE, "python", 3),
        (PIPELINE, "torchrun", 6),
        (DSTACK, "torchrun", 5),
    ],
    ids=["SkyPilot", "mcli", "Azure ML", "pipeline", "dstack"],
)
def test_launch_lines_of_a_job(text: str, launcher: str, line: int) -> None:
    (site,) = _read(text).sites
    assert (site.command.launcher, site.span.line) == (launcher, line)
    if launcher == "torchrun":
        assert site.command.nproc == "8"


def test_a_fault_is_at_its_line() -> None:
    (finding,) = findings(rendezvous_values_are_readable, SKY.replace("PROCESSES: 8", "PROCESSES: x8"), path="job.yaml")
    assert (finding.code, finding.where.line) == ("DC102", 9)


@pytest.mark.parametrize(("machines", "nodes"), [("2", 2), ("${N}", None), ("[1, 2]", None), ("", None)])
def test_skypilot_gives_the_number_of_machines(machines: str, nodes: int | None) -> None:
    text = SKY.replace("--nnodes=2", "--nnodes=$SKYPILOT_NUM_NODES").replace("num_nodes: 2", f"num_nodes: {machines}")
    (site,) = _read(text).sites
    assert site.command.nnodes_min == nodes
    assert ("nnodes_min" in site.command.unknown) is (nodes is None)


def test_the_service_numbers_the_ranks() -> None:
    (site,) = _read(AZURE).sites
    assert {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= set(site.settings)
    (alone,) = _read(AZURE.replace("distribution:", "other:")).sites
    assert "RANK" not in alone.settings


@pytest.mark.parametrize(
    "text",
    [
        "image: python:3.12\nscript:\n  - python train.py\n",
        "run: 5\nresources: {gpu: 8}\n",
        "command: make\nimage: example/builder\n",
        "name: environment\ndependencies: [python=3.12, pytorch]\n",
        "model:\n  run: python train.py\n  resources: 8\n",
    ],
)
def test_other_yaml_is_no_job(text: str) -> None:
    assert kind_of("config.yaml", text.encode()) is None


def _read(text: str) -> LaunchFile:
    assert kind_of("job.yaml", text.encode()) == "job"
    return read(text, "job.yaml")


DISTRIBUTED = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: torchrun {options}train.py
environment: azureml:torch@latest
compute: azureml:gpus
resources:
  instance_count: {machines}
distribution:
  type: {kind}
  process_count_per_instance: {count}
"""


def distributed(options: str = "--nproc-per-node 4 ", machines: int = 1, kind: str = "pytorch", count: int = 4) -> str:
    return DISTRIBUTED.format(options=options, machines=machines, kind=kind, count=count)


@pytest.mark.parametrize(
    "text",
    [
        distributed(),
        distributed(kind="PyTorch"),
        distributed(kind="mpi"),
        distributed(count=2),
        distributed("--nnodes 2 --nproc-per-node 4 --node-rank $NODE_RANK ", 2),
    ],
)
def test_azure_ml_starts_the_launcher_in_each_process(text: str) -> None:
    (finding,) = findings(launcher_is_started_once_a_node, text, path="job.yml")
    assert (finding.code, finding.where.line) == ("DC106", 2)
    assert "Azure ML starts" in finding.message
    assert "process_count_per_instance: 1" in (after := fixed(text, finding))
    assert findings(launcher_is_started_once_a_node, after, path="job.yml") == []


@pytest.mark.parametrize(
    "text",
    [
        distributed(count=1),
        distributed("--nproc-per-node 1 "),
        distributed(kind="tensorflow"),
        distributed().replace("torchrun --nproc-per-node 4", "python"),
        distributed().partition("distribution")[0],
        distributed().replace("instance: 4", "instance: ${{inputs.count}}"),
    ],
)
def test_good_one_launcher_on_each_machine_of_azure_ml(text: str) -> None:
    assert findings(launcher_is_started_once_a_node, text, path="job.yml") == []
