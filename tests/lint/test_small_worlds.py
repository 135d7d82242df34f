"""Ranks that are followed through a script: what is reported, what is not decided, and that hostile code is bounded."""

from __future__ import annotations

import re
import time

import pytest

from distcheck.core.model import Finding

from .test_properties import look

_HEAD = """
import os
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
"""
_TAIL = """
if __name__ == "__main__":
    main()
"""
CODES = ("DC519", "DC701", "DC703", "DC706", "DC709", "DC715", "DC716", "DC717")


def found(body: str, head: str = "") -> list[Finding]:
    """Return the findings of the rules about small worlds in a script with this body of ``main``."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    _, report = look({"train.py": head + _HEAD + lines + _TAIL})
    return [one for one in report.findings if one.code in CODES and re.match(r"with \d ranks, ", one.message)]


def messages(body: str, head: str = "") -> list[str]:
    return [finding.message for finding in found(body, head)]


def test_a_message_names_both_sides() -> None:
    (finding,) = found("if rank == 0:\n    dist.send(torch.ones(3), 1)\nelse:\n    dist.recv(torch.ones(2), 0)")
    assert finding.message == (
        "with 2 ranks, rank 1 has room for 2 elements in `dist.recv(torch.ones(2), 0)`, and rank 0 gives 3 in line 10"
    )
    assert finding.where.line == 12
    assert finding.evidence["flow"] == [
        "train.py:12: dist.recv(torch.ones(2), 0)",
        "train.py:10: dist.send(torch.ones(3), 1)",
    ]


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("parts = [torch.ones(2) for _ in range(size + 1)]\ndist.all_gather(parts, torch.ones(2))", "has 3 elements"),
        ("dist.all_reduce(torch.zeros(5)[rank::2])", "has room for 2 elements"),
        ("kinds = [torch.long, torch.int]\ndist.broadcast(torch.zeros(2, dtype=kinds[rank]), 0)", "receives int32"),
        ("if rank == 0:\n    dist.send_object_list([1], 1)\nelse:\n    dist.recv(torch.ones(1), 0)", "sends objects"),
        ("for step in range(2):\n    dist.send(torch.ones(1), 1, tag=step) if rank == 0 else "
         "dist.recv(torch.ones(1), 0, tag=1)", "waits here for a message of rank 0 with tag 1"),
        ("dist.send(torch.ones(1), rank)", "sends to itself"),
        ("names = [None] * (2 + rank)\ndist.broadcast_object_list(names, 0)", "the length of the list 3"),
        ("a, b = dist.new_group([0, 1]), dist.new_group([0, 1])\nfirst, second = (a, b) if rank else (b, a)\n"
         "dist.barrier(first)\ndist.barrier(second)", "waits in another group"),
    ],
)  # fmt: skip
def test_two_ranks_that_differ_are_told_apart(body: str, part: str) -> None:
    (message,) = messages(body)
    assert message.startswith("with 2 ranks, ") and part in message


@pytest.mark.parametrize(
    "body",
    [
        # a value that is not known decides
        "if torch.rand(1).item() > 0.5 * rank:\n    dist.barrier()",
        "while os.path.exists(f'{rank}.lock'):\n    dist.all_reduce(torch.ones(2 + rank))\n    break",
        # the other side may be in a function that is not seen
        "import elsewhere\nif rank == 0:\n    elsewhere.publish()\nelse:\n    dist.recv(torch.ones(1), 0)",
        # two ranks agree, and the script counts on two
        "dist.send(torch.ones(1), 1 - rank) if rank == 0 else dist.recv(torch.ones(1), 1 - rank)",
        # what is received decides
        "flag = torch.tensor([rank])\ndist.broadcast(flag, 1)\nif flag.item() == 1:\n    dist.barrier()",
        "seen = [None] * size\ndist.all_gather_object(seen, rank * 2)\nfor _ in range(max(seen)):\n    dist.barrier()",
        "total = torch.tensor([rank])\ndist.all_reduce(total)\nfor _ in range(int(total)):\n    dist.barrier()",
        # ranks that are no members do nothing
        "group = dist.new_group([0])\ndist.barrier(group)\ndist.all_reduce(torch.ones(1), group=group)",
        # handles that are waited for elsewhere
        "box = torch.zeros(1)\nwork = dist.all_reduce(box, async_op=True)\n[one.wait() for one in [work]]\nprint(box.item())",
        # a script for a certain number of ranks
        "assert size == 2\nparts = [torch.ones(2), torch.ones(2)]\ndist.all_gather(parts, torch.ones(2))",
    ],
)
def test_what_is_not_certain_is_not_reported(body: str) -> None:
    assert messages(body) == []


def test_a_generator_is_followed_as_far_as_its_loop_goes() -> None:
    head = "import torch\nimport torch.distributed as dist\n\ndef batches():\n    for _ in range(9):\n" \
        "        dist.broadcast(torch.zeros(1), 0)\n        yield 1\n"  # fmt: skip
    body = "for number, _ in enumerate([1]):\n    pass\nfor one in batches():\n    number += one\n    if number > {}:\n        break"
    assert messages(body.format(3), head) == []
    (message,) = messages(body.format("3 + rank"), head)
    assert "5 times and rank 0 only 4 times" in message


@pytest.mark.filterwarnings("error")
def test_what_python_warns_of_in_a_script_is_not_printed() -> None:
    assert messages("text = '\\d'\ndist.barrier()") == []


def test_a_message_to_another_rank_is_shown() -> None:
    body = "if rank == 0:\n    for _ in range(1, size):\n        dist.send(torch.ones(1), 1)\nelse:\n    dist.recv(torch.ones(1), 0)"
    (message,) = messages(body)
    assert message == (
        "with 3 ranks, rank 2 waits here for a message of rank 0, which sends to rank 1 only, in line 11 "
        "(`dist.send(torch.ones(1), 1)`)"
    )


def test_spawned_ranks_are_followed() -> None:
    script = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def worker(rank, size):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29501", rank=rank, world_size=size)
    parts = [torch.ones(1) for _ in range(size - 1)]
    dist.all_gather(parts, torch.ones(1))
    print(parts)

if __name__ == "__main__":
    mp.spawn(worker, args=(3,), nprocs=3)
"""
    _, report = look({"train.py": script})
    (message,) = [finding.message for finding in report.findings if finding.code == "DC709"]
    assert message.startswith("with 3 ranks, the list of") and "has 2 elements" in message


def test_a_helper_in_another_file_is_followed() -> None:
    helper = "import torch.distributed as dist\n\ndef peer():\n    return dist.get_rank() + 1\n"
    script = "from ranks import peer\n" + _HEAD + "    dist.send(torch.ones(1), peer())\n" + _TAIL
    _, report = look({"train.py": script, "ranks.py": helper})
    (message,) = [finding.message for finding in report.findings if finding.code == "DC709"]
    assert "with dst=2, and there is no such rank" in message


_DEEP = "x = " + "[" * 60 + "1" + "]" * 60
_HOSTILE = [
    "x = [0] * 10 ** 12",
    "x = 'a' * 10 ** 12\nx = x.zfill(10 ** 12)",
    "x = 10 ** 10 ** 10",
    "x = [1]\nwhile True:\n    x = x + x",
    "x = 'ab'\nfor _ in range(10 ** 9):\n    x += x",
    "x = 1\nfor a in range(1000):\n    for b in range(1000):\n        x = x * 3 + 1",
    "x = [1] * 2000\nfor _ in range(20):\n    x = [x] * 2000\ntorch.tensor(x)\nprint(x == x, x in x)",
    "x = (1,) * 2000\nfor _ in range(20):\n    x = (x,) * 2000\nd = {x: 1}",
    "x = 10 ** 15 in range(10 ** 18)\nlen(range(-10 ** 25, 10 ** 25))",
    "f = lambda n: f(n + 1)\nf(0)",
    "torch.zeros(10 ** 9, 10 ** 9).split(1)\ntorch.arange(10 ** 15)",
    "x = []\nx.append(x)\nprint(x, x == x, sorted(x))",
    "x = f\"{'a':>1000000000}\"\ny = '%1000000000d' % 1",
    _DEEP,
]


@pytest.mark.parametrize("body", _HOSTILE)
def test_hostile_code_is_given_up(body: str) -> None:
    started = time.process_time()
    found(body + "\ndist.barrier()")
    # with all other rules; a loop that is not bounded takes minutes
    assert time.process_time() - started < 60


#: One rank shows its model, so that it is not known there how often the constructor's loop turns.
_SHOWN = """
from torch.nn.parallel import DistributedDataParallel as Wrapped

class Net(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

class Job:
    def __init__(self, net, rank):
        self.net = net
        self.rank = rank
        for number in range(net.size):
            self.sizes.append(number)

    def train(self):
        if self.rank {test}:
            self.net = Wrapped(self.net)
        dist.barrier()
"""
_SHOW = "net = Net(5)\nif rank == 0:\n    for name, part in net.named_modules():\n        print(name)\nJob(net, rank).train()"


def test_a_wrapper_under_a_test_that_one_rank_can_not_decide() -> None:
    assert messages(_SHOW, _SHOWN.format(test="!= -1")) == []


def test_a_wrapper_under_a_test_that_ranks_answer_differently() -> None:
    body = "answers = [False] + [True] * 7\nif answers[rank]:\n    net = Wrapped(torch.nn.Linear(5, 5))\ndist.barrier()"
    (message,) = messages(body, "from torch.nn.parallel import DistributedDataParallel as Wrapped\n")
    assert "rank 1 is in `Wrapped(torch.nn.Linear(5, 5))` while rank 0 is in `dist.barrier()`" in message


_END = """\
answers = [False] + [True] * 7
part = dist.new_group([0, 1])
dist.destroy_process_group({which})
if answers[rank] and dist.{test}:
    dist.barrier()"""


@pytest.mark.parametrize(
    ("which", "test", "count"),
    [
        # the call is an error, or is not made
        ("", "is_available()", 0),
        ("", "is_initialized()", 0),
        ("part", "is_initialized()", 1),
    ],
)
def test_calls_after_the_group_was_destroyed(which: str, test: str, count: int) -> None:
    assert len(messages(_END.format(which=which, test=test))) == count
