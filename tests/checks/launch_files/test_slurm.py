"""What a job asks its scheduler for: directives, and options of srun and sbatch over them."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck.checks.launch_files.fragments import Fragment
from distcheck.checks.launch_files.model import Allocation, LaunchSite, Scalar
from distcheck.checks.launch_files.shell import ShellText, read_shell
from distcheck.checks.launch_files.slurm import read_directives
from distcheck.core.spans import Span


def directives(*lines: str) -> Allocation:
    found = read_directives(Fragment("\n".join(["#!/bin/bash", *lines, "hostname"]), "job.sbatch"))
    assert found is not None
    return found


def plain(allocation: Allocation | None) -> dict[str, Any]:
    """What is said and known."""
    assert allocation is not None
    found = {}
    for name, value in allocation._asdict().items():
        if isinstance(value, Scalar):
            found[name] = value.value if value.known else "?"
    return found


def read(text: str) -> ShellText:
    return read_shell(Fragment(text, "job.sbatch"), lambda path: None)


def only(text: str) -> LaunchSite:
    (site,) = read(text).sites
    return site


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["#SBATCH --nodes=2"], {"nodes": 2, "nodes_max": 2}),
        (["#SBATCH -N 2"], {"nodes": 2, "nodes_max": 2}),
        (["#SBATCH -N2 -n16 -c 4"], {"nodes": 2, "nodes_max": 2, "tasks": 16, "cpus_per_task": 4}),
        (["#SBATCH --nodes=2-4"], {"nodes": 2, "nodes_max": 4}),
        (["#SBATCH --nodes 2 # two of them"], {"nodes": 2, "nodes_max": 2}),
        (["#SBATCH --ntasks-per-node=8"], {"tasks_per_node": 8}),
        (["#SBATCH --tasks-per-node=8"], {"tasks_per_node": 8}),
        (["#SBATCH --gres=gpu:8"], {"gpus_per_node": 8}),
        (["#SBATCH --gres=gpu:a100:4(S:0-1),nvme:1"], {"gpus_per_node": 4}),
        (["#SBATCH --gres=gpu"], {"gpus_per_node": 1}),
        (["#SBATCH --gres=nvme:1"], {}),
        (["#SBATCH --gpus-per-node=h100:8"], {"gpus_per_node": 8}),
        (["#SBATCH -G 16"], {"gpus": 16}),
        (["#SBATCH --gpus-per-task=1"], {"gpus_per_task": 1}),
        (["#SBATCH --cpus-per-gpu=12"], {"cpus_per_gpu": 12}),
        (["#SBATCH --mem=64G"], {"memory_bytes_per_node": 64 * 2**30}),
        (["#SBATCH --mem=1000"], {"memory_bytes_per_node": 1000 * 2**20}),
        (["#SBATCH --mem=0"], {}),
        (['#SBATCH --comment="a -N 5" -N 2'], {"nodes": 2, "nodes_max": 2}),
        (["#SBATCH -N 2", "#SBATCH --nodes=3"], {"nodes": 3, "nodes_max": 3}),
        (["##SBATCH -N 2", "# SBATCH -N 3", "#SBATCHX -N 4", " #SBATCH -N 5", "#SBATCH -n 1"], {"tasks": 1}),
        (["#SBATCH -N 2", "", "# why", "#SBATCH -n 4"], {"nodes": 2, "nodes_max": 2, "tasks": 4}),
        (["#SBATCH -N 2", "module load cuda", "#SBATCH -n 4"], {"nodes": 2, "nodes_max": 2}),
        (["#SBATCH --nodes=$N"], {"nodes": "?", "nodes_max": "?"}),
        (["#SBATCH --nodes={{ nodes }} -n 2"], {"nodes": "?", "nodes_max": "?", "tasks": 2}),
        (["#SBATCH --nodes=<N>"], {"nodes": "?", "nodes_max": "?"}),
        (["#SBATCH --ntasks=many"], {"tasks": "?"}),
        (["#PBS -l select=2:ncpus=8:ngpus=4:mpiprocs=4"], {"nodes": 2, "nodes_max": 2, "tasks_per_node": 4, "gpus_per_node": 4}),
        (["#PBS -l nodes=2:ppn=8"], {"nodes": 2, "nodes_max": 2, "tasks_per_node": 8}),
        (["#BSUB -nnodes 4"], {"nodes": 4, "nodes_max": 4}),
        (['#BSUB -n 8 -gpu "num=4:mode=shared" -R "span[ptile=4]"'], {"tasks": 8, "gpus_per_node": 4, "tasks_per_node": 4}),
    ],
)  # fmt: skip
def test_directives(lines: list[str], expected: dict[str, Any]) -> None:
    assert plain(directives(*lines)) == expected


def test_a_script_without_directives_asks_for_nothing() -> None:
    assert read_directives(Fragment("#!/bin/bash\n# SBATCH is fine\nhostname\n", "a.sh")) is None
    assert read("torchrun a.py\n#SBATCH -N 2\n").allocation is None


def test_a_value_has_its_place() -> None:
    text = "#!/bin/bash\n#SBATCH -J x -N 4 --gres=gpu:8\n#SBATCH --ntasks-per-node 2 -c12\n"
    found = read_directives(Fragment(text, "job.sbatch"))
    assert found is not None and found.nodes is not None and found.tasks_per_node is not None
    assert found.nodes.span == Span("job.sbatch", 2, 17, 2, 18)
    assert found.gpus_per_node is not None
    assert (found.gpus_per_node.span, found.gpus_per_node.written) == (Span("job.sbatch", 2, 26, 2, 31), "gpu:8")
    assert found.tasks_per_node.span == Span("job.sbatch", 3, 27, 3, 28)
    assert found.cpus_per_task is not None and found.cpus_per_task.span.line == 3
    assert found.directives["job-name"].value == "x"


def test_arrays_and_jobs_of_several_components() -> None:
    assert directives("#SBATCH --array=0-3").array
    assert directives("#SBATCH -a 0-3").array
    assert not directives("#SBATCH -N 1").array
    found = directives("#SBATCH -N 1", "#SBATCH hetjob", "#SBATCH -N 8")
    assert found.heterogeneous
    assert plain(found) == {"nodes": 1, "nodes_max": 1}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--gpus-per-task=1", True),
        ("--ntasks-per-gpu=1", True),
        ("--gpu-bind=single:1", True),
        ("--gpu-bind=none --gpus-per-task=1", False),
        ("--gres=gpu:8", False),
    ],
)
def test_who_sees_which_gpu(options: str, expected: bool) -> None:
    assert directives(f"#SBATCH {options}").binds_gpus is expected


HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gres=gpu:8 --cpus-per-task=4 --mem=8G\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # a step has what its job has, but for the CPUs of a task
        ("srun python a.py", {"nodes": 2, "nodes_max": 2, "tasks_per_node": 8, "gpus_per_node": 8, "memory_bytes_per_node": 2**33}),
        (
            "srun --ntasks-per-node=1 -c 8 python a.py",
            {"nodes": 2, "nodes_max": 2, "tasks_per_node": 1, "cpus_per_task": 8, "gpus_per_node": 8, "memory_bytes_per_node": 2**33},
        ),
        # the tasks of a node are a bound only where the step says how many it has
        ("srun -N1 -n1 python a.py", {"nodes": 1, "nodes_max": 1, "tasks": 1, "gpus_per_node": 8, "memory_bytes_per_node": 2**33}),
        ("srun -n 2 --gpus-per-task=4 python a.py", {"nodes": 2, "nodes_max": 2, "tasks": 2, "gpus_per_task": 4, "memory_bytes_per_node": 2**33}),
        (
            "srun -N $SLURM_NNODES --ntasks-per-node=1 python a.py",
            {"nodes": 2, "nodes_max": 2, "tasks_per_node": 1, "gpus_per_node": 8, "memory_bytes_per_node": 2**33},
        ),
        (
            "srun -N $WANTED --ntasks-per-node=1 python a.py",
            {"nodes": "?", "nodes_max": "?", "tasks_per_node": 1, "gpus_per_node": 8, "memory_bytes_per_node": 2**33},
        ),
        (
            "python a.py",
            {"nodes": 2, "nodes_max": 2, "tasks_per_node": 8, "gpus_per_node": 8, "cpus_per_task": 4, "memory_bytes_per_node": 2**33},
        ),
        ("N=1; srun -N $N -n $N python a.py", {"nodes": 1, "nodes_max": 1, "tasks": 1, "gpus_per_node": 8, "memory_bytes_per_node": 2**33}),
    ],
)  # fmt: skip
def test_a_step_over_its_job(line: str, expected: dict[str, Any]) -> None:
    site = only(HEAD + line)
    assert plain(site.allocation) == expected
    assert site.job is not None and site.job.nodes is not None and site.job.nodes.value == 2
    assert site.kind == "slurm"


def test_the_span_of_a_step_s_option() -> None:
    site = only("srun -N1 --ntasks-per-node=4 -n 8 python a.py")
    assert site.allocation is not None
    tasks, per_node = site.allocation.tasks, site.allocation.tasks_per_node
    assert tasks is not None and tasks.span == Span("job.sbatch", 1, 33, 1, 34)
    assert per_node is not None and per_node.span == Span("job.sbatch", 1, 28, 1, 29)
    assert site.job is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sbatch -N 3 --wrap='srun python a.py'", {"nodes": 3, "nodes_max": 3}),
        ("sbatch --nodes=3 <<EOF\n#!/bin/bash\n#SBATCH -N 2 -n 6\nsrun python a.py\nEOF", {"nodes": 3, "nodes_max": 3, "tasks": 6}),
        ("cat <<EOF | sbatch\n#!/bin/bash\n#SBATCH -N 2\npython a.py\nEOF", {"nodes": 2, "nodes_max": 2}),
        ("N=4; sbatch <<EOF\n#!/bin/bash\n#SBATCH -N $N\npython a.py\nEOF", {"nodes": 4, "nodes_max": 4}),
        ("N=4; sbatch <<'EOF'\n#!/bin/bash\n#SBATCH -N $N\npython a.py\nEOF", {"nodes": "?", "nodes_max": "?"}),
        ("salloc -N 2 srun -n 4 python a.py", {"nodes": 2, "nodes_max": 2, "tasks": 4}),
        ("sbatch -N 5 job.sbatch", {"nodes": 5, "nodes_max": 5}),
    ],
)  # fmt: skip
def test_jobs_that_a_script_hands_in(text: str, expected: dict[str, Any]) -> None:
    assert plain(only(text).allocation) == expected


def test_a_job_that_is_handed_in_is_a_job() -> None:
    site = only("export A=1\nsbatch -N 3 --wrap='srun torchrun a.py'")
    assert site.kind == "slurm"
    assert site.command.wrappers == ("sbatch", "srun")
    assert site.settings["A"].value == "1"
