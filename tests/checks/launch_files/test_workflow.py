"""Workflows: steps that a shell carries out, variables of three levels, templates unknown."""

from __future__ import annotations

import pytest

from .reading import check_places, commands, read, shown, values

PATH = ".github/workflows/train.yml"
WORKFLOW = """\
on: push
env:
  NCCL_DEBUG: INFO   # distcheck: ignore[DC113]
jobs:
  test:
    runs-on: ubuntu-latest
    if: github.actor != 'bot'
    strategy:
      matrix: {gpus: [1, 2]}
    env: {GPUS: 4, TOKEN: "${{ secrets.TOKEN }}", GLOO_SOCKET_IFNAME: lo}
    steps:
      - uses: actions/checkout@v4
      - name: run
        if: matrix.gpus > 1
        env:
          GLOO_SOCKET_IFNAME: "eth0"
        working-directory: src
        run: |
          export OMP_NUM_THREADS=1
          torchrun --nproc_per_node=${{ matrix.gpus }} \\
            train.py   # noqa: DC301
          torchrun --nproc_per_node=$GPUS train.py
      - run: torchrun --standalone a.py
      - shell: python
        run: import torch  # torchrun b.py
      - run: >-
          torchrun
          --nnodes=2
          c.py
  other:
    runs-on: [self-hosted, gpu]
    container: {image: x, env: {NCCL_P2P_DISABLE: 1}}
    steps:
      - run: torchrun d.py
"""


def test_a_whole_workflow() -> None:
    file = read(PATH, WORKFLOW)
    assert file.kind == "workflow"
    assert file.problems == ()
    assert commands(file) == [
        "torchrun --nproc_per_node=${_______________} train.py",
        "torchrun --nproc_per_node=4 train.py",
        "torchrun --standalone a.py",
        "torchrun --nnodes=2 c.py",
        "torchrun d.py",
    ]
    check_places(WORKFLOW, file)
    matrix, counted, alone, folded, other = file.sites
    assert matrix.command.nproc is None
    assert counted.command.nproc == "4"
    assert matrix.conditions == ("github.actor != 'bot'", "matrix.gpus > 1")
    assert matrix.words[1].written == "--nproc_per_node=${{ matrix.gpus }}"
    assert [site.routine for site in file.sites] == ["test"] * 4 + ["other"]
    assert (matrix.folder, alone.folder) == ("src", "")
    assert values(matrix.settings) == {
        "NCCL_DEBUG": "INFO",
        "GPUS": "4",
        "TOKEN": None,
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
    }
    assert alone.settings["GLOO_SOCKET_IFNAME"].value == "lo"
    # each step is a shell of its own
    assert "OMP_NUM_THREADS" not in alone.settings
    assert alone.unexported["OMP_NUM_THREADS"].value == "1"
    assert "OMP_NUM_THREADS" not in other.unexported
    assert values(other.settings) == {"NCCL_DEBUG": "INFO", "NCCL_P2P_DISABLE": "1"}
    assert shown(WORKFLOW, folded.words[1].span) == "--nnodes=2"
    assert (3, "# distcheck: ignore[DC113]") in file.comments
    assert (21, "# noqa: DC301") in file.comments


def test_what_a_workflow_sets() -> None:
    assert [(setting.name, setting.value, setting.reach) for setting in read(PATH, WORKFLOW).settings] == [
        ("NCCL_DEBUG", "INFO", "workflow"),
        ("GPUS", "4", "workflow"),
        ("TOKEN", None, "workflow"),
        ("GLOO_SOCKET_IFNAME", "lo", "workflow"),
        ("GLOO_SOCKET_IFNAME", "eth0", "workflow"),
        ("OMP_NUM_THREADS", "1", "exported"),
        ("NCCL_P2P_DISABLE", "1", "workflow"),
    ]


@pytest.mark.parametrize(
    ("job", "step", "found"),
    [
        ("runs-on: ubuntu-latest", "", True),
        ("runs-on: ${{ matrix.os }}", "", True),
        ("runs-on: windows-latest", "", False),
        ("runs-on: windows-latest", "shell: bash", True),
        ("runs-on: x", "shell: pwsh", False),
        ("runs-on: x", "shell: bash -l {0}", True),
        ("runs-on: x", "shell: /usr/bin/bash", True),
        ("runs-on: x\n    defaults: {run: {shell: python}}", "", False),
        ("runs-on: x\n    defaults: {run: {shell: python}}", "shell: sh", True),
    ],
)
def test_which_steps_a_shell_carries_out(job: str, step: str, found: bool) -> None:
    text = f"jobs:\n  a:\n    {job}\n    steps:\n      - run: torchrun a.py\n        {step}\n"
    assert bool(read(PATH, text).sites) == found


def test_what_a_step_hands_on_is_unknown_behind_it() -> None:
    text = (
        "jobs:\n  a:\n    runs-on: x\n    steps:\n"
        '      - run: |\n          export NCCL_DEBUG=INFO\n          echo "NCCL_DEBUG=$NCCL_DEBUG" >> "$GITHUB_ENV"\n'
        "      - run: torchrun --nnodes=$NCCL_DEBUG a.py\n"
        "  b:\n    runs-on: x\n    steps:\n      - run: torchrun b.py\n"
    )
    first, second = read(PATH, text).sites
    assert values(first.settings) == {"NCCL_DEBUG": None}
    assert first.unexported == {}
    assert second.settings == {}


def test_a_composite_action() -> None:
    text = (
        "name: x\nruns:\n  using: composite\n  steps:\n"
        "    - run: torchrun ${{ inputs.script }}\n      shell: bash\n      env: {NCCL_DEBUG: WARN}\n"
    )
    (site,) = read("action.yml", text).sites
    assert values(site.settings) == {"NCCL_DEBUG": "WARN"}
    assert site.command.script is None or "$" in site.command.script


@pytest.mark.parametrize(
    "text",
    [
        "jobs: 1\nenv: torchrun\n",
        "jobs:\n  a: torchrun\n  b: [1]\n",
        "jobs:\n  a:\n    steps: {run: torchrun}\n    env: [1]\n",
        "jobs:\n  a:\n    steps: [torchrun, [1], {run: {x: 1}}, {run: }]\n",
        "- torchrun\n",
        "torchrun\n",
        "runs: {using: composite, steps: torchrun}\n",
    ],
)
def test_what_is_not_as_github_wants_it_says_nothing(text: str) -> None:
    file = read(PATH, text)
    assert file.sites == ()
    assert file.problems == ()


def test_a_fault_is_told_and_the_steps_before_it_are_read() -> None:
    text = WORKFLOW.replace("  other:\n", "  other: {\n")
    file = read(PATH, text)
    assert len(file.sites) >= 4
    assert [problem[0].partition(":")[0] for problem in file.problems] == ["malformed YAML"]
