"""What a file is, by its name and content, and files that can't be read or need not be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from distcheck.checks.launch_files.files import MAX_BYTES, kind_of, read_file
from distcheck.checks.launch_files.training_words import mentions_training

from .reading import commands, read

SHELL = "#!/bin/bash\ntorchrun train.py\n"
DEEPSPEED = '{\n  "train_batch_size": 32,\n  "zero_optimization": {"stage": 2}\n}\n'
ACCELERATE = "compute_environment: LOCAL_MACHINE\nnum_machines: 2\n"
POD = (
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: x\n    command: [torchrun, train.py]\n"
    "    resources: {limits: {nvidia.com/gpu: 8}}\n"
)


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("a.sh", "", "shell"),
        ("a/b.sbatch", "x", "shell"),
        ("a.slurm", "#SBATCH -N 2", "shell"),
        ("a.SH", "", "shell"),
        ("a.sh", "#!/usr/bin/env python\nimport x", None),
        ("a.sh", "#!/bin/csh\n", None),
        ("a.sh", "#!/bin/sh -e\n", "shell"),
        ("run", SHELL, "shell"),
        ("run", "#!/usr/bin/env bash\n", "shell"),
        ("run", "#!/usr/bin/env -S bash -e\n", "shell"),
        ("run", "#! /usr/local/bin/zsh\n", "shell"),
        ("run", "#!/usr/bin/env python3\n", None),
        ("run", "#SBATCH --nodes=2\n", "shell"),
        ("run", "torchrun train.py\n", None),
        ("job.sub", "executable = x\nqueue\n", None),
        ("job.sub", "#PBS -l nodes=2\n", "shell"),
        ("job.pbs", "#!/bin/sh\n", "shell"),
        ("tool.py", "#!/bin/sh\n'''exec' python \"$0\"\n", None),
        ("Dockerfile", "", "dockerfile"),
        ("docker/Dockerfile.train", "", "dockerfile"),
        ("train.Dockerfile", "", "dockerfile"),
        ("Containerfile", "", "dockerfile"),
        ("Dockerfile.md", "", "markdown"),
        ("dockerfile_parser.py", "", None),
        ("Makefile", "", "makefile"),
        ("GNUmakefile", "", "makefile"),
        ("rules.mk", "", "makefile"),
        ("Makefile.am", "", "makefile"),
        ("README.md", "", "markdown"),
        (".github/workflows/ci.yml", "", "workflow"),
        ("ci/test.yaml", "on: push\njobs:\n  a:\n    runs-on: x\n", "workflow"),
        ("action.yml", "runs:\n  using: composite\n", "workflow"),
        ("pod.yaml", POD, "kubernetes"),
        ("accelerate.yaml", ACCELERATE, "accelerate"),
        ("train.yaml", "model: x\nlr: 3\nnum_processes: 8\n", None),
        ("docker-compose.yml", "services:\n  a:\n    image: x\n", None),
        ("ds.json", DEEPSPEED, "deepspeed"),
        ("package.json", '{"name": "x", "optimizer": 1, "scheduler": 2}', None),
        ("args.json", '{"gradient_accumulation_steps": 2, "fp16": true, "optimizer": "adam"}', None),
        ("hostfile", "node1 slots=8\nnode2 slots=8\n", "hostfile"),
        ("conf/my_hostfile.txt", "# two\nnode1\nnode2\n", "hostfile"),
        ("machinefile", "node1:8\n", "hostfile"),
        ("hostfile.py", "node1\n", None),
        ("hostfile", "this is a description of it\n", None),
        ("hosts", "127.0.0.1 localhost\n", None),
        ("hostfile", "", None),
        ("data.bin", "\0\0\0", None),
        ("x.txt", "torchrun", None),
        ("", "", None),
    ],
)
def test_kind(path: str, text: str, kind: str | None) -> None:
    assert kind_of(path, text.encode(), include_markdown=True) == kind


def test_markdown_is_read_where_it_is_asked_for() -> None:
    assert kind_of("README.md", b"") is None


def test_a_mark_of_the_order_of_bytes_hides_nothing() -> None:
    data = b"\xef\xbb\xbf#!/bin/bash\ntorchrun train.py\n"
    assert kind_of("run", data) == "shell"
    file = read_file("run", data, "shell", lambda path: None)
    assert commands(file) == ["torchrun train.py"]
    assert file.problems == ()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Dockerfile", "FROM x\nCMD torchrun a.py\n"),
        ("Makefile", "a:\n\ttorchrun a.py\n"),
        ("a.md", "```bash\ntorchrun a.py\n```\n"),
        (".github/workflows/a.yml", "jobs:\n  a:\n    steps:\n    - run: torchrun a.py\n"),
        ("pod.yaml", POD),
    ],
)
def test_nor_in_other_files(path: str, text: str) -> None:
    assert commands(read(path, "\ufeff" + text)) == commands(read(path, text)) != []
    assert read(path, "\ufeff" + text).problems == ()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("torchrun train.py\n".encode("utf-16"), "UTF-16"),
        (("torchrun train.py\n" * 8).encode("utf-16-le"), "UTF-16"),
        (b"torchrun\0\x01\x02train.py", "binary"),
        (b"\x7fELF\0\0\0", "binary"),
    ],
)
@pytest.mark.parametrize("kind", ["shell", "makefile", "dockerfile", "kubernetes", "deepspeed", "accelerate"])
def test_what_is_no_text_is_told(data: bytes, said: str, kind: str) -> None:
    file = read_file("x", data, kind, lambda path: None)
    ((problem, line, _),) = file.problems
    assert said in problem
    assert line == 1
    assert file.sites == ()


def test_what_stands_before_appended_data_is_read() -> None:
    script = "#!/bin/sh\ntorchrun train.py\n" + "# " + "x" * 2000 + "\nexit\n"
    file = read("install.sh", script.encode() + b"\x1f\x8b\0\0torchrun\n")
    assert commands(file) == ["torchrun train.py"]
    ((problem, line, _),) = file.problems
    assert "binary" in problem
    assert line == 5


def test_a_file_that_is_too_large_is_read_to_its_limit() -> None:
    line = "# " + "x" * 97 + "\n"
    script = "torchrun train.py\n" + line * (MAX_BYTES // 100) + "torchrun late.py\n"
    file = read("big.sh", script)
    assert commands(file) == ["torchrun train.py"]
    assert f"{MAX_BYTES:,}" in file.problems[0][0]


def test_bytes_that_are_no_utf_8_move_no_column() -> None:
    file = read("a.sh", b"# gr\xf6\xdfe\necho \xe4; torchrun train.py\n")
    assert file.problems == ()
    assert file.sites[0].span[1:] == (2, 9, 2, 26)


def test_lines_are_those_of_the_file() -> None:
    file = read("a.sh", "torchrun \\\r\n  train.py\r\n")
    assert file.lines == ("torchrun \\", "  train.py", "")
    assert commands(file) == ["torchrun train.py"]


@pytest.mark.parametrize(
    "text",
    [
        "torchrun x", "python train.py", "python3 -u -m pkg.train", "export NCCL_DEBUG=INFO", "OMP_NUM_THREADS=4 ./x",
        "export RANK=0", "#SBATCH -N 2", "srun ./x", "mpirun -n 4 ./a", "export MASTER_ADDR=x", "deepspeed x",
        "accelerate launch x", "export GLOO_SOCKET_IFNAME=lo", "export CUDA_VISIBLE_DEVICES=0",
    ],
)  # fmt: skip
def test_a_file_that_bears_on_training_is_read(text: str) -> None:
    assert mentions_training(text.encode())


@pytest.mark.parametrize("text", ["make -j8 && cp a b", "pip install x", "export PATH=/x:$PATH", "echo hello; ls", ""])
def test_a_file_that_does_not_is_passed_over(text: str) -> None:
    assert not mentions_training(text.encode())
    assert read("a.sh", text).sites == ()


def test_nothing_heavy_is_imported_for_files_that_say_nothing() -> None:
    code = (
        "import sys\n"
        "from distcheck.checks.launch_files.files import kind_of, read_file\n"
        "for name, data in (('a.sh', b'make'), ('Makefile', b'all:\\n\\tmake x'), ('Dockerfile', b'RUN ls'),\n"
        "                   ('a.yaml', b'a: 1'), ('.github/workflows/a.yml', b'on: push')):\n"
        "    kind = kind_of(name, data)\n"
        "    if kind: read_file(name, data, kind, lambda path: None)\n"
        "print(*sorted({'yaml', 'tree_sitter', 'tree_sitter_bash'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""


def test_configurations_and_manifests_go_to_their_readers() -> None:
    assert read("ds.json", DEEPSPEED).configurations[0].launcher == "deepspeed"
    assert read("a.yaml", ACCELERATE).configurations[0].launcher == "accelerate"
    assert read("pod.yaml", POD).pods[0].kind == "Pod"
    assert [(host.host, host.slots) for host in read("hostfile", "a slots=8\nb slots=4\n").hosts] == [
        ("a", 8),
        ("b", 4),
    ]
