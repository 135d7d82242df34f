"""Scripts that are made to need much time or memory while their ranks are followed, and calls that no function takes."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest

from distcheck.checks.source.engine import SourceFile, analyse
from distcheck.checks.source.simulated_ranks import ranks_meet_in_small_worlds
from distcheck.core.model import Finding

HEAD = """import argparse, functools, itertools, math, os, torch
import torch.distributed as dist
dist.init_process_group("gloo")
r = dist.get_rank()
"""
#: A message that no rank sends: it is found if the rank was followed to there.
TAIL = """
if __name__ == "__main__":
    if r == 0:
        dist.recv(torch.zeros(2), 1)
"""


def followed(code: str) -> list[Finding]:
    data = (HEAD + code + TAIL).encode()
    return list(ranks_meet_in_small_worlds(analyse([SourceFile("a.py", lambda: data)])))


@pytest.fixture
def bounded() -> Iterator[None]:
    """The test may take 5 s of CPU and 64 MiB."""
    tracemalloc.start()
    began = time.process_time()
    yield
    seconds, (_, most) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 5
    assert most < 64 << 20


def loop(code: str, times: int = 60) -> str:
    return f"for i in range({times}):\n    {code}\n"


LARGE = {
    "list += itself": "a = [0]\n" + loop("a += a"),
    "stars in a list": "a = [0]\n" + loop("a = [*a, *a]"),
    "stars in a tuple": "a = (0,)\n" + loop("a = (*a, *a)"),
    "stars in a call": "def f(*x): return x\na = (0,)\n" + loop("a = f(*a, *a)"),
    "chain of itself": "a = [0]\n" + loop("a = list(itertools.chain(a, a))"),
    "join of long texts": "a = ['x' * 2000] * 2000\n" + loop("b = ''.join(a)", 2000),
    "digits": f"x = 0x{'f' * 100_000}\n" + loop("y = x * x\n    z = x % 7\n    w = f'{x}'", 2000),
    "a text of many values": f"s = 'a' * 2000\nx = f'{'{s}' * 20_000}'\n",
    "a long text": f"x = '{'a ' * 50_000}'\n" + loop("y = x.split()", 2000),
    "dimensions": "t = torch.zeros([1 << 39] * 2000)\n" + loop("n = t.numel()", 2000),
    "nested lists": "a = [[[0] * 60] * 60] * 60\n" + loop("t = torch.tensor(a)", 2000),
    "search in a list": "a = list(range(2000))\n" + loop("b = -1 in a\n    c = a.index(1999)\n    d = a == a", 2000),
    "diamonds": "class A0: pass\n"
    + "".join(f"class X{i}(A{i}): pass\nclass Y{i}(A{i}): pass\nclass A{i + 1}(X{i}, Y{i}): pass\n" for i in range(15))
    + "a = A15()\na.x\nf(a)\nisinstance(a, X0)\nlen(a)\na(1)\n",
    "bases": "class A0: pass\n" + "".join(f"class A{i + 1}(A{i}, A{i}): pass\n" for i in range(60)) + "A60().x()\n",
    "a class that holds itself": "class A: pass\nA.a = A\nf(A)\n",
    "a list that holds itself": "a = []\na.append(a)\nb = a == a\nc = a in a\ntorch.tensor(a)\nprint(a)\n",
}


@pytest.mark.parametrize("name", LARGE)
def test_bad_no_script_takes_much_time_or_memory(name: str, bounded: None) -> None:
    followed(LARGE[name])


#: Wrong calls, and values of other types: they ended the probe with an exception.
WRONG = {
    "arguments of a method of a group": "g = dist.new_group([0, 1])\ng.size(1)\ng.rank(a=1)",
    "keywords of parse_args": "argparse.ArgumentParser().parse_args(args=[])",
    "arguments of set_defaults": "argparse.ArgumentParser().set_defaults({})",
    "our own names as keywords": "p = argparse.ArgumentParser()\np.add_argument(follows=1)\ntorch.zeros(1).f(tensor=1)\n"
    "{}.get(follows=1)\n''.join(owner=1)\n[].sort(follows=1)",
    "join of several": "''.join(1, 2)\n''.join()\n[3].sort(1)",
    "a list in a key": "d = {(1, []): 2}\nd[1, []] = 1\ns = {(1, [])}\nx = (1, []) in d\ny = [] in os.environ",
    "digits in a text": f"x = 0x{'f' * 10_000}\ny = f'{{x}}'\nz = str(x)\nw = ''.split(None, x)",
    "an operation without a peer": "dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.zeros(1))])",
    "a step of 0": "torch.zeros(3)[::0]\n[1, 2][::0]",
    "a process": "import torch.multiprocessing as mp\nmp.Process(target=print).start(1)",
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_no_wrong_call_ends_the_probe(name: str) -> None:
    followed(WRONG[name])


@pytest.mark.parametrize(
    "code",
    [
        "a = [1]\na += a\nif len(a) != 2: dist.barrier()",
        "a = [1, 2]\nb = [*a, *a]\nif len(b) != 4: dist.barrier()",
        "class A:\n    def f(self): return 1\nclass B(A): pass\nclass C(A): pass\nclass D(B, C): pass\n"
        "if D().f() != 1: dist.barrier()",
        "o = argparse.ArgumentParser().parse_args(args=[])",
        "d = {(1, 2): 3}\nif d[1, 2] != 3: dist.barrier()",
        "g = dist.new_group([0, 1])\nif g.size() != 2: dist.barrier()",
    ],
)
def test_good_small_values_are_followed_as_before(code: str) -> None:
    (found,) = followed(code)
    assert found.code == "DC709"
