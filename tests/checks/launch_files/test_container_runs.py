"""``docker run`` before a launcher: what it gives the ranks at /dev/shm."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.container_runs import container_has_shared_memory
from distcheck.checks.launch_files.files import read_file
from distcheck.checks.launch_files.model import LaunchFiles
from distcheck.core.model import Finding, Severity

RUN = "docker run --rm --gpus all {} img torchrun --standalone --nproc_per_node=8 train.py\n"


def judge(text: str) -> list[Finding]:
    file = read_file("run.sh", text.encode(), "shell", lambda path: None)
    assert not file.problems
    assert file.sites
    return list(container_has_shared_memory(LaunchFiles((file,))))


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (RUN.format(""), Severity.WARNING),
        (RUN.format("-v /data:/data -e X=$X --name $NAME"), Severity.WARNING),
        (RUN.format("--shm-size=64m"), Severity.WARNING),
        (RUN.format("--shm-size 512MB"), Severity.WARNING),
        (RUN.replace("--gpus all", "--device nvidia.com/gpu=all").replace("docker", "podman").format(""), Severity.WARNING),
        (RUN.replace("docker", "sudo nvidia-docker").replace("--gpus all", "--runtime=nvidia").format(""), Severity.WARNING),
        ("ssh $HOST '" + RUN.strip().format("--network host") + "'\n", Severity.WARNING),
    ],
)  # fmt: skip
def test_too_little_shared_memory(text: str, severity: Severity) -> None:
    (finding,) = judge(text)
    assert (finding.code, finding.severity) == ("DC320", severity)
    assert (finding.where.line, finding.where.object) == (1, "/dev/shm")
    assert finding.fix.risk


@pytest.mark.parametrize(
    "text",
    [
        RUN.format("--shm-size=16g"),
        RUN.format("--shm-size 1GB"),
        RUN.format("--shm-size=$SHM"),
        RUN.format("--ipc=host"),
        RUN.format("--ipc host"),
        RUN.format("-v /dev/shm:/dev/shm"),
        RUN.format("--mount type=tmpfs,destination=/dev/shm"),
        # these may hold the option
        RUN.format("$DOCKER_OPTIONS"),
        RUN.format('"${ARGS[@]}"'),
        # one rank, an unknown number, no GPUs, no container of its own
        RUN.format("").replace("--nproc_per_node=8", "--nproc_per_node=1"),
        RUN.format("").replace("--nproc_per_node=8", "--nproc_per_node=$N"),
        RUN.format("").replace("--nproc_per_node=8", "--nproc_per_node=gpu"),
        RUN.format("").replace("--gpus all", "-v a:b"),
        "docker exec -it box torchrun --nproc_per_node=8 train.py\n",
        "singularity exec --nv img.sif torchrun --nproc_per_node=8 train.py\n",
        "torchrun --nproc_per_node=8 train.py\n",
        "# " + RUN.format("") + "torchrun a.py\n",
    ],
)
def test_enough_or_not_known(text: str) -> None:
    assert judge(text) == []


def test_the_fix_gives_more() -> None:
    text = RUN.format("")
    (finding,) = judge(text)
    (edit,) = finding.fix.edits
    fixed = text[: edit.column - 1] + edit.text + text[edit.end_column - 1 :]
    assert fixed.startswith("docker run --shm-size=16g --rm")
    assert judge(fixed) == []
