"""Documents: shell blocks are read, all else is passed over, and what the reader fills in is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .reading import check_places, commands, read, shown

DOCUMENT = """\
# How to train with torchrun train.py

```bash
# on each node
torchrun --nnodes=2 --node_rank=<node_rank> --master_addr=<MASTER IP> \\
    train.py   # noqa: DC804
```

1. On one node

   ```console
   user@host:~$ torchrun --nproc_per_node 8 \\
   > train.py
   torchrun: starting
   # srun -N 2 python x.py
   (venv) $ export NCCL_DEBUG=INFO
   ```

> ~~~~ sh
> torchrun quoted.py
> ~~~
> ~~~~

```python
torchrun = "torchrun nothing.py"
```

```text
torchrun nothing.py
```
"""


def test_a_whole_document() -> None:
    file = read("README.md", DOCUMENT)
    assert commands(file) == [
        "torchrun --nnodes=2 --node_rank=${________} --master_addr=${________} train.py",
        "torchrun --nproc_per_node 8 train.py",
        "srun -N 2 python x.py",
        "torchrun quoted.py",
    ]
    check_places(DOCUMENT, file)
    first = file.sites[0]
    assert first.kind == "markdown"
    assert first.command.nnodes_max == 2
    assert first.command.node_rank is None
    assert first.command.master_addr is None
    assert shown(DOCUMENT, first.words[2].span) == "--node_rank=<node_rank>"
    assert [setting.name for setting in file.settings] == ["NCCL_DEBUG"]
    assert file.problems == ()
    assert (6, "# noqa: DC804") in file.comments


@pytest.mark.parametrize(
    ("opening", "found"),
    [
        ("```sh", True),
        ("```Bash", True),
        ("``` bash ", True),
        ("~~~shell", True),
        ("```bash title=run.sh", True),
        ("```{.bash}", True),
        ("```{code-block} bash", True),
        ("```{bash}", True),
        ("```", True),
        ("```angular2html", True),
        ("```text", False),
        ("```python", False),
        ("```powershell", False),
        ("```bashful", False),
        ("``bash", False),
    ],
)
def test_which_blocks_are_read(opening: str, found: bool) -> None:
    text = f"{opening}\ntorchrun train.py\n{opening[:3]}\n"
    assert bool(read("a.md", text).sites) == found


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("torchrun --nproc_per_node=8 a.py", ["torchrun --nproc_per_node=8 a.py"]),
        ("pip install torch\nA=1 python -m torch.distributed.run a.py", ["python -m torch.distributed.run a.py"]),
        ("$ torchrun a.py\nuse torchrun b.py", ["torchrun a.py"]),
        ("python \\\n  -m torch.distributed.run \\\n  a.py", ["python -m torch.distributed.run a.py"]),
        ("torchrun is the successor of that module", []),
        ("deepspeed 0.16\ntorch 2.6", []),
        ("import torch\nmodel = torch.nn.Linear(1, 1)", []),
        ("train.py\n├── torchrun a.py", []),
    ],
)
def test_a_block_without_a_language_holds_commands_if_a_line_is_one(block: str, expected: list[str]) -> None:
    file = read("a.md", f"```\n{block}\n```\n")
    assert [one.removeprefix("A=1 ") for one in commands(file)] == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("$ torchrun a.py\noutput torchrun b.py", ["torchrun a.py"]),
        ("$ torchrun a.py\n\n$ torchrun b.py", ["torchrun a.py", "torchrun b.py"]),
        ("torchrun a.py", ["torchrun a.py"]),
        ("torchrun <script> a.py", ["torchrun ${_____} a.py"]),
        ("torchrun <N> a.py", ["torchrun $__ a.py"]),
        ("torchrun a.py < input.txt > out.txt", ["torchrun a.py"]),
        ("torchrun a.py \\", ["torchrun a.py"]),
        ("if this is no shell (", []),
        ("echo", []),
    ],
)
def test_what_is_found_in_a_block(block: str, expected: list[str]) -> None:
    text = f"```bash\n{block}\n```\n"
    file = read("a.md", text)
    assert commands(file) == expected
    assert file.problems == ()
    check_places(text, file)


def test_a_block_that_is_never_closed_goes_to_the_end() -> None:
    assert commands(read("a.md", "```bash\ntorchrun a.py")) == ["torchrun a.py"]


def test_a_console_needs_prompts() -> None:
    assert commands(read("a.md", "```console\ntorchrun a.py\n% torchrun b.py\n```\n")) == ["torchrun b.py"]


def test_lines_that_end_in_cr_and_lf() -> None:
    assert commands(read("README.md", DOCUMENT.replace("\n", "\r\n"))) == commands(read("README.md", DOCUMENT))


@given(st.text(st.sampled_from(list("`~>- $#\\\n \tabsh{}1.<>")), max_size=80))
def test_nothing_makes_it_raise(text: str) -> None:
    read("a.md", f"{text}\n```bash\ntorchrun a.py\n{text}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Run:\n\n    torchrun --nproc_per_node 8 \\\n        train.py\n", ["torchrun --nproc_per_node 8 train.py"]),
        ("\ttorchrun --nproc_per_node 8 train.py\n", ["torchrun --nproc_per_node 8 train.py"]),
        ("Run:\n\n    $ export A=1\n    $ torchrun train.py --a\n\nThen\n", ["torchrun train.py --a"]),
        ("1. Run:\n\n        torchrun train.py --a\n\n2. End\n", ["torchrun train.py --a"]),
        ("    torchrun train.py --a\n```sh\ntorchrun b.py\n```\n", ["torchrun train.py --a", "torchrun b.py"]),
        ("    torchrun a.py --a\n\n    torchrun b.py --b\n\nEnd\n", ["torchrun a.py --a", "torchrun b.py --b"]),
        # text, and what is no shell
        ("It starts with\n    torchrun train.py --a\n", []),
        ("Run\n   torchrun train.py --a\n", []),
        ("Code:\n\n    import torchrun\n    x = 1\n", []),
        ("Words:\n\n    torchrun is a launcher\n", []),
        ("```text\n\n    torchrun train.py --a\n```\n", []),
    ],
)
def test_indented_blocks_hold_commands(text: str, expected: list[str]) -> None:
    file = read("README.md", text)
    assert commands(file) == expected
    check_places(text, file)


def test_an_empty_line_does_not_end_an_indented_block() -> None:
    file = read("README.md", "Run:\n\n    GPUS=4\n\n    torchrun --nproc_per_node $GPUS train.py\n")
    assert file.sites[0].command.nproc == "4"
