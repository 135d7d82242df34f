"""Configurations of accelerate and DeepSpeed judged, alone and with the lines that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from distcheck.checks.launch_files.configurations import (
    accelerate_values_fit,
    deepspeed_gets_what_it_requests,
    deepspeed_values_fit,
    ranks_of,
)
from distcheck.checks.launch_files.launcher_configs import read_accelerate, read_deepspeed, read_hostfile
from distcheck.checks.launch_files.model import LaunchFiles
from distcheck.core.model import Finding, Severity

from .sites import shell_file, site_of


def judged(*files: tuple[str, str], **fields: Any) -> list[Finding]:
    """What the probes of configurations say of files, by path and text."""
    made = []
    for path, text in files:
        if path.endswith(".yaml"):
            made.append(read_accelerate(path, text))
        elif path.endswith(".json"):
            made.append(read_deepspeed(path, text))
        elif path.endswith(".sh"):
            made.append(shell_file(*text.splitlines(), path=path, **fields))
        else:
            made.append(read_hostfile(path, text))
    launch_files = LaunchFiles(tuple(made))
    return [
        finding
        for probe in (accelerate_values_fit, deepspeed_values_fit, deepspeed_gets_what_it_requests)
        for finding in probe(launch_files)
    ]


def accelerate(
    *more: str, kind: str = "MULTI_GPU", machines: object = 1, processes: object = 8, rank: object = 0
) -> str:
    lines = [
        "compute_environment: LOCAL_MACHINE",
        f"distributed_type: {kind}",
        f"num_machines: {machines}",
        f"num_processes: {processes}",
        f"machine_rank: {rank}",
        *more,
    ]
    return "\n".join(lines) + "\n"


MET = "main_process_ip: 10.0.0.1"


def said(findings: list[Finding]) -> list[tuple[str, str | None, int | None, str]]:
    return [(item.severity.word, item.where.path, item.where.line, item.where.object or "") for item in findings]


@pytest.mark.parametrize(
    ("text", "line", "name", "words"),
    [
        (accelerate(MET, machines=2, processes=7), 4, "num_processes", "3 on each, 6 in all"),
        (accelerate(MET, machines=4, processes=2), 4, "num_processes", "none for each"),
        (accelerate("main_process_ip: localhost", machines=2, processes=16), 6, "main_process_ip", "finds only itself"),
        (accelerate("main_process_ip: 127.0.0.1", machines=2, processes=16), 6, "main_process_ip", "finds only itself"),
        (accelerate(MET, machines=2, processes=16, rank=2), 5, "machine_rank", "numbered from 0 to 1"),
        (accelerate("gpu_ids: 0,1"), 6, "gpu_ids", "2 GPUs (0,1) for 8 processes"),
        (accelerate("gpu_ids: '0'", processes=2), 6, "gpu_ids", "1 GPU (0) for 2 processes"),
        (accelerate(MET, "gpu_ids: 0,1,2", machines=2), 7, "gpu_ids", "on each machine"),
        (accelerate("gpu_ids: 0", processes=1), 6, "gpu_ids", "AttributeError"),
        (accelerate("main_process_port: 66665"), 6, "main_process_port", "highest port is 65535"),
        (accelerate(MET, kind="FSDP", machines=2, processes=9), 4, "num_processes", "can't share"),
    ],
)
def test_bad_dc811_values_that_contradict_each_other(text: str, line: int, name: str, words: str) -> None:
    found = judged(("conf/a.yaml", text))
    assert said(found) == [("error", "conf/a.yaml", line, name)]
    assert words in found[0].message


@pytest.mark.parametrize("kind", ["'NO'", "NO"])
def test_processes_left_over_in_a_file_for_one_gpu_are_worth_knowing(kind: str) -> None:
    found = judged(("conf/a.yaml", accelerate(kind=kind)))
    assert said(found) == [("info", "conf/a.yaml", 2, "distributed_type")]
    assert "starts one process" in found[0].message


@pytest.mark.parametrize(
    "text",
    [
        accelerate(),
        accelerate(processes=7),
        accelerate(MET, machines=2, processes=16, rank=1),
        accelerate("gpu_ids: all"),
        accelerate("gpu_ids: 0,1", processes=2),
        accelerate("gpu_ids: 0,1", kind="MULTI_CPU"),
        accelerate("gpu_ids: 0,1", "use_cpu: true"),
        accelerate(kind="'NO'", processes=1),
        accelerate(MET, machines="{{ nodes }}", processes=7),
        accelerate(MET, machines=2, processes="${N}"),
        accelerate("main_process_ip: ${MASTER}", machines=2, processes=16),
        accelerate("main_process_port: 0"),
        # the address may stand on the launch line
        accelerate(machines=2, processes=16),
        # DeepSpeed's own starter asks the first host
        accelerate("deepspeed_config:", "  deepspeed_hostfile: hostfile", kind="DEEPSPEED", machines=2, processes=16),
        accelerate(machines=3, kind="TPU"),
        accelerate(machines=2, processes=7).replace("LOCAL_MACHINE", "AMAZON_SAGEMAKER"),
    ],
)
def test_good_dc811_values_that_fit_or_are_not_known(text: str) -> None:
    assert judged(("a.yaml", text)) == []


def test_good_dc811_an_address_that_may_come_from_the_line_is_worth_a_hint_only() -> None:
    text = accelerate("main_process_ip: null", machines=2, processes=16)
    assert said(judged(("a.yaml", text))) == [("info", "a.yaml", 6, "main_process_ip")]


def test_good_dc811_gpus_that_are_left_over_are_worth_a_hint_only() -> None:
    assert said(judged(("a.yaml", accelerate("gpu_ids: 0,1,2,3", processes=2)))) == [("info", "a.yaml", 6, "gpu_ids")]


def test_bad_dc811_no_address_where_the_line_gives_none_either() -> None:
    text = accelerate("main_process_ip: null", machines=2, processes=16)
    found = judged(("a.yaml", text), ("run.sh", "accelerate launch --config_file a.yaml train.py"))
    assert said(found) == [("error", "a.yaml", 6, "main_process_ip")]


def test_bad_dc811_no_address_at_all() -> None:
    found = judged(
        ("a.yaml", accelerate(machines=2, processes=16)),
        ("run.sh", "accelerate launch --config_file=a.yaml --machine_rank 1 train.py"),
    )
    assert said(found) == [("error", "a.yaml", 3, "num_machines")]


@pytest.mark.parametrize("option", ["--main_process_ip 10.0.0.1", "--main_process_ip $HEAD", "--main-process-ip=$HEAD"])
def test_good_dc811_the_line_gives_the_address(option: str) -> None:
    text = accelerate("main_process_ip: localhost", machines=2, processes=16)
    assert judged(("a.yaml", text), ("run.sh", f"accelerate launch --config_file a.yaml {option} train.py")) == []


def test_bad_dc811_the_line_contradicts_the_configuration() -> None:
    text = accelerate(MET, machines=2, processes=16)
    found = judged(("a.yaml", text), ("run.sh", "accelerate launch --config_file a.yaml --num_processes 15 train.py"))
    assert said(found) == [("error", "run.sh", 1, "num_processes")]
    assert found[0].where.column == len("accelerate launch --config_file a.yaml --num_processes ") + 1
    assert "a.yaml" in found[0].message


def test_good_dc811_a_line_with_an_unknown_configuration_may_fix_it() -> None:
    text = accelerate("main_process_ip: localhost", machines=2, processes=16)
    assert judged(("a.yaml", text), ("run.sh", "accelerate launch --config_file $C --main_process_ip $M t.py")) == []


def test_bad_dc811_no_number_of_processes() -> None:
    text = accelerate().replace("num_processes: 8\n", "")
    found = judged(("a.yaml", text), ("run.sh", "accelerate launch --config_file a.yaml train.py"))
    assert said(found) == [("error", "a.yaml", 1, "num_processes")]
    assert judged(("a.yaml", text), ("run.sh", "accelerate launch --config_file a.yaml --num_processes 8 t.py")) == []
    assert judged(("a.yaml", text)) == []


def test_good_dc811_several_machines_played_on_one() -> None:
    text = accelerate("main_process_ip: localhost", machines=2, processes=2)
    line = "accelerate launch --config_file a.yaml --machine_rank {} train.py"
    assert judged(("a.yaml", text), ("run.sh", f"{line.format(0)}\n{line.format(1)}"), background=True) == []


def test_bad_dc811_two_machines_with_one_rank() -> None:
    one = accelerate(MET, machines=2, processes=16)
    found = judged(("conf/node0.yaml", one), ("conf/node1.yaml", one))
    assert said(found) == [("error", "conf/node1.yaml", 5, "machine_rank")]
    assert "machine_rank: 1" in found[0].fix.text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # ranks of their own
        (("node0", accelerate(MET, machines=2)), ("node1", accelerate(MET, machines=2, rank=1))),
        # two jobs, by what they say
        (("2nodes", accelerate(MET, machines=2)), ("4nodes", accelerate(MET, machines=4))),
        (("zero2", accelerate(MET, "zero_stage: 2", machines=2)), ("zero3", accelerate(MET, "zero_stage: 3", machines=2))),
        # two jobs, by their names
        (("bert", accelerate(MET, machines=2)), ("gpt", accelerate(MET, machines=2))),
        # one machine each
        (("node0", accelerate()), ("node1", accelerate())),
        (("node0", accelerate(MET, machines=2, rank="${R}")), ("node1", accelerate(MET, machines=2, rank="${R}"))),
    ],
)  # fmt: skip
def test_good_dc811_files_that_are_not_of_one_job(first: tuple[str, str], second: tuple[str, str]) -> None:
    files = [(f"{name}.yaml", text) for name, text in (first, second)]
    assert judged(*files) == []


def test_good_dc811_the_line_gives_the_rank_of_each_machine() -> None:
    one = accelerate(MET, machines=2, processes=16)
    line = "accelerate launch --config_file node1.yaml --machine_rank $R train.py"
    assert judged(("node0.yaml", one), ("node1.yaml", one), ("run.sh", line)) == []


# DeepSpeed


def sizes(batch: object = None, micro: object = None, steps: object = None, more: str = "") -> str:
    pairs = [
        ("train_batch_size", batch),
        ("train_micro_batch_size_per_gpu", micro),
        ("gradient_accumulation_steps", steps),
    ]
    lines = [f'  "{name}": {value},' for name, value in pairs if value is not None]
    return "\n".join(["{", *lines, more, '  "zero_optimization": {"stage": 2}', "}"])


@pytest.mark.parametrize(
    "text",
    [sizes(30, 4, 2), sizes(30, 4), sizes(31, None, 2), sizes(12, 4, 2), sizes(4, 8), sizes(20, 4, 2)],
)
def test_bad_dc812_sizes_that_no_number_of_ranks_can_fit(text: str) -> None:
    found = judged(("ds.json", text))
    assert said(found) == [("error", "ds.json", 2, "train_batch_size")]


@pytest.mark.parametrize(
    "text",
    [
        sizes(32, 4, 2),
        sizes(32, 4),
        sizes(32),
        sizes(None, 4, 2),
        sizes('"auto"', '"auto"', '"auto"'),
        sizes(32, '"auto"', 4),
        sizes("{{ batch }}", 4, 2),
        sizes(30, 4, 2, '  "elasticity": {"enabled": true},'),
    ],
)
def test_good_dc812_sizes_that_fit_or_are_not_known(text: str) -> None:
    assert judged(("ds.json", text)) == []


def test_bad_dc812_both_number_formats() -> None:
    text = '{"fp16": {"enabled": true},\n "bf16": {"enabled": true}}'
    assert said(judged(("ds.json", text))) == [("error", "ds.json", 2, "bf16.enabled")]
    assert judged(("ds.json", text.replace("true}}", "false}}"))) == []
    assert judged(("ds.json", text.replace("true}}", '"auto"}}'))) == []


def test_bad_dc812_a_key_that_stands_twice() -> None:
    assert said(judged(("ds.json", '{"train_batch_size": 8,\n "train_batch_size": 16}'))) == [
        ("error", "ds.json", 2, "train_batch_size")
    ]


RUNS = [
    "deepspeed --num_gpus 8 train.py --deepspeed ds.json",
    "torchrun --nproc_per_node=8 train.py --deepspeed_config=ds.json",
    "torchrun --nnodes 2 --nproc_per_node=4 train.py --deepspeed_config ds.json",
    "accelerate launch --num_processes 8 train.py --deepspeed ds.json",
    "accelerate launch --num_processes 8 --deepspeed_config_file ds.json train.py",
    "deepspeed --include localhost:0,1,2,3,4,5,6,7 train.py --deepspeed --deepspeed_config ds.json",
    "deepspeed --hostfile hostfile train.py --deepspeed ds.json",
]


@pytest.mark.parametrize("line", RUNS)
@pytest.mark.parametrize("text", [sizes(32, 4, 2), sizes(36, 4), sizes(36)])
def test_bad_dc812_sizes_that_the_ranks_of_the_line_don_t_fit(line: str, text: str) -> None:
    hosts = "n1 slots=4\nn2 slots=4\n"
    found = judged(("ds.json", text), ("run.sh", line), ("hostfile", hosts))
    assert said(found) == [("error", "ds.json", 2, "train_batch_size")]
    assert "8 ranks" in found[0].message
    assert "run.sh:1" in found[0].message


@pytest.mark.parametrize("line", RUNS)
@pytest.mark.parametrize("text", [sizes(64, 4, 2), sizes(64, 4), sizes(64), sizes(None, 3, 5), sizes(32, '"auto"', 2)])
def test_good_dc812_sizes_that_the_ranks_of_the_line_fit(line: str, text: str) -> None:
    assert judged(("ds.json", text), ("run.sh", line), ("hostfile", "n1 slots=4\nn2 slots=4\n")) == []


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nproc_per_node=$N train.py --deepspeed_config ds.json",
        "torchrun --nproc_per_node=gpu train.py --deepspeed_config ds.json",
        "torchrun --nnodes 1:4 --nproc_per_node=8 train.py --deepspeed_config ds.json",
        "deepspeed train.py --deepspeed ds.json",
        "deepspeed --num_gpus 8 train.py --deepspeed other.json",
        # ranks that share a model, and sizes that the script may put in their place
        "deepspeed --num_gpus 8 train.py --tensor-model-parallel-size 2 --deepspeed_config ds.json",
        "deepspeed --num_gpus 8 train.py --pipe-parallel-size 2 --deepspeed_config ds.json",
        "deepspeed --num_gpus 8 train.py --train_batch_size 64 --deepspeed_config ds.json",
    ],
)
def test_good_dc812_ranks_that_are_not_known(line: str) -> None:
    assert judged(("ds.json", sizes(32, 4, 2)), ("run.sh", line)) == []


HOSTS = "n1 slots=4\nn2 slots=4\n"


@pytest.mark.parametrize(
    ("line", "option", "words"),
    [
        ("deepspeed --hostfile hostfile --num_gpus 8 train.py", "--num_gpus", "slots=4"),
        ("deepspeed --hostfile hostfile --num_nodes 3 train.py", "--num_nodes", "2 hosts"),
        ("deepspeed -H hostfile --include n3 train.py", "--include", "n3, which is not in hostfile"),
        ("deepspeed -H hostfile -i n1:0,4 train.py", "--include", "GPU 4 of n1"),
        ("deepspeed -H hostfile --exclude n2:7 train.py", "--exclude", "GPU 7 of n2"),
        ("deepspeed --include localhost:0,1 --num_gpus 2 train.py", "--num_gpus", "only one of the two"),
        ("deepspeed --include n1 --exclude n2 train.py", "--exclude", "only one of them"),
        ("CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 2 train.py", "--num_gpus", "uses the GPUs 0,1"),
        ("CUDA_VISIBLE_DEVICES=2,3 deepspeed --include localhost:4 train.py", "--include", "uses the GPUs 4"),
    ],
)  # fmt: skip
def test_bad_dc812_a_command_that_asks_for_what_is_not_there(line: str, option: str, words: str) -> None:
    found = judged(("hostfile", HOSTS), ("run.sh", line))
    level = "error" if "only one of" in words or "uses the GPUs" in words else "warning"
    assert said(found) == [(level, "run.sh", 1, option)]
    assert words in found[0].message


@pytest.mark.parametrize(
    "line",
    [
        "deepspeed --hostfile hostfile train.py",
        "deepspeed --hostfile hostfile --num_gpus 2 train.py",
        "deepspeed --hostfile hostfile --num_nodes 2 --num_gpus 4 train.py",
        "deepspeed --hostfile hostfile --num_gpus $N train.py",
        "deepspeed --hostfile $H --num_gpus 8 train.py",
        "deepspeed --hostfile other --num_gpus 8 train.py",
        "deepspeed -H hostfile --include n1@n2:0,3 train.py",
        "deepspeed --num_gpus 8 train.py",
        "CUDA_VISIBLE_DEVICES=2,3 deepspeed train.py",
        "CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus 2 train.py",
        "CUDA_VISIBLE_DEVICES=$G deepspeed --num_gpus 2 train.py",
        "torchrun --nproc_per_node 8 train.py",
    ],
)
def test_good_dc812_a_command_that_its_hostfile_fits(line: str) -> None:
    assert judged(("hostfile", HOSTS), ("run.sh", line)) == []


@pytest.mark.parametrize("hosts", ["n1 slots=4\nn2\n", "n1 slots=4\nn1 slots=4\n"])
def test_bad_dc812_a_hostfile_that_deepspeed_refuses(hosts: str) -> None:
    lines = "deepspeed --hostfile hostfile t.py\ndeepspeed --hostfile hostfile --num_nodes 2 t.py"
    assert len(judged(("hostfile", hosts), ("run.sh", lines))) == 1
    assert said(judged(("hostfile", hosts), ("run.sh", "deepspeed --hostfile hostfile t.py")))[0][:3] == (
        "error",
        "hostfile",
        2,
    )
    # MPI takes it
    assert judged(("hostfile", hosts), ("run.sh", "mpirun --hostfile hostfile -np 8 python t.py")) == []


def ranks() -> Iterator[tuple[str, int | None]]:
    yield "torchrun train.py", 1
    yield "torchrun --standalone --nproc_per_node 4 train.py", 4
    yield "torchrun --nnodes 4 --nproc_per_node 8 train.py", 32
    yield "torchrun --nnodes $N --nproc_per_node 8 train.py", None
    yield "accelerate launch train.py", None
    yield "deepspeed --num_gpus 4 train.py", 4
    yield "deepspeed --num_nodes 2 --num_gpus 4 train.py", None
    yield "deepspeed --hostfile hostfile train.py", 8
    yield "deepspeed --hostfile hostfile --num_nodes 1 --num_gpus 2 train.py", 2
    yield "srun -n 16 python train.py", 16
    yield "srun python train.py", None


@pytest.mark.parametrize(("line", "number"), list(ranks()))
def test_ranks_that_a_line_starts(line: str, number: int | None) -> None:
    files = LaunchFiles((read_hostfile("hostfile", HOSTS),))
    assert ranks_of(site_of(line), files) == number


def test_severities_are_those_of_the_catalogue() -> None:
    for finding in judged(("a.yaml", accelerate("main_process_ip: null", machines=2, processes=7))):
        assert finding.severity in (Severity.ERROR, Severity.INFO)
