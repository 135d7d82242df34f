"""Dockerfiles: variables of the image, commands of all forms, stages, heredocs, continuation lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.launch_files.dockerfile import instructions
from distcheck.checks.launch_files.fragments import Fragment

from .reading import check_places, commands, read, shown, values

DOCKERFILE = """\
# syntax=docker/dockerfile:1
ARG CUDA=12
FROM nvcr.io/nvidia/pytorch:24.01 AS base
ARG WORLD=2
ENV NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME="eth0" \\
    # a remark, which is left out
    GPUS=8

ENV OLD value with blanks
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN --mount=type=cache,target=/var/cache/pip pip install x \\
  # a remark
  && export FOO=1 \\

  && torchrun --nproc_per_node=$GPUS --nnodes=$WORLD test.py
RUN <<EOT
export NCCL_IB_DISABLE=1
python setup.py install
EOT
COPY <<EOT /x.sh
torchrun nothing
EOT
RUN cat > /y.sh <<'EOT'
torchrun nothing --nnodes 3
EOT
FROM base AS train
ENTRYPOINT ["torchrun", "--nnodes=2", "--node_rank=0", "--master_addr", "localhost"]
CMD ["train.py", "--name", "it's \\"q\\" \\u00e4"]
FROM base AS shell
CMD torchrun --nproc_per_node ${GPUS} train.py
FROM base AS nested
cmd ["bash", "-c", "torchrun --nproc_per_node=4 train.py && echo done"]
"""


def test_a_whole_file() -> None:
    file = read("Dockerfile", DOCKERFILE)
    assert file.problems == ()
    assert commands(file) == [
        "torchrun --nproc_per_node=8 --nnodes=$WORLD test.py",
        "python setup.py install",
        'torchrun --nnodes=2 --node_rank=0 --master_addr localhost train.py --name it\'s "q" ä',
        "torchrun --nproc_per_node 8 train.py",
        "torchrun --nproc_per_node=4 train.py",
    ]
    assert [(setting.name, setting.value, setting.reach) for setting in file.settings] == [
        ("NCCL_DEBUG", "INFO", "image"),
        ("NCCL_SOCKET_IFNAME", "eth0", "image"),
        ("GPUS", "8", "image"),
        ("OLD", "value with blanks", "image"),
        ("FOO", "1", "exported"),
        ("NCCL_IB_DISABLE", "1", "exported"),
    ]
    check_places(DOCKERFILE, file)
    assert all(site.kind == "dockerfile" and site.folder is None for site in file.sites)
    run, build, train, shell, nested = file.sites
    assert values(shell.settings) == {
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_IFNAME": "eth0",
        "GPUS": "8",
        "OLD": "value with blanks",
    }
    # what one RUN exports ends with it
    assert "FOO" in run.settings
    assert "FOO" not in build.settings
    assert build.unexported["FOO"].value == "1"
    assert "FOO" not in train.settings
    assert shown(DOCKERFILE, shell.words[2].origins[0]) == "8"
    assert shown(DOCKERFILE, nested.words[1].span) == "--nproc_per_node=4"
    assert shown(DOCKERFILE, train.words[-1].span) == '"it\'s \\"q\\" \\u00e4"'
    assert train.command.node_rank == 0


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("ENV X=1", "1"),
        ("ENV X 1", "1"),
        ("ENV X=", ""),
        ('ENV X="a b"', "a b"),
        ("ENV X=a\\ b", "a b"),
        ("ENV X='$GPUS'", "$GPUS"),
        ('ENV X="$GPUS,$GPUS"', "8,8"),
        ("ENV X=${GPUS}", "8"),
        ("ENV X=\\$GPUS", "$GPUS"),
        ("ENV X=${GPUS:-4}", "8"),
        ("ENV X=${EMPTY:-4}", "4"),
        ("ENV X=${GPUS:+yes}", "yes"),
        ("ENV X=${EMPTY:+yes}", ""),
        ("ENV X=${GPUS%8}", None),
        ("ENV X=$FROM_BELOW", None),
        ("ENV X=$ARGUMENT", None),
        ("ENV GPUS=4 X=$GPUS", "8"),
        ("env X=1", "1"),
        ("ENV X=1\nENV X=2", "2"),
    ],
)
def test_the_value_of_a_variable(written: str, value: str | None) -> None:
    text = f"FROM x\nARG ARGUMENT=3\nENV GPUS=8 EMPTY=\n{written}\nCMD torchrun train.py\n"
    file = read("Dockerfile", text)
    assert file.sites[0].settings["X"].value == value
    check_places(text, file)


@pytest.mark.parametrize(
    "line", ["ENV", "ENV =", "ENV X", "ENV 1=2", "ENV $X=1", "ARG", "FROM", "CMD", "CMD []", "RUN"]
)
def test_what_is_no_instruction_changes_nothing(line: str) -> None:
    file = read("Dockerfile", f"FROM x\n{line}\nENV NCCL_DEBUG=INFO\n")
    assert [setting.name for setting in file.settings] == ["NCCL_DEBUG"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ENTRYPOINT ["torchrun"]\nCMD ["train.py"]', ["torchrun train.py"]),
        ('CMD ["train.py"]\nENTRYPOINT ["torchrun"]', ["torchrun train.py"]),
        ('CMD ["torchrun", "a.py"]\nCMD ["torchrun", "b.py"]', ["torchrun b.py"]),
        ('ENTRYPOINT torchrun a.py\nCMD ["torchrun", "b.py"]', ["torchrun a.py"]),
        ('ENTRYPOINT ["/entry.sh"]\nCMD ["torchrun", "b.py"]', ["torchrun b.py"]),
        ('ENTRYPOINT ["tini", "--"]\nCMD ["torchrun", "b.py"]', ["tini -- torchrun b.py"]),
        ("CMD [torchrun, a.py]", []),
        ("ONBUILD RUN torchrun a.py", ["torchrun a.py"]),
        ('RUN ["torchrun", "--nnodes=$X", "a.py"]', ["torchrun --nnodes=$X a.py"]),
        ('SHELL ["powershell"]\nRUN torchrun a.py\nCMD torchrun b.py', []),
        ('SHELL ["conda", "run", "-n", "x", "/bin/bash", "-c"]\nRUN torchrun a.py', ["torchrun a.py"]),
        ("FROM a AS b\nCMD torchrun a.py\nFROM b\nENV X=1", ["torchrun a.py"]),
        ("RUN bash <<EOT\ntorchrun a.py\nEOT", ["torchrun a.py"]),
        ("RUN <<-EOT\n\ttorchrun a.py \\\n\t  --x\n\tEOT", ["torchrun a.py --x"]),
        ("RUN <<EOT\n#!/usr/bin/env python\ntorchrun = 1\nEOT", []),
        ("RUN echo $((1<<2)) && torchrun a.py", ["torchrun a.py"]),
        ("RUN <<EOT\ntorchrun a.py", []),
        ("# CMD torchrun a.py", []),
        ("HEALTHCHECK CMD torchrun a.py", []),
        ("# escape=`\nRUN torchrun `\n  a.py", ["torchrun a.py"]),
        ("RUN torchrun \\   \n  a.py", ["torchrun a.py"]),
    ],
)
def test_which_commands_are_found(text: str, expected: list[str]) -> None:
    file = read("Dockerfile", text if text.startswith("#") else f"FROM x\n{text}\n")
    assert [command.removeprefix("bash ").removeprefix("/entry.sh ") for command in commands(file)] == expected
    check_places(text if text.startswith("#") else f"FROM x\n{text}\n", file)


def test_stages_stand_upon_each_other() -> None:
    text = (
        "FROM x AS a\nENV NCCL_DEBUG=INFO\nFROM y AS b\nCMD torchrun b.py\nFROM A\nENV X=1\nCMD torchrun c.py\n"
        "FROM --platform=linux/amd64 a as d\nCMD torchrun d.py\n"
    )
    other, above, last = read("Dockerfile", text).sites
    assert values(other.settings) == {}
    assert values(above.settings) == {"NCCL_DEBUG": "INFO", "X": "1"}
    assert values(last.settings) == {"NCCL_DEBUG": "INFO"}


def test_lines_that_end_in_cr_and_lf() -> None:
    text = DOCKERFILE.replace("\n", "\r\n")
    assert commands(read("Dockerfile", text)) == commands(read("Dockerfile", DOCKERFILE))


def test_comments_are_kept_for_suppressions() -> None:
    text = "FROM x\n# distcheck: ignore-file[DC804]\nRUN torchrun a.py  # noqa: DC801\n"
    assert read("Dockerfile", text).comments == ((2, "# distcheck: ignore-file[DC804]"), (3, "# noqa: DC801"))


@given(st.text(st.sampled_from(list('RUNENVCMD ["torchrun"] \\\n\n<<E=\'${}#X:-')), max_size=80))
def test_nothing_makes_it_raise(text: str) -> None:
    for instruction in instructions(Fragment(text, "Dockerfile")):
        assert instruction.name.isupper()
    read("Dockerfile", f"FROM x\nENV NCCL_DEBUG=1\n{text}")
