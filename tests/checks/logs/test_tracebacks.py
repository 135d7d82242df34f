"""Tracebacks of several processes, told apart: by prefixes, by continuity, chained, cut off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.logs.model import LineAuthor, Traceback, TracebackFrame
from distcheck.checks.logs.prefixes import LineHead, Prefixes
from distcheck.checks.logs.tracebacks import MESSAGE_LINES, PATIENCE, Finished, Tracebacks


def read(lines: Sequence[str]) -> list[Finished]:
    """All tracebacks of a file, as a reader gets them."""
    prefixes, tracebacks = Prefixes(lines), Tracebacks()
    done = list(
        chain.from_iterable(tracebacks.feed(number, prefixes.parse(line)) for number, line in enumerate(lines, 1))
    )
    done += tracebacks.finish()
    assert not tracebacks.open
    return done


def of(text: str) -> list[Finished]:
    return read(text.strip("\n").splitlines())


def content(one: Finished) -> Traceback:
    """What a traceback says, wherever in the file it stands."""
    return one.traceback._replace(first_line=0)


PLAIN = """
Traceback (most recent call last):
  File "/workspace/train.py", line 41, in <module>
    main()
  File "/workspace/train.py", line 33, in main
    dist.all_reduce(tensor)
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83, in wrapper
    return func(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^
RuntimeError: Connection closed by peer
"""


def test_one_traceback_with_its_frames() -> None:
    (one,) = of(PLAIN)
    assert (one.first_line, one.line) == (1, 9)
    assert one.traceback.exception == "RuntimeError"
    assert one.traceback.message == "Connection closed by peer"
    assert one.traceback.frames[1] == TracebackFrame("/workspace/train.py", 33, "main", "dist.all_reduce(tensor)")
    assert one.traceback.frames[2].code == "return func(*args, **kwargs)"
    assert one.traceback.users == one.traceback.frames[1]


@pytest.mark.parametrize(
    "text", ["[rank3]: {}", "[default3]:{}", "3: {}", "node01: {}", "(Trainer pid=7, ip=10.0.0.2) {}"]
)
def test_prefixes_don_t_change_it(text: str) -> None:
    (one,) = of("\n".join(text.format(line) for line in PLAIN.strip().splitlines()))
    assert content(one) == content(of(PLAIN)[0])
    assert one.head.who != LineAuthor()


@pytest.mark.parametrize("ranks", [2, 8])
def test_identical_ones_line_by_line_without_prefixes(ranks: int) -> None:
    done = read([line for line in PLAIN.strip().splitlines() for _ in range(ranks)])
    assert [content(item) for item in done] == [content(of(PLAIN)[0])] * ranks


OTHER = """
Traceback (most recent call last):
  File "/workspace/train.py", line 41, in <module>
    main()
  File "/workspace/train.py", line 20, in main
    data = load(path)
  File "/workspace/data.py", line 7, in load
    raise FileNotFoundError(path)
FileNotFoundError: /data/train.bin
"""


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_interleaving_of_prefixed_lines_gives_the_same(data: st.DataObject) -> None:
    style = data.draw(st.sampled_from(["[rank{}]: ", "[default{}]:", "[{}]<stderr>:", "(W pid={}) "]))
    parts = [
        [style.format(rank) + line for line in text.strip().splitlines()]
        for rank, text in enumerate([PLAIN, OTHER, PLAIN])
    ]
    order = data.draw(st.permutations([rank for rank, part in enumerate(parts) for _ in part]))
    queues = [list(part) for part in parts]
    done = read([queues[rank].pop(0) for rank in order])
    expected = [read(part)[0] for part in parts]
    assert sorted((item.head.who, content(item)) for item in done) == sorted(
        (item.head.who, content(item)) for item in expected
    )


def test_different_ones_without_prefixes_by_continuity() -> None:
    first, second = PLAIN.strip().splitlines(), OTHER.strip().splitlines()
    lines = [line for pair in zip(first, second, strict=False) for line in pair] + first[len(second) :]
    assert sorted(item.traceback.exception for item in read(lines)) == ["FileNotFoundError", "RuntimeError"]
    (missing,) = (item for item in read(lines) if item.traceback.exception == "FileNotFoundError")
    assert missing.traceback.message == "/data/train.bin"


def long_one(name: str, depth: int) -> list[list[str]]:
    """A traceback in the pieces that Python writes at once: a frame with its code."""
    frames = [
        [f'  File "/workspace/{name}.py", line {number + 10}, in {name}{number}', f"    return {name}{number + 1}(x)"]
        for number in range(depth)
    ]
    return [["Traceback (most recent call last):"], *frames, [f"{name.title()}Error: boom"]]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.sampled_from([("load", 3), ("step", 5), ("step", 5)]), min_size=2, max_size=8))
def test_any_interleaving_of_frames_without_prefixes_gives_the_same(
    data: st.DataObject, kinds: list[tuple[str, int]]
) -> None:
    queues = [long_one(*kind) for kind in kinds]
    expected = [content(read(list(chain.from_iterable(queue)))[0]) for queue in queues]
    order = data.draw(st.permutations([number for number, queue in enumerate(queues) for _ in queue]))
    # one of each that stands alone: then it is known which functions go on to others
    alone = [line for kind in sorted(set(kinds)) for piece in long_one(*kind) for line in piece]
    done = read([*alone, *(line for number in order for line in queues[number].pop(0))])
    assert sorted(content(item) for item in done[len(set(kinds)) :]) == sorted(expected)


def test_a_chain_gives_the_first_exception_first() -> None:
    done = of("""
Traceback (most recent call last):
  File "train.py", line 3, in load
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: '/data/x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
RuntimeError: cannot load
""")
    assert [item.traceback.exception for item in done] == ["FileNotFoundError", "RuntimeError"]
    assert done[1].after == done[0].line == 4


def test_messages_of_several_lines() -> None:
    (one,) = of("""
[rank1]: Traceback (most recent call last):
[rank1]:   File "/workspace/train.py", line 9, in <module>
[rank1]:     dist.barrier()
[rank1]: torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.hpp:317, unhandled system error
[rank1]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
[rank1]: Last error:
[rank1]: socketStartConnect: Connect to 10.0.0.5<43210> failed : Connection refused
[rank1]:[W1122 07:43:25.123456789 TCPStore.cpp:106] [c10d] sendBytes failed
""")
    assert one.line == 4
    assert one.traceback.message.splitlines()[1:] == [
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "Last error:",
        "socketStartConnect: Connect to 10.0.0.5<43210> failed : Connection refused",
    ]


def test_long_messages_are_cut() -> None:
    (one,) = of(PLAIN + "\n".join(f"more {number}" for number in range(50)))
    assert len(one.traceback.message.splitlines()) == MESSAGE_LINES


def test_a_spawned_process_is_named() -> None:
    parent, child = of("""
Traceback (most recent call last):
  File "/workspace/train.py", line 44, in <module>
    mp.spawn(worker, nprocs=2)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "/workspace/train.py", line 12, in worker
    raise ValueError("boom")
ValueError: boom
""")
    assert parent.traceback.exception == "torch.multiprocessing.spawn.ProcessRaisedException"
    assert (child.head.who.local_rank, child.traceback.message) == (1, "boom")


def test_a_chain_in_a_spawned_process_is_all_its() -> None:
    done = of("""
-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/workspace/train.py", line 12, in worker
    raise KeyError("a")
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/workspace/train.py", line 14, in worker
    raise ValueError("boom")
ValueError: boom

Traceback (most recent call last):
  File "/workspace/other.py", line 1, in <module>
    main()
ValueError: another
""")
    assert [item.head.who.local_rank for item in done] == [1, 1, None]


def test_what_rich_draws() -> None:
    (one,) = of("""
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /workspace/train.py:41 in <module>                                           │
│                                                                              │
│   40 if __name__ == "__main__":                                              │
│ ❱ 41     main()                                                              │
│                                                                              │
│ /workspace/train.py:33 in main                                               │
╰──────────────────────────────────────────────────────────────────────────────╯
RuntimeError: boom
""")
    assert [(frame.line, frame.function) for frame in one.traceback.frames] == [(41, "<module>"), (33, "main")]
    assert (one.traceback.exception, one.traceback.message) == ("RuntimeError", "boom")


@pytest.mark.parametrize(
    "line",
    [
        "=" * 60,
        " 12%|#         | 12/100 [00:12<00:15,  3.6it/s]",
        "[2025-11-22 07:43:25,123] [INFO] x",
        "terminate called without an active exception",
        "Fatal Python error: Aborted",
    ],
)
def test_what_is_no_part_of_a_message(line: str) -> None:
    (one,) = of(PLAIN + line)
    assert one.traceback.message == "Connection closed by peer"


def test_the_message_of_a_rank_that_is_named_ends_where_its_name_does() -> None:
    named = "\n".join(f"[rank1]: {line}" for line in PLAIN.splitlines())
    (one,) = of(f"{named}\n[rank1]: after 3 s\nstep 3\n")
    assert one.traceback.message == "Connection closed by peer\nafter 3 s"


def test_a_worker_of_a_loader() -> None:
    done = of("""
Traceback (most recent call last):
  File "/workspace/train.py", line 44, in <module>
    for batch in loader:
OSError: Caught OSError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
    data = fetcher.fetch(index)
OSError: [Errno 28] No space left on device
""")
    assert [item.traceback.message for item in done] == [
        "Caught OSError in DataLoader worker process 0.",
        "[Errno 28] No space left on device",
    ]


def test_ray_writes_the_remote_side_below_its_message() -> None:
    driver, remote = of("""
Traceback (most recent call last):
  File "driver.py", line 5, in <module>
    ray.get(task.remote())
ray.exceptions.RayTaskError(ValueError): ray::Trainer.fit() (pid=4711, ip=10.0.0.2)
  File "/workspace/train.py", line 3, in fit
    raise ValueError("boom")
ValueError: boom
""")
    assert driver.traceback.exception == "ray.exceptions.RayTaskError(ValueError)"
    assert (remote.head.who.pid, remote.head.who.host, remote.traceback.message) == (4711, "10.0.0.2", "boom")


def test_groups_of_exceptions() -> None:
    done = of("""
  + Exception Group Traceback (most recent call last):
  |   File "train.py", line 9, in <module>
  |     main()
  | ExceptionGroup: several failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "train.py", line 3, in one
    |     raise ValueError("a")
    | ValueError: a
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "train.py", line 5, in two
    |     raise KeyError("b")
    | KeyError: 'b'
    +------------------------------------
""")
    assert [item.traceback.exception for item in done] == ["ExceptionGroup", "ValueError", "KeyError"]
    assert done[1].traceback.frames == (TracebackFrame("train.py", 3, "one", 'raise ValueError("a")'),)


def test_an_error_of_syntax() -> None:
    (one,) = of("""
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "<frozen runpy>", line 88, in _run_code
  File "/workspace/train.py", line 3
    foo(
       ^
SyntaxError: '(' was never closed
""")
    assert [frame.line for frame in one.traceback.frames] == [198, 88, 3]
    assert one.traceback.message == "'(' was never closed"


@pytest.mark.parametrize(
    "last",
    [
        "KeyboardInterrupt",
        "SystemExit: 3",
        "socket.timeout: timed out",
        "AssertionError",
        "queue.Empty",
        "Stopped: by hand",
    ],
)
def test_exceptions_of_all_names(last: str) -> None:
    (one,) = of(PLAIN.replace("RuntimeError: Connection closed by peer", last))
    assert one.traceback.exception == last.partition(":")[0]


def test_noise_between_the_lines() -> None:
    lines = [noisy for line in PLAIN.strip().splitlines() for noisy in (line, "Epoch 3: loss 0.31", "step: 12")]
    (one,) = (item for item in read(lines) if item.traceback.exception)
    assert one.traceback.frames == of(PLAIN)[0].traceback.frames
    assert one.traceback.exception == "RuntimeError"


def test_cut_off_ones_are_given_up_and_kept() -> None:
    half = PLAIN.strip().splitlines()[:5]
    (one,) = read(half)
    assert (one.line, one.traceback.exception, len(one.traceback.frames)) == (5, "", 2)
    tracebacks, prefixes = Tracebacks(), Prefixes()
    lines = [*half, *(f"Step {number} done" for number in range(PATIENCE + 20))]
    done = [item for number, line in enumerate(lines, 1) for item in tracebacks.feed(number, prefixes.parse(line))]
    assert len(done) == 1
    assert not tracebacks.open


@pytest.mark.slow
def test_many_that_never_end_stay_bounded() -> None:
    tracebacks, done = Tracebacks(), 0
    for number in range(60_000):
        who = LineAuthor(rank=number)
        done += len(tracebacks.feed(2 * number + 1, LineHead(who, None, "Traceback (most recent call last):")))
        done += len(tracebacks.feed(2 * number + 2, LineHead(who, None, '  File "x.py", line 3, in f')))
    assert done + len(tracebacks.finish()) == 60_000


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([*PLAIN.splitlines(), *OTHER.splitlines(), "  | x", "+-+---- 1 ----", "ValueError", ""]),
            st.text(max_size=60),
        ),
        max_size=60,
    )
)
def test_nothing_raises_and_each_header_ends_once(lines: list[str]) -> None:
    done = read([line.replace("\n", " ") for line in lines])
    headers = sum(line.count("Traceback (most recent call last)") for line in lines)
    assert len([item for item in done if item.traceback.frames or not item.traceback.exception]) <= headers
    assert all(item.first_line <= item.line for item in done)
