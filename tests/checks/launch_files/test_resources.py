"""GPUs, CPUs and memory: what launch lines need of a node against what files say that they get."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from distcheck.checks.launch_files import resources as room
from distcheck.checks.launch_files.model import LaunchFiles, Nodes
from distcheck.core.model import Finding, Severity, Unavailable

from .reading import read

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
NOT_STATED = Unavailable("no facts of the nodes were given")
GIB = 1 << 30
EIGHT = "torchrun --standalone --nproc_per_node=8 train.py\n"
FOUR = "torchrun --standalone --nproc_per_node=4 train.py\n"


def judge(text: str, nodes: Nodes | Unavailable = NOT_STATED, path: str = "run.sh") -> list[Finding]:
    files = LaunchFiles((read(path, text),))

    def run() -> Iterator[Finding]:
        yield from room.every_rank_has_a_gpu(files, nodes)
        yield from room.no_gpu_is_left_idle(files, nodes)
        yield from room.ranks_have_cpus(files, nodes)
        yield from room.memory_is_enough(files, nodes)

    return list(run())


def said(
    text: str, nodes: Nodes | Unavailable = NOT_STATED, least: Severity = WARNING
) -> list[tuple[int | None, str, Severity]]:
    return sorted((item.where.line, item.code, item.severity) for item in judge(text, nodes) if item.severity >= least)


def batch(body: str, *directives: str) -> str:
    """A job script whose body begins behind its first line and its directives."""
    return "#!/bin/bash\n" + "".join(f"#SBATCH {one}\n" for one in directives) + body


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 " + EIGHT, 1),
        ("export CUDA_VISIBLE_DEVICES=0,1,2,3\nN=8\ntorchrun --standalone --nproc_per_node=$N train.py\n", 3),
        ("CUDA_VISIBLE_DEVICES=0,1 accelerate launch --num_machines 1 --num_processes 4 train.py\n", 1),
        ("CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus 4 train.py\n", 1),
        (batch(EIGHT, "--gres=gpu:4"), 3),
        (batch(EIGHT, "--nodes=1", "--gpus=4"), 4),
        (batch("srun " + EIGHT, "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=h100:4"), 5),
        (batch("srun " + EIGHT, "--nodes=1", "--ntasks-per-node=1", "--gpus-per-task=4"), 5),
        (
            batch(
                "export MASTER_ADDR=x MASTER_PORT=1\nsrun python train.py\n",
                "--nodes=1",
                "--ntasks-per-node=8",
                "--gpus-per-node=4",
            ),
            6,
        ),
    ],
)
def test_bad_dc301_more_ranks_than_gpus(text: str, line: int) -> None:
    assert said(text) == [(line, "DC301", ERROR)]


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=2 train.py\n",
        "CUDA_VISIBLE_DEVICES=$GPUS " + EIGHT,
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=$N train.py\n",
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=gpu train.py\n",
        "CUDA_VISIBLE_DEVICES= " + EIGHT,
        "CUDA_VISIBLE_DEVICES=0 " + EIGHT.replace("train.py", "train.py --backend gloo"),
        "CUDA_VISIBLE_DEVICES=0 " + EIGHT.replace("train.py", "train.py --device=cpu"),
        "export NCCL_MULTI_RANK_GPU_ENABLE=1\nCUDA_VISIBLE_DEVICES=0 " + EIGHT,
        "CUDA_VISIBLE_DEVICES=0 python eval.py\n" + EIGHT,
        # a mask that does not say what it means is another finding
        "CUDA_VISIBLE_DEVICES=0,0 " + FOUR,
        batch(EIGHT, "--gres=gpu:8"),
        batch(EIGHT, "--nodes=4", "--gpus=32"),
        batch("# " + EIGHT + FOUR, "--gres=gpu:4"),
        batch("srun --gres=gpu:8 --ntasks=1 " + EIGHT, "--nodes=1"),
        # tasks of Python that nothing makes ranks of one job
        batch("srun python prepare.py\n", "--nodes=1", "--ntasks-per-node=16", "--gres=gpu:4"),
    ],
)
def test_good_dc301_counts_that_fit_or_are_not_known(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize(
    "text",
    [
        'if [ "$DEBUG" = 1 ]; then export CUDA_VISIBLE_DEVICES=0; fi\n' + EIGHT,
        '[ -n "$ONE" ] && export CUDA_VISIBLE_DEVICES=0\n' + EIGHT,
    ],
)
def test_good_dc301_dc302_a_mask_that_only_some_ways_set(text: str) -> None:
    assert said(text, least=INFO) == []
    assert said(text, Nodes("site.json", gpus=4), least=INFO) == []


def test_dc301_the_fix_writes_the_number_that_fits() -> None:
    (finding,) = judge("CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node 8 train.py\n")
    assert "CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node 2 train.py" in finding.fix.text
    assert [edit.text for edit in finding.fix.edits] == ["2"]
    # where a variable says it, its value may be used elsewhere
    (finding,) = judge("N=8\nCUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node $N train.py\n")
    assert finding.fix.edits == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (batch(FOUR, "--gpus-per-node=8"), [(3, "DC302", WARNING)]),
        (
            batch("srun python train.py\n", "--nodes=2", "--ntasks-per-node=4", "--gres=gpu:8"),
            [(5, "DC302", WARNING)],
        ),
        (batch("torchrun train.py\n", "--gpus-per-node=8"), [(3, "DC302", INFO)]),
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --standalone --nproc_per_node=2 train.py\n", [(1, "DC302", INFO)]),
    ],
)
def test_bad_dc302_gpus_that_take_no_part(text: str, expected: list[tuple[int, str, Severity]]) -> None:
    assert [one for one in said(text, least=INFO) if one[1] == "DC302"] == expected


@pytest.mark.parametrize(
    "text",
    [
        batch(EIGHT, "--gpus-per-node=8"),
        batch("python serve.py --tensor-parallel-size 8\n", "--gpus-per-node=8"),
        batch("CUDA_VISIBLE_DEVICES=0,1 " + FOUR.replace("4", "2"), "--gpus-per-node=4"),
        batch(FOUR.strip() + " &\n" + FOUR.strip() + " &\nwait\n", "--gpus-per-node=8"),
        batch(FOUR + EIGHT, "--gpus-per-node=8"),
        batch("srun --ntasks=2 --gpus-per-task=4 " + FOUR, "--nodes=1", "--gpus-per-node=8"),
        batch(FOUR, "--exclusive"),
        batch("export CUDA_VISIBLE_DEVICES=0,1,2,3\n" + FOUR, "--gpus-per-node=8"),
    ],
)
def test_good_dc302_gpus_that_are_used(text: str) -> None:
    assert [one for one in said(text, least=INFO) if one[1] == "DC302"] == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (batch(EIGHT, "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=4"), 5),
        (batch("srun -c 4 " + EIGHT, "--nodes=1", "--ntasks-per-node=1"), 4),
        ("docker run --gpus all --cpus=2 img " + EIGHT, 1),
        ("docker run --gpus all --cpus 1.5 img " + EIGHT, 1),
    ],
)
def test_bad_dc325_fewer_cpus_than_ranks(text: str, line: int) -> None:
    assert said(text) == [(line, "DC325", WARNING)]


def test_what_srun_does_not_take_over_is_worth_knowing() -> None:
    text = batch("srun " + EIGHT, "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=64")
    assert said(text, least=INFO) == [(5, "DC325", INFO)]


@pytest.mark.parametrize(
    "text",
    [
        batch(EIGHT, "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=64"),
        batch(EIGHT, "--nodes=1", "--ntasks-per-node=8", "--cpus-per-task=4"),
        batch(EIGHT, "--nodes=1", "--cpus-per-task=$N"),
        batch("srun -c 64 " + EIGHT, "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=64"),
        batch("srun --cpus-per-task=$SLURM_CPUS_PER_TASK " + EIGHT, "--nodes=1", "--cpus-per-task=64"),
        batch("export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\nsrun " + EIGHT, "--nodes=1", "--cpus-per-task=64"),
        batch("srun --cpu-bind=none " + EIGHT, "--nodes=1", "--cpus-per-task=64"),
        batch("srun " + EIGHT, "--nodes=1", "--cpus-per-task=1", "--cpus-per-gpu=8"),
        batch("srun hostname\nsrun python prepare.py\n", "--nodes=1", "--cpus-per-task=64"),
        "docker run --gpus all --cpus=64 img " + EIGHT,
        "docker run --gpus all --cpus=$N img " + EIGHT,
    ],
)
def test_good_dc325_cpus_that_are_enough_or_not_known(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("srun train-wrapper fit --config c.yaml\n", True),
        ("srun composer train.py\n", True),
        ("srun python train.py\n", True),
        ("srun bash scripts/inner.sh a b\n", True),
        ('srun --output=x bash "$FOLDER/inner.sh"\n', True),
        ("srun apptainer exec --nv img.sif train-wrapper\n", True),
        ("srun hostname\n", False),
        ("srun -N1 -n1 nvidia-smi\n", False),
        ("srun mkdir -p /tmp/x\n", False),
        ("srun bash -c 'hostname; rm -rf /tmp/x'\n", False),
        ("srun -c 8 train-wrapper fit\n", False),
        ("export SRUN_CPUS_PER_TASK=8\nsrun train-wrapper fit\n", False),
    ],
)
def test_dc325_any_program_of_a_job_with_gpus_gets_one_cpu(line: str, found: bool) -> None:
    directives = ("--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=8")
    assert [code for _, code, _ in said(batch(line, *directives, "--gres=gpu:4"), least=INFO)] == ["DC325"] * found
    if "python" not in line:
        assert said(batch(line, *directives), least=INFO) == []  # no GPUs: nothing to wait for


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        (batch(EIGHT, "--nodes=1", "--gres=gpu:8"), 1),
        (batch(EIGHT, "--nodes=1", "--ntasks-per-node=4", "--gpus-per-node=8"), 4),
        (batch("srun " + EIGHT, "--nodes=1", "--ntasks-per-node=1", "--gres=gpu:8"), 1),
        ("#!/bin/bash\n#PBS -l select=1:ngpus=8\n" + EIGHT, 1),
    ],
)
def test_dc325_several_ranks_on_the_one_cpu_of_a_default(text: str, cpus: int) -> None:
    (finding,) = [one for one in judge(text) if one.code == "DC325"]
    assert (finding.severity, finding.evidence["cpus"]) == (INFO, cpus)


@pytest.mark.parametrize(
    "text",
    [
        batch(EIGHT, "--nodes=1", "--gres=gpu:8", "--exclusive"),
        batch(EIGHT, "--nodes=1", "--gres=gpu:8", "--cpus-per-gpu=8"),
        batch(EIGHT, "--nodes=1", "--gres=gpu:8", "--cpus-per-task=$N"),
        batch(EIGHT, "--nodes=1", "--ntasks-per-node=8", "--gres=gpu:8"),
        batch("srun -c 64 " + EIGHT, "--nodes=1", "--gres=gpu:8"),
        batch("srun " + EIGHT, "--nodes=1", "--ntasks-per-node=$N", "--gres=gpu:8"),
        batch(EIGHT, "--nodes=1"),  # nothing of the job but its nodes
        "#!/bin/bash\n#PBS -l select=1:ncpus=64:ngpus=8\n" + EIGHT,
        "#!/bin/bash\n#PBS -l nodes=1:ppn=64:gpus=8\n" + EIGHT,
        "sbatch run.sh\n" + EIGHT,
    ],
)
def test_good_dc325_another_source_of_cpus(text: str) -> None:
    assert [one for one in judge(text) if one.code == "DC325" and "requests none" in one.message] == []


def lsf(body: str, *options: str) -> str:
    return "#!/bin/bash\n" + "".join(f"#BSUB {one}\n" for one in options) + body


HOST = '-R "span[hosts=1]"'


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        (lsf(EIGHT, "-n 1", "-q gpu"), 1),
        (lsf(EIGHT, "-n 4", HOST, '-gpu "num=8"'), 4),
        (lsf(EIGHT, "-n 16", '-R "span[ptile=4]"'), 4),
        (lsf(EIGHT, "-q gpu"), 1),
        ("#/bin/bash\n" + lsf(EIGHT, "-n 1").partition("\n")[2], 1),
    ],
)
def test_dc325_more_ranks_than_slots_of_lsf(text: str, slots: int) -> None:
    (finding,) = [one for one in judge(text) if one.code == "DC325"]
    assert (finding.severity, finding.evidence["cpus"]) == (INFO, slots)
    # what the fix shows
    before = [line for line in text.splitlines() if not line.startswith(("#BSUB -n", "#BSUB -R"))]
    directives = re.findall(r"#BSUB -n \d+|#BSUB -R \S+", finding.fix.text)
    assert len(directives) == 2
    assert [one for one in judge("\n".join([before[0], *directives, *before[1:], ""])) if one.code == "DC325"] == []


@pytest.mark.parametrize(
    "text",
    [
        lsf(EIGHT, "-n 8", HOST),
        lsf(EIGHT, "-n 64", '-R "span[ptile=8]"'),
        lsf(EIGHT, "-n 1", "-x"),
        lsf(EIGHT, "-n 1", '-R "affinity[core(16)]"'),
        lsf(EIGHT, "-n $SLOTS"),
        lsf(EIGHT, "-nnodes 2"),
        lsf("mpirun -np 2 " + EIGHT, "-n 2"),
        lsf("blaunch " + EIGHT, "-n 2"),
        lsf("torchrun --standalone --nproc-per-node=$N train.py\n", "-n 1"),
        lsf("python train.py\n", "-n 1"),
    ],
)
def test_good_dc325_slots_of_lsf(text: str) -> None:
    assert [one for one in judge(text) if one.code == "DC325"] == []


@pytest.mark.parametrize(
    ("line", "directives", "found"),
    [
        ("srun bash launch.sh\n", ("--ntasks-per-node=1", "--gres=gpu:4"), True),
        ("srun ./launch.sh\n", ("--ntasks-per-node=2", "--gpus-per-node=4"), True),
        ("srun ./launch.sh\n", ("--ntasks-per-node=4", "--gpus-per-node=4"), False),
        ("srun ./launch.sh\n", ("--ntasks-per-node=1", "--gpus-per-node=4", "--exclusive"), False),
        ("srun ./launch.sh\n", ("--ntasks-per-node=1", "--gpus-per-node=4", "--cpus-per-gpu=8"), False),
        ("srun -c 32 ./launch.sh\n", ("--ntasks-per-node=1", "--gpus-per-node=4"), False),
        ("srun ./launch.sh\n", ("--ntasks-per-node=1",), False),
        ("srun hostname\n", ("--ntasks-per-node=1", "--gpus-per-node=4"), False),
    ],
)
def test_dc325_a_script_on_several_gpus_gets_one_cpu(line: str, directives: tuple[str, ...], found: bool) -> None:
    text = batch(line, "--nodes=2", *directives)
    assert said(text, least=INFO) == [(3 + len(directives), "DC325", INFO)] * found
    fixed = text.replace("#SBATCH --nodes=2\n", "#SBATCH --nodes=2\n#SBATCH --cpus-per-task=8\n")
    assert [one for one in judge(fixed) if "requests none" in one.message] == []


def test_dc325_a_job_in_a_document_or_in_a_heredoc() -> None:
    job = batch("srun train-wrapper fit\n", "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=8", "--gres=gpu:4")
    document = f"```bash\n{job}```\n"
    assert [one.code for one in judge(document, path="README.md")] == ["DC325"]
    heredoc = "sbatch -N 2 --ntasks-per-node 4 -c 8 --gres=gpu:4 <<EOF\n#!/bin/bash\nsrun bash scripts/run.sh\nEOF\n"
    (finding,) = judge(heredoc)
    # the shell that submits would expand a variable
    assert not finding.fix.edits
    assert "$" not in finding.fix.text
    option = finding.fix.text.rpartition(": ")[2]
    assert judge(heredoc.replace("srun ", f"srun {option} ")) == []


def test_dc325_the_fix_hands_the_cpus_on() -> None:
    (finding,) = judge(batch("srun " + EIGHT, "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=64"))
    assert "srun --cpus-per-task=$SLURM_CPUS_PER_TASK torchrun --standalone" in finding.fix.text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("srun torchrun \\\n  --nproc_per_node=8 train.py\n", "torchrun …"),
        ("srun bash -c '\n" + EIGHT + "'\n", "bash -c ' …"),
    ],
)
def test_dc325_a_line_that_goes_on_is_shown_so(line: str, shown: str) -> None:
    (finding,) = judge(batch(line, "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=64"))
    assert finding.fix.text.endswith(f": srun --cpus-per-task=$SLURM_CPUS_PER_TASK {shown}")


@pytest.mark.parametrize(
    "before",
    [
        "docker run --gpus all --ipc=host img ",
        "docker run --gpus all --ipc=host --env-file train.env img ",
        "docker exec trainer ",
        "ssh gpu1 ",
        "pdsh -w gpu[1-2] ",
        "kubectl exec pod-0 -- ",
    ],
)
def test_good_dc301_dc302_a_mask_that_no_container_and_no_other_host_gets(before: str) -> None:
    lines = (f"export CUDA_VISIBLE_DEVICES={mask}\n{before}{EIGHT}" for mask in ("0,1", "0,1,2,3,4,5,6,7,8,9"))
    assert [said(line, least=INFO) for line in lines] == [[], []]


def test_elements_are_joined_by_what_the_shell_is_told() -> None:
    line = 'CUDA_VISIBLE_DEVICES="${GPUS[*]}" torchrun --nproc_per_node=4 train.py\n'
    assert said("GPUS=(0 1 2 3)\nIFS=,\n" + line) == []
    assert said("GPUS=(0 1)\nIFS=,\n" + line) == [(3, "DC301", ERROR)]
    assert said("GPUS=(0 1)\nIFS=$SEPARATOR\n" + line) == []
    assert said('GPUS=(0 1)\nif [ -n "$1" ]; then IFS=,; fi\n' + line) == []


def test_dc301_one_process_is_one() -> None:
    (finding,) = judge("CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node=2 train.py\n")
    assert finding.fix.text.startswith("start 1 process on each node, or use 2 GPUs: ")


def test_bad_dc323_memory_that_no_rank_can_live_on() -> None:
    assert said(batch(EIGHT, "--nodes=1", "--mem=4G")) == [(3, "DC323", WARNING)]


def test_dc323_one_rank_is_one() -> None:
    (finding,) = judge(batch("srun torchrun --nproc_per_node=1 train.py\n", "--nodes=1", "--ntasks=1", "--mem=400M"))
    assert "but a rank needs " in finding.message


@pytest.mark.parametrize("directive", ["--mem=400G", "--mem=0", "--mem=$M", "--mem-per-cpu=1G"])
def test_good_dc323_memory(directive: str) -> None:
    assert said(batch(EIGHT, "--nodes=1", directive)) == []


NODE = Nodes("h100.json", gpus=4, cpus=64, memory_bytes=256 * GIB)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EIGHT, [(1, "DC301", ERROR)]),
        (batch(EIGHT, "--exclusive"), [(3, "DC301", ERROR)]),
        (batch(EIGHT, "--gres=gpu:8"), [(2, "DC301", ERROR)]),
        (batch(FOUR, "--nodes=2", "--gpus=16"), [(3, "DC301", ERROR), (4, "DC302", WARNING)]),
        (batch(FOUR, "--gres=gpu:4", "--cpus-per-task=96"), [(3, "DC325", WARNING)]),
        (batch(FOUR, "--ntasks-per-node=4", "--cpus-per-task=32"), [(3, "DC325", WARNING)]),
        (batch(FOUR, "--gres=gpu:4", "--mem=512G"), [(3, "DC323", WARNING)]),
    ],
)
def test_bad_dc301_dc323_dc325_more_than_the_nodes_have(text: str, expected: list[tuple[int, str, Severity]]) -> None:
    assert said(text, NODE) == expected
    assert any("h100.json" in finding.message for finding in judge(text, NODE))


@pytest.mark.parametrize(
    "text",
    [
        FOUR,
        batch(FOUR, "--gres=gpu:4", "--cpus-per-task=64", "--mem=250G"),
        batch(FOUR, "--gres=gpu:$N", "--mem=0", "--cpus-per-task=$C"),
        "CUDA_VISIBLE_DEVICES=$MASK " + FOUR,
    ],
)
def test_good_what_the_nodes_have(text: str) -> None:
    assert said(text, NODE, INFO) == []


def test_nodes_of_which_little_is_known_are_compared_with_that() -> None:
    assert said(batch(EIGHT, "--cpus-per-task=999", "--mem=9999G"), Nodes("x.json", gpus=8)) == []
