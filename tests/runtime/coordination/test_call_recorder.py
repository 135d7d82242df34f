"""Notes of calls, on torch's own functions in a process of their own: what is wrapped stays wrapped."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.call_signatures import KINDS, agreed
from distcheck.runtime.coordination.model import SETUP, CollectiveCall

START = """
import inspect, warnings, torch, torch.distributed as dist
import torch.distributed.distributed_c10d as module
warnings.simplefilter("ignore")
before = {name: getattr(dist, name) for name in dir(dist)}
signatures = {name: inspect.signature(value) for name, value in before.items() if inspect.isfunction(value)}
from distcheck.runtime.coordination.call_recorder import CallRecorder, rows
from distcheck.runtime.coordination.call_signatures import KINDS
posts = CallRecorder()
missed = posts.attach(module)
def start():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
def calls():
    return [note.call for note in rows(posts)][::-1]
"""


def run(script: str) -> str:
    code = START + textwrap.dedent(script)
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.torch
def test_functions_stay_the_same_objects_with_the_same_signatures() -> None:
    run("""
        assert missed == (), missed
        assert all(getattr(dist, name) is value for name, value in before.items())
        for name in KINDS:
            if name in signatures:
                assert inspect.signature(getattr(dist, name)) == signatures[name], name
        assert dist.isend.__name__ == "isend" and dist.all_reduce.__name__ == "all_reduce"
        # compares functions by identity
        start()
        module._check_op(dist.isend)
    """)


@pytest.mark.torch
def test_each_call_is_noted_once_with_what_ranks_must_agree_on() -> None:
    run("""
        start()
        x = torch.ones(2, 3)
        dist.all_reduce(x)
        dist.all_reduce(tensor=x.double(), op=dist.ReduceOp.MAX, group=dist.group.WORLD)
        dist.broadcast(x, 0)
        dist.broadcast(x, group_src=0)
        dist.all_gather([torch.ones(4)], torch.ones(4))
        found = [None]
        dist.all_gather_object(found, "value")
        dist.barrier()
        handle = dist.all_reduce(x, async_op=True)
        handle.wait()
        seen = calls()
        assert [call.operation for call in seen] == [
            "init_process_group", "all_reduce", "all_reduce", "broadcast", "broadcast", "all_gather",
            "all_gather_object", "barrier", "all_reduce"], seen
        assert seen[1].sizes == ((2, 3),) and seen[1].dtypes == ("float32",) and seen[1].reduce == "sum"
        assert seen[2].dtypes == ("float64",) and seen[2].reduce == "max"
        assert seen[3].peer == 0 == seen[4].peer
        assert seen[5].sizes == ((4,),)
        assert [call.number for call in seen[1:7]] == [1, 2, 3, 4, 5, 6]
        # two collectives of its own, which are no calls of the user's
        assert seen[7].number == 8
        assert posts.inside == {} and posts.done == 9 and posts.error == ""
        assert posts.joined and posts.groups == {"0": (0,)}
        dist.destroy_process_group()
        assert not posts.joined and "0" not in posts.entered
    """)


@pytest.mark.torch
def test_a_call_that_fails_fails_as_before_and_leaves_nothing_behind() -> None:
    run("""
        start()
        for call in (lambda: dist.all_reduce("no tensor"), lambda: dist.all_reduce(), lambda: dist.broadcast(torch.ones(1), 5)):
            try:
                call()
            except Exception as error:
                assert type(error).__module__ in ("builtins", "torch.distributed"), error
            else:
                raise AssertionError("it did not raise")
        assert posts.inside == {}
        # the note could not be taken, and that is known
        assert posts.error.startswith("all_reduce")
        dist.all_reduce(torch.ones(1))
        assert calls()[-1].operation == "all_reduce"
    """)


@pytest.mark.torch
def test_place_is_the_line_of_the_user_and_digests_follow_the_calls() -> None:
    out = run("""
        start()
        source = "def step(x):\\n    dist.all_reduce(x)\\nstep(x)\\n"
        x = torch.ones(1)
        exec(compile(source, "/somewhere/train.py", "exec"), {"dist": dist, "x": x})
        first = list(posts.ring)[-1]
        print(first.call.place, first.call.function)
        other = CallRecorder()
        other._module = module
        other.groups["0"] = (0,)
        # equal calls give equal digests, whoever made them from wherever
        def noted(size):
            return (lambda: other._note("all_reduce", KINDS["all_reduce"], {"tensor": torch.ones(size)}))()
        a = noted(1)
        assert a.digest == first.digest, (a, first)
        b, c = noted(2), noted(2)
        assert len({a.digest, b.digest, c.digest}) == 3
    """)
    assert out.split() == ["/somewhere/train.py:2", "step"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CollectiveCall(1, "all_reduce", sizes=((20,),), dtypes=("float32",)), CollectiveCall(1, "all_reduce", sizes=((4, 5),), dtypes=("float32",))),
        (CollectiveCall(1, "barrier", place="a.py:1"), CollectiveCall(7, "barrier", place="b.py:9")),
        (CollectiveCall(1, "gather", sizes=((20,),), peer=0), CollectiveCall(1, "gather", sizes=((7,),), peer=0)),
    ],
)  # fmt: skip
def test_what_need_not_agree(one: CollectiveCall, other: CollectiveCall) -> None:
    assert agreed(one) == agreed(other)


@pytest.mark.parametrize(
    "other",
    [
        CollectiveCall(1, "broadcast", sizes=((20,),), dtypes=("float32",), reduce="sum"),
        CollectiveCall(1, "all_reduce", sizes=((21,),), dtypes=("float32",), reduce="sum"),
        CollectiveCall(1, "all_reduce", sizes=((20,),), dtypes=("float16",), reduce="sum"),
        CollectiveCall(1, "all_reduce", sizes=((20,),), dtypes=("float32",), reduce="max"),
        CollectiveCall(1, "all_reduce", sizes=((20,),), dtypes=("float32",), reduce="sum", peer=1),
    ],
)
def test_what_must_agree(other: CollectiveCall) -> None:
    assert agreed(CollectiveCall(1, "all_reduce", sizes=((20,),), dtypes=("float32",), reduce="sum")) != agreed(other)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [((0,), (1,), True), ((0, 1), (0, 1), True), ((0, 1), (2, 3), False), ((0,), (0, 1), False)],
)
def test_ranks_must_agree_on_a_new_group_unless_each_makes_one_of_its_own(
    one: tuple[int, ...], other: tuple[int, ...], same: bool
) -> None:
    made = [agreed(CollectiveCall(1, "new_group", SETUP, (ranks,))) for ranks in (one, other)]
    assert (made[0] == made[1]) is same


def test_a_module_without_these_functions_is_left_alone() -> None:
    class Empty:
        pass

    assert CallRecorder().attach(Empty()) == ()
    assert "all_reduce" in KINDS


@pytest.mark.torch
def test_collectives_of_cpp_count_after_their_group_is_destroyed() -> None:
    run("""
        start()
        dist.barrier()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        model(torch.ones(1, 2)).sum().backward()
        number = dist.group.WORLD._get_sequence_number_for_group()
        assert posts.unseen_before == 0 < posts.made_by_cpp(number) < number
        before = posts.made_by_cpp(number)
        dist.new_group()
        dist.destroy_process_group()
        assert posts.unseen_before == before
        start()
        dist.barrier()
        dist.destroy_process_group()
        assert posts.unseen_before == before
    """)


@pytest.mark.torch
def test_sends_receives_and_waits_are_noted(tmp_path: Path) -> None:
    script = """
        import os, signal, threading, time
        from datetime import timedelta
        signal.alarm(60)
        rank = int(os.fork() == 0)
        dist.init_process_group("gloo", store=dist.FileStore("PATH", 2), rank=rank, world_size=2)
        x, y = torch.ones(4), torch.ones(4)
        seen = []
        # one that C++ makes comes first
        posts.made_by_torch("all_reduce", dist.group.WORLD, x)
        def look(set_key=None):
            while not posts.inside:
                time.sleep(0.01)
            seen.append(next(iter(posts.inside.values())).call)
        if rank == 1:
            time.sleep(0.5)
            for tag in (0, 7, 0, 3):
                dist.recv(y, tag=tag)
            dist.send(y, 0)
            dist.recv(y, 0)
            os._exit(0)
        thread = threading.Thread(target=look)
        handles = [dist.isend(x, 1), dist.isend(x, dst=1, tag=7)]
        handles += dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.isend, x, 1, tag=3)])
        thread.start()
        for handle in reversed(handles):
            handle.wait()
        thread.join()
        dist.recv(y)
        (waited,) = seen
        assert (waited.operation, waited.peer, waited.tag, waited.nth) == ("isend", 1, 3, 1), waited
        assert posts.error == "" and posts.inside == {}, posts.error
        assert posts.pairs.posted == {"0 send 1 0": 2, "0 send 1 7": 1, "0 send 1 3": 1, "0 recv * 0": 1}
        # methods of a group are not counted, so that the counts say nothing from then on
        assert not posts.pairs.incomplete
        dist.group.WORLD.send([x], 1, 0).wait()
        assert posts.pairs.incomplete and posts.pairs.posted["0 send 1 0"] == 2
        # a key; a short limit of its own may be meant to end the wait
        store = dist.HashStore()
        def set_later():
            look()
            store.set("ready", "1")
        threading.Thread(target=set_later).start()
        assert store.get("ready") == b"1"
        assert (seen[-1].operation, seen[-1].key, seen[-1].group) == ("store.get", "ready", "store"), seen[-1]
        for keys, known in ((["never"], None), (["never", "ready"], "never, ready")):
            store.set_timeout(timedelta(milliseconds=20))
            try:
                store.wait(keys, timedelta(milliseconds=20)) if known is None else store.wait(keys)
            except dist.DistStoreError:
                assert known == (posts.raised and posts.raised.key)
    """
    run(script.replace("PATH", str(tmp_path / "store")))


@pytest.mark.torch
def test_sends_and_receives_take_no_number() -> None:
    """Gloo counts them, and ranks make different numbers of them."""
    run("""
        import tempfile, os
        def main(rank, folder):
            dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
            x = torch.ones(2)
            dist.all_reduce(x)
            # the first one lasts
            work = dist.isend(x, 1 - rank)
            dist.recv(torch.ones(2), 1 - rank)
            work.wait()
            if rank == 0:
                dist.send(x, 1), dist.send_object_list([1], 1)
            else:
                dist.recv(x, 0), dist.recv_object_list([None], 0)
            dist.all_reduce(x)
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, x, 1 - rank)])
            [work.wait() for work in works]
            dist.barrier()
            numbers = [call.number for call in calls() if call.operation in ("all_reduce", "barrier")]
            assert numbers == [1, 2, 3], numbers
            assert posts.error == "", posts.error
        folder = tempfile.mkdtemp()
        child = os.fork()
        main(int(child == 0), folder)
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """)
