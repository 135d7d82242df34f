"""Who wrote a line and when, in every style, in every combination; what only looks like a label stays text."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.logs.clock import full
from distcheck.checks.logs.model import LineAuthor
from distcheck.checks.logs.prefixes import LineHead, Prefixes

TIME = full("2025-11-22", "07:43:25")
assert TIME is not None


def parse(line: str, *sample: str) -> LineHead:
    # the year of lines that name none
    return Prefixes(["[2025-11-22 07:00:00,000] torch.distributed.run: [WARNING] hello", *sample]).parse(line)


class Style(NamedTuple):
    """One layer: what it says, and where the text goes."""

    layer: str
    who: LineAuthor = LineAuthor()
    time: float | None = None
    stream: str = ""


STYLES = (
    Style("[rank3]: ", LineAuthor(rank=3)),
    Style("[rank3]:", LineAuthor(rank=3)),
    Style("[rank3] ", LineAuthor(rank=3)),
    Style("[rank: 3] ", LineAuthor(rank=3)),
    Style("[rank_3] ", LineAuthor(rank=3)),
    Style("[Rank-3]: ", LineAuthor(rank=3)),
    Style("[Rank: 3] ", LineAuthor(rank=3)),
    Style("[Rank 3/8] ", LineAuthor(rank=3)),
    Style("[rank 3 / 8]: ", LineAuthor(rank=3)),
    Style("[global_rank=3] ", LineAuthor(rank=3)),
    Style("[Global Rank 3] ", LineAuthor(rank=3)),
    Style("[local_rank=3] ", LineAuthor(local_rank=3)),
    Style("rank_3: ", LineAuthor(rank=3)),
    Style("Rank[3]: ", LineAuthor(rank=3)),
    Style("rank3 | ", LineAuthor(rank=3)),
    Style("[RANK 3] ", LineAuthor(rank=3)),
    Style("(rank 3) ", LineAuthor(rank=3)),
    Style("Rank 3: ", LineAuthor(rank=3)),
    Style("[default3]:", LineAuthor(local_rank=3)),
    Style("[trainer3]:", LineAuthor(local_rank=3)),
    Style("[default3]:[rank11]: ", LineAuthor(rank=11, local_rank=3)),
    Style("[rank3]:[E1122 07:43:25.250000000 ProcessGroupNCCL.cpp:616] ", LineAuthor(rank=3), TIME + 0.25),
    Style("[E1122 07:43:25.250 ProcessGroupNCCL.cpp:616] ", LineAuthor(), TIME + 0.25),
    Style("[E ProcessGroupNCCL.cpp:475] "),
    Style("[W socket.cpp:601] "),
    Style(
        "E1122 07:43:25.250000 4711 torch/distributed/elastic/multiprocessing/api.py:702] ",
        LineAuthor(pid=4711),
        TIME + 0.25,
    ),
    Style("E1122 07:43:25.250000 139823412345600 torch/distributed/run.py:702] ", LineAuthor(), TIME + 0.25),
    Style("I20251122 07:43:25.250000 4711 file.cc:22] ", LineAuthor(pid=4711), TIME + 0.25),
    Style("[2025-11-22 07:43:25,250] torch.distributed.run: [WARNING] ", LineAuthor(), TIME + 0.25),
    Style("[2025-11-22 07:43:25,250] [INFO] [engine.py:88:__init__] ", LineAuthor(), TIME + 0.25),
    Style("[2025-11-22 07:43:25,250][__main__][INFO] - ", LineAuthor(), TIME + 0.25),
    Style("2025-11-22 07:43:25,250 - trainer.loop - ERROR - ", LineAuthor(), TIME + 0.25),
    Style("2025-11-22 07:43:25.250 | ERROR    | __main__:main:12 - ", LineAuthor(), TIME + 0.25),
    Style("2025-11-22 07:43:25,250 ERROR worker.py:1234 -- ", LineAuthor(), TIME + 0.25),
    Style("2025-11-22 07:43:25,250 - rank 3 - ERROR - ", LineAuthor(rank=3), TIME + 0.25),
    Style("2025-11-22 07:43:25.250 | rank3 | ERROR | ", LineAuthor(rank=3), TIME + 0.25),
    Style("22-Nov-25 07:43:25 ", LineAuthor(), TIME),
    Style(
        "2025-11-22 07:43:25,250: rank3[4711][MainThread]: ERROR: composer.trainer: ",
        LineAuthor(rank=3, pid=4711),
        TIME + 0.25,
    ),
    Style("[2025-11-22 07:43:25 TP3] ", LineAuthor(rank=3), TIME),
    Style("[2025-11-22 07:43:25 DP1 TP3 EP3] ", LineAuthor(rank=3), TIME),
    # a rank of tensor parallelism among several stages is no rank of the job
    Style("[2025-11-22 07:43:25 DP3 TP1] ", LineAuthor(), TIME),
    Style("[2025-11-22 07:43:25 TP3 PP1] ", LineAuthor(), TIME),
    Style("[2025-11-22T07:43:25.250Z] 1a2b3c4d [rank=3] || ", LineAuthor(rank=3), TIME + 0.25),
    Style("[2025-11-22T07:43:25.250Z] 1a2b3c4d || [rank=3] ", LineAuthor(rank=3), TIME + 0.25),
    Style("11/22/2025 07:43:25 - INFO - __main__ - ", LineAuthor(), TIME),
    Style("[INFO|trainer.py:1234] 2025-11-22 07:43:25,250 >> ", LineAuthor(), TIME + 0.25),
    Style("[INFO|2025-11-22 07:43:25] trainer.py:1234 >> ", LineAuthor(), TIME),
    Style("[11/22 07:43:25 detectron2]: ", LineAuthor(), TIME),
    Style("INFO 11-22 07:43:25 [core.py:58] ", LineAuthor(), TIME),
    Style("ERROR:root:"),
    Style("[1,3]<stderr>:", LineAuthor(task=3), stream="stderr"),
    Style("stderr: ", LineAuthor(), stream="stderr"),
    Style("stdout: [rank3]: ", LineAuthor(rank=3), stream="stdout"),
    Style("[prterun-node01-4711@1,3]<stdout>: ", LineAuthor(task=3), stream="stdout"),
    Style("[1,mpirank:3,algo-1]<stderr>:", LineAuthor(task=3, host="algo-1"), stream="stderr"),
    Style("[3]<stderr>:", LineAuthor(task=3), stream="stderr"),
    Style("Sat Nov 22 07:43:25 2025[1,3]<stderr>:", LineAuthor(task=3), TIME, "stderr"),
    Style("(TrainWorker pid=123, ip=10.0.0.2) ", LineAuthor(pid=123, host="10.0.0.2")),
    Style("(pid=123) ", LineAuthor(pid=123)),
    Style("(Worker_TP3 pid=123) ", LineAuthor(rank=3, pid=123)),
    Style("(Worker_PP1_TP3 pid=123) ", LineAuthor(pid=123)),
    Style("(RayTrainWorker pid=123) 22-Nov-25 07:43:25 [Worker:3] [INFO] ", LineAuthor(rank=3, pid=123), TIME),
    Style("(worker1, rank=1, pid=123, ip=10.0.0.2) [rank9]: ", LineAuthor(rank=9, pid=123, host="10.0.0.2")),
    Style("(VllmWorker rank=3 pid=123) ", LineAuthor(rank=3, pid=123)),
    Style("(ImplicitFunc(train) pid=123, ip=10.0.0.2) ", LineAuthor(pid=123, host="10.0.0.2")),
    Style("(raylet) [2025-11-22 07:43:25,250 E 4711 4711] ", LineAuthor(), TIME + 0.25),
    Style("(raylet) "),
    Style("(raylet, ip=10.0.0.2) ", LineAuthor(host="10.0.0.2")),
    Style("[pod/train-worker-0/pytorch] ", LineAuthor(host="train-worker-0")),
    Style("2025-11-22T07:43:25.250000000Z stderr F ", LineAuthor(), TIME + 0.25, "stderr"),
    Style("2025-11-22T07:43:25.250000000Z ", LineAuthor(), TIME + 0.25),
    Style("2025-11-22T08:43:25.250+01:00 ", LineAuthor(), TIME + 0.25),
    Style("Nov 22 07:43:25 node01 train[123]: ", LineAuthor(host="node01", pid=123), TIME),
    Style("2025-11-22T07:43:25+0000 node01 train[123]: ", LineAuthor(host="node01", pid=123), TIME),
    Style("Nov 22 07:43:25 node01 kernel: [12345.678901] ", LineAuthor(host="node01"), TIME),
    Style("[12345.678901] "),
    Style("[    0.000000] "),
    Style("[  +0.000005] "),
    Style("<4>[12345.678901] "),
    Style("[Sat Nov 22 07:43:25 2025] ", LineAuthor(), TIME),
    Style("[1763797405.250000] [node01:4711 :0] ", LineAuthor(host="node01", pid=4711), TIME + 0.25),
)
TEXTS = (
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 33, in main',
    "    dist.all_reduce(tensor)",
    "RuntimeError: CUDA error: out of memory",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
    "Received 15 death signal, shutting down workers",
    "WorkNCCL(SeqNum=5, OpType=ALLREDUCE) ran for 600000 milliseconds",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.layer.strip())
def test_every_style(style: Style, text: str) -> None:
    head = parse(style.layer + text)
    assert head == LineHead(style.who, pytest.approx(style.time) if style.time else None, text, style.stream)


#: Layers that one line can have around each other, with nothing that two of them say differently.
OUTER = [style for style in STYLES if style.layer.startswith(("2025-11-22T", "[pod", "Nov", "[1,3]", "[prte"))]
INNER = [
    style
    for style in STYLES
    if style.who.rank is not None or style.layer.startswith(("E1122", "[E", "(raylet", "[2025"))
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(OUTER), max_size=2), st.sampled_from(INNER), st.sampled_from(TEXTS), st.booleans())
def test_any_combination(outer: list[Style], inner: Style, text: str, coloured: bool) -> None:
    layers = [*outer, inner]
    line = "".join(f"\x1b[36m{layer.layer}\x1b[0m" if coloured else layer.layer for layer in layers) + text
    head = parse(line)
    times = [layer.time for layer in layers if layer.time is not None]
    assert head.text == text
    assert head.time == (pytest.approx(times[0]) if times else None)
    for field in LineAuthor._fields:
        said = [value for layer in layers if (value := getattr(layer.who, field)) is not None]
        assert getattr(head.who, field) in (said or [None])
    streams = [layer.stream for layer in layers if layer.stream]
    assert head.stream in (streams or [""])


@pytest.mark.parametrize(
    ("line", "who", "text"),
    [
        ("node01:4711:4890 [3] NCCL WARN Cuda failure", LineAuthor(host="node01", pid=4711), "NCCL WARN Cuda failure"),
        ("10.0.0.4:4711:4890 NCCL INFO x", LineAuthor(host="10.0.0.4", pid=4711), "NCCL INFO x"),
        ("[2025-11-22 07:43:25] node01:4711:4890 [3] init.cc:2 NCCL WARN x", LineAuthor(host="node01", pid=4711), "init.cc:2 NCCL WARN x"),
        ("3: node01:4711:4890 [3] NCCL WARN x", LineAuthor(host="node01", pid=4711, task=3), "NCCL WARN x"),
        ("[node01:04711] *** Process received signal ***", LineAuthor(host="node01", pid=4711), "*** Process received signal ***"),
        ("[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught", LineAuthor(rank=3), "[Rank 3] Watchdog caught"),
        ("[rank11]:[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog", LineAuthor(rank=11), "[Rank 3] Watchdog"),
        ("[E ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 5] x", LineAuthor(rank=5), "[PG ID 0 PG GUID 0(default_pg) Rank 5] x"),
        ("[E ProcessGroupNCCL.cpp:1] [PG 0 (default_pg) Rank 5] x", LineAuthor(rank=5), "[PG 0 (default_pg) Rank 5] x"),
        ("[E ProcessGroupNCCL.cpp:1] [PG ID 2 PG GUID 3(tp) Rank 1] x", LineAuthor(), "[PG ID 2 PG GUID 3(tp) Rank 1] x"),
    ],
)  # fmt: skip
def test_lines_whose_writer_names_itself(line: str, who: LineAuthor, text: str) -> None:
    head = parse(line)
    assert (head.who, head.text) == (who, text)


@pytest.mark.parametrize(
    "line",
    [
        "Error: File not found",
        "File: train.py",
        "epoch 3: loss 0.31",
        "RuntimeError: boom",
        "torch.distributed.DistBackendError: NCCL error in: x.cpp",
        "urllib3.exceptions.MaxRetryError: HTTPSConnectionPool",
        "ERROR: Unexpected bus error encountered in worker",
        "3: loss 0.31",
        "worker-0: started",
        "train | 0.3",
        "[step3]: loss",
        "the stderr: of it",
        "[Worker:3] started",
        "[rank 3 of group tp] loss",
        "rank 3 is ready",
        "Rank 0 - 7 are on node01",
        "rank3[4711] is here",
        "rank: 3 (local_rank: 3)",
        "1a2b3c4d || x",
        "worker-3 | started",
        "train-worker-3 pytorch started",
        "[1,mpirank:3,algo-1] x",
        "the log has [rank_3]: in it",
        "[3] items",
        "ValueError: [3] is no rank",
        "12:34:56 remaining",
        "",
        "   ",
        "    raise ValueError(x)",
        "[c10d] The client socket has timed out",
        "(most recent call first): pid=3",
        "(foo) has pid=3",
        "ncclSystemError: System call failed",
        '{"message": {"message": "ValueError: boom"}}',
        "{'loss': 0.3}",
    ],
)
def test_text_stays_text(line: str) -> None:
    assert parse(line) == LineHead(LineAuthor(), None, line)


LABELLED = ["{}: hello", "{}: Loading data", "{}: done 3", "{}: all is well"]


@pytest.mark.parametrize(
    ("names", "who"),
    [
        (("0", "1", "2", "3"), LineAuthor(task=3)),
        (("0", "1", "10", " 3"), LineAuthor(task=3)),
        (("node01", "node02", "node17"), LineAuthor(host="node17")),
        (("worker-0", "worker-1"), LineAuthor(host="worker-1")),
        (("10.0.0.4", "10.0.0.5"), LineAuthor(host="10.0.0.5")),
    ],
)
def test_labels_count_where_the_file_speaks_for_them(names: tuple[str, ...], who: LineAuthor) -> None:
    sample = [text.format(name) for text in LABELLED for name in names]
    prefixes = Prefixes(["+ module load cuda", *sample])
    assert prefixes.parse(f"{names[-1]}: some text: more") == LineHead(who, None, "some text: more")
    assert prefixes.parse("RuntimeError: boom") == LineHead(LineAuthor(), None, "RuntimeError: boom")
    assert prefixes.parse("torch.cuda.OutOfMemoryError: CUDA out of memory.").who == LineAuthor()


def test_a_host_that_was_silent_so_far_is_known_by_its_likes() -> None:
    prefixes = Prefixes([f"node0{number}: {text}" for text in ("a b", "c d", "e f") for number in range(4)])
    assert prefixes.parse("node17: boom").who == LineAuthor(host="node17")
    assert prefixes.parse("loss: 0.3").who == LineAuthor()


@pytest.mark.parametrize(
    "sample",
    [
        [f"{number}: text of a line" for number in range(40)],
        [f"loss: 0.{number}" for number in range(40)],
        [f"step-{number % 4}: 0.3" for number in range(40)],
        [f"layers.{number}.weight: float32" for number in range(40)],
        [f"epoch | {number}" for number in range(40)],
        [f"ValueError: {number}" for number in range(40)],
        [f"epoch/{number % 4} 0.3" for number in range(40)],
        [f"train/loss 0.{number}" for number in range(40)],
        [f"shard-{number:05}/128 done" for number in range(40)],
    ],
)
def test_what_many_lines_begin_with_is_no_label(sample: list[str]) -> None:
    prefixes = Prefixes(sample)
    assert prefixes.parse(sample[3]) == LineHead(LineAuthor(), None, sample[3])


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("3: Traceback (most recent call last):", LineAuthor(task=3)),
        ('03:   File "train.py", line 3, in main', LineAuthor(task=3)),
        ("node01: Traceback (most recent call last):", LineAuthor(host="node01")),
        ("10.0.0.4: 10.0.0.4: [rank3]: boom", LineAuthor(host="10.0.0.4", rank=3)),
        ("worker-0: worker-0:4711:4890 [0] NCCL INFO x", LineAuthor(host="worker-0", pid=4711)),
        ("worker-3 | Traceback (most recent call last):", LineAuthor(host="worker-3")),
        ("train-worker-3 pytorch Traceback (most recent call last):", LineAuthor(host="train-worker-3")),
        ("i.train/0 [default2]:[rank2]: RuntimeError: boom", LineAuthor(rank=2, local_rank=2, host="i.train/0")),
        # a fraction, and a path
        ("step/0 [rank2]: boom", LineAuthor()),
        ("train/0 is done", LineAuthor()),
    ],
)
def test_some_lines_speak_for_themselves(line: str, who: LineAuthor) -> None:
    assert Prefixes().parse(line).who == who


def test_such_lines_teach() -> None:
    prefixes = Prefixes()
    for rank in range(4):
        prefixes.parse(f"{rank}: Traceback (most recent call last):")
    assert prefixes.parse("2: some text") == LineHead(LineAuthor(task=2), None, "some text")


def test_a_replica_of_torchx_is_a_host_with_the_labels_of_torchrun_behind_it() -> None:
    prefixes = Prefixes([f"train/{replica} [{rank}]:step {rank}" for rank in (0, 1) for replica in (0, 1)] * 3)
    assert prefixes.parse("train/1 [0]:boom") == LineHead(LineAuthor(host="train/1", task=0), None, "boom")
    head = prefixes.parse("train/1 E1129 11:59:00.754000 18939 torch/distributed/run.py:874] failed (exitcode: 1)")
    assert (head.who, head.text) == (LineAuthor(host="train/1", pid=18939), "failed (exitcode: 1)")
    assert prefixes.parse('  File "train.py", line 3, in main').who == LineAuthor()


@pytest.mark.parametrize(
    ("sample", "line", "host"),
    [
        (["worker-0  | hello you", "worker-1  | hello you"], "worker-1  | boom", "worker-1"),
        (
            ["train-worker-0 pytorch hello", "train-worker-1 pytorch hello"],
            "train-worker-1 pytorch boom",
            "train-worker-1",
        ),
    ],
)
def test_compose_and_stern(sample: list[str], line: str, host: str) -> None:
    assert Prefixes(sample * 4).parse(line) == LineHead(LineAuthor(host=host), None, "boom")


@pytest.mark.parametrize(
    ("line", "head"),
    [
        (
            '{"log":"[rank3]: boom\\n","stream":"stderr","time":"2025-11-22T07:43:25.25Z"}',
            LineHead(LineAuthor(rank=3), TIME + 0.25, "boom", "stderr"),
        ),
        (
            '{"message": "boom", "ts": 1763797405.25, "hostname": "node01"}',
            LineHead(LineAuthor(host="node01"), TIME + 0.25, "boom"),
        ),
        (
            '{"log": "boom", "kubernetes": {"pod_name": "worker-0"}, "timestamp": "2025-11-22 07:43:25"}',
            LineHead(LineAuthor(host="worker-0"), TIME, "boom"),
        ),
    ],
)
def test_lines_of_json(line: str, head: LineHead) -> None:
    assert parse(line) == head


@pytest.mark.parametrize(
    "line",
    [
        " 45%|####     | 45/100 [00:12<00:15,  3.60it/s][rank3]: boom",
        " 94%|#########| 837/888 [9:42:50<34:08, 40.17s/it][rank3]: boom",
        f" 94%|{'#' * 420}| 837/888 [9:42:50<34:08, 40.17s/it][rank3]: boom",
        "Epoch 3:  45%|####     | 45/100 [00:12<00:15,  3.60it/s, loss=0.3][rank3]: boom",
        " 44%|###\r 45%|####     | 45/100\r[rank3]: boom",
        "[rank3]:  44%|###\rboom",
        "\x1b[31m[rank3]:\x1b[0m \x1b[1mboom\x1b[0m",
        "[rank3]: boom\r\n",
    ],
)
def test_bars_colours_and_carriage_returns(line: str) -> None:
    head = parse(line)
    assert (head.who.rank, head.text) == (3, "boom")


def test_a_traceback_behind_words_of_another_process() -> None:
    """``die: error: must run as root`` ends no line; a rank's quotation of such a line is its own."""
    head = parse("die: error: must run as root[rank5]: Traceback (most recent call last):")
    assert (head.who.rank, head.text) == (5, "Traceback (most recent call last):")
    quoted = parse("[rank0]: the log of [rank5]: Traceback (most recent call last):")
    assert quoted.who.rank == 0 and quoted.text.startswith("the log of")


def test_the_outermost_time_counts() -> None:
    # it is on all lines, and of one clock
    line = "2025-11-22T07:43:25.250Z [rank3]:[E1122 09:43:20.000 ProcessGroupNCCL.cpp:616] boom"
    assert parse(line) == LineHead(LineAuthor(rank=3), TIME + 0.25, "boom")


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=80),
            st.binary(max_size=80).map(lambda data: data.decode("utf-8", "replace")),
            st.lists(
                st.sampled_from([*(style.layer for style in STYLES), *TEXTS, "0: ", "n1: ", "{", "[", "\x1b["]),
                max_size=6,
            ).map("".join),
        ),
        max_size=8,
    )
)
def test_nothing_raises_and_the_text_is_the_end_of_the_line(lines: list[str]) -> None:
    prefixes = Prefixes(lines)
    for line in lines:
        head = prefixes.parse(line)
        if "\x1b" not in line and "\r" not in line and not line.startswith("{") and '{"' not in line:
            assert line.rstrip("\n").endswith(head.text)


def test_endless_lines_are_read_by_their_beginning() -> None:
    head = parse("[rank3]: " + "x" * 1_000_000)
    assert head.who.rank == 3
    assert len(head.text) == 1_000_000


def test_the_level_of_a_message_is_no_host() -> None:
    line = "2026-11-22 08:23:38,933 ERROR ops: no such kernel"
    head = Prefixes([line]).parse(line)
    assert (head.who, head.time is not None) == (LineAuthor(), True)


@pytest.mark.parametrize("names", [("n1", "n2"), ("n-1", "n-2"), ("gpu-101", "gpu-102")])
def test_hosts_whose_names_are_words_of_a_text(names: tuple[str, str]) -> None:
    traceback = ("Traceback (most recent call last):", '  File "train.py", line 3, in main', "    main()")
    prefixes = Prefixes([f"{name}: {line}" for name in names for line in traceback])
    assert prefixes.parse(f"{names[0]}: ssh exited").who == LineAuthor(host=names[0])
    bare = Prefixes([f"{names[0]}: 0.3", f"{names[1]}: 0.4"] * 9)
    assert bare.parse(f"{names[0]}: 0.3").who == LineAuthor()


@pytest.mark.parametrize("rank", ["-1", "123456789", "true", '"3"'])
def test_a_rank_in_json_that_is_none(rank: str) -> None:
    line = '{"message": "hello", "rank": ' + rank + "}"
    assert Prefixes([line]).parse(line).who.rank is None


def test_a_number_of_thousands_of_digits_is_no_rank() -> None:
    line = "[rank" + "9" * 5000 + "]: hello"
    assert Prefixes([line]).parse(line).who.rank is None


def test_ranks_of_several_replicas_of_sglang_are_none_of_the_job() -> None:
    """With attention that is data parallel, each rank has one replica; else the replicas count their own ranks."""
    line = "[2025-11-22 07:43:25 DP{} TP{}] Decode batch"
    attention = [line.format(rank // 2, rank) for rank in range(4)]
    replicas = [line.format(replica, rank) for replica in range(2) for rank in range(4)]
    assert [Prefixes(attention).parse(text).who.rank for text in attention] == [0, 1, 2, 3]
    assert {Prefixes(replicas).parse(text).who.rank for text in replicas} == {None}
    # seen behind the first lines
    prefixes = Prefixes()
    ranks = [prefixes.parse(line.format(replica, 3)).who.rank for replica in (1, 0, 1)]
    assert ranks == [3, None, None]
