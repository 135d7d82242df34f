"""One failure, one finding: the rule, who is named, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from distcheck import rules
from distcheck.checks.cluster.records import Cluster, HostRecord, RankRecord
from distcheck.core.checker import Checker
from distcheck.core.model import Finding, NotApplicable, Severity, Unavailable, to_plain
from distcheck.rules.error_messages import find_by_message
from distcheck.runtime.coordination.model import Failure, RankState
from distcheck.runtime.smoke_test.failures import (
    every_rank_arrives,
    every_rank_is_heard_of,
    explain,
    no_collective_fails,
    ranks_call_the_same,
)

NO_CLUSTER = Unavailable("not given")
PROBES = (every_rank_arrives, no_collective_fails, ranks_call_the_same, every_rank_is_heard_of)
BIG = "all_reduce float32 4 MiB"
LOAD = "\n".join(("w/data/load.py:12 in read", "distcheck/runtime/smoke_test/worker.py:101 in announce"))
WAITS = "\n".join(
    ("torch/distributed/distributed_c10d.py:4667 in gather", "distcheck/runtime/smoke_test/live_group.py:58 in gather")
)
CLOSED = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:20910. This is typically caused by a remote worker crashing."
)
DETAIL = (
    "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[5], TensorDtypes=Float, "
    "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided (default))), but Rank 0 is "
    "running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, "
    "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu))).Collectives differ in the following aspects: "
    "\t Tensor Tensor shapes: 5vs 4"
)


def cluster(backend: str | None = "nccl", hosts: int = 2) -> Cluster:
    size = 8 // hosts
    return Cluster(
        tuple(
            HostRecord(f"gpu0{number + 1}", tuple(RankRecord(number * size + rank) for rank in range(size)))
            for number in range(hosts)
        ),
        backend,
        8,
    )


def state(rank: int, kind: str = "running", **more: object) -> RankState:
    given = {
        "host": f"gpu0{rank // 4 + 1}",
        "pid": 4711,
        "phase": "verify",
        "step": BIG,
        "steps": 12,
        "state": kind,
    }
    return RankState(rank, **{**given, **more})  # type: ignore[arg-type]


def failure(kind: str, culprits: tuple[int, ...] = (3,), *states: RankState, **more: object) -> Failure:
    others = tuple(rank for rank in range(8) if rank not in culprits)
    given = {
        "phase": "verify",
        "step": BIG,
        "waiting": others,
        "states": states,
        "limit_s": 60.0,
        "elapsed_s": 60.2,
    }
    return Failure(kind, culprits=culprits, **{**given, **more})  # type: ignore[arg-type]


def judge(given: Failure, hosts: Cluster | Unavailable = NO_CLUSTER) -> Finding:
    """The one finding: each failure has exactly one."""
    found = [finding for probe in PROBES for finding in probe(given, hosts)]
    assert len(found) == 1, [finding.message for finding in found]
    (finding,) = found
    assert finding.severity is Severity.ERROR
    assert not finding.message.endswith(".")
    assert "\n" not in finding.message
    json.dumps(to_plain(finding.evidence))
    return finding


# DC511


@pytest.mark.parametrize(
    ("given", "words", "fix"),
    [
        pytest.param(
            failure("stopped", (3,), state(3, "stopped", step="broadcast float32 4 KiB"), error="SIGSTOP"),
            ["rank 3 on gpu01 is stopped (SIGSTOP) at broadcast float32 4 KiB", "ranks 0-2,4-7 wait"],
            "kill -CONT 4711",
            id="stopped",
        ),
        pytest.param(
            failure("timeout", (3,), state(3, "stopped")),
            ["rank 3 on gpu01 is stopped"],
            "kill -CONT 4711",
            id="stopped, found at the deadline",
        ),
        pytest.param(
            failure("timeout", (3,), state(3, "blocked")),
            ["rank 3 on gpu01 is blocked in the kernel", f"did not come to {BIG} within 60 s"],
            "/proc/4711/stack",
            id="blocked in the kernel",
        ),
        pytest.param(
            failure("timeout", (3,), state(3, stack=LOAD, seconds_in_step=61.0)),
            [f"rank 3 on gpu01 did not come to {BIG} within 60 s: it has been in data/load.py:12 (read) for 61 s"],
            "a device that does not answer",
            id="in code of its own",
        ),
        pytest.param(
            failure("timeout", (3,), state(3, stack='  File "/home/me/train.py", line 7, in <module>\n    main()')),
            ["it has been in me/train.py:7 (<module>)"],
            "top",
            id="a traceback for a stack",
        ),
        pytest.param(
            failure("timeout", (3,), state(3, step="gather float32 12 KiB", steps=11, stack=WAITS)),
            ["it has been at gather float32 12 KiB"],
            "distcheck collective --pairs",
            id="still waits in an earlier collective",
        ),
        pytest.param(
            failure("timeout", (1, 2), state(1, stack=LOAD), state(2, stack=WAITS), waiting=(0,)),
            ["ranks 1-2 on gpu01 did not come", "rank 1 has been in data/load.py:12", "rank 0 waits"],
            "top",
            id="two of them",
        ),
        pytest.param(
            failure("timeout", ()),
            [f"{BIG} did not end within 60 s, though no rank is missing"],
            "--pairs",
            id="all wait",
        ),
        pytest.param(
            failure("timeout", (), phase="compare", step="", waiting=()),
            ["the phase compare did not end"],
            "MASTER_PORT",
            id="before any group",
        ),
    ],
)
def test_bad_dc511(given: Failure, words: list[str], fix: str) -> None:
    finding = judge(given)
    assert (finding.code, finding.where.phase) == ("DC511", given.phase)
    assert all(word in finding.message for word in words), finding.message
    assert fix in finding.fix.text
    assert finding.fix.command is None or finding.fix.command.startswith("distcheck env --select")


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        pytest.param(cluster("nccl", 1), "NCCL_P2P_DISABLE=1", id="nccl, one host"),
        pytest.param(cluster("nccl", 2), "NCCL_DEBUG=INFO", id="nccl, two hosts"),
        pytest.param(cluster("gloo", 2), "firewall", id="gloo"),
        pytest.param(NO_CLUSTER, "firewall", id="not known"),
    ],
)
def test_bad_dc511_nobody_is_missing_and_nothing_moves(hosts: Cluster | Unavailable, words: str) -> None:
    finding = judge(failure("timeout", ()), hosts)
    assert words in finding.fix.text
    assert (finding.where.rank, finding.where.ranks) == (None, None)


def test_good_dc511_one_that_raised_or_died_is_no_timeout() -> None:
    for kind in ("died", "raised", "ended", "lost"):
        assert list(every_rank_arrives(failure(kind), NO_CLUSTER)) == []


# DC512


@pytest.mark.parametrize(
    ("detail", "words", "fix"),
    [
        ("it was killed by SIGKILL", ["was killed by SIGKILL", "memory"], "distcheck env --select DC323"),
        (
            "it was killed by SIGSEGV",
            ["was killed by SIGSEGV", "native code"],
            "distcheck env --select DC331,DC333,DC334",
        ),
        ("it was killed by SIGBUS", ["shared memory"], "distcheck env --select DC320"),
        ("it was killed by SIGABRT", ["C++ code gave up"], None),
        ("it was killed by SIGILL", ["another processor"], None),
        ("it was killed by SIGTERM", ["it was ended: by a scheduler"], None),
        ("it exited with status 7", ["exited with status 7", "ended by itself"], None),
    ],
)
def test_bad_dc512_died(detail: str, words: list[str], fix: str | None) -> None:
    dead = state(3, "killed", detail=detail, step="gather float32 12 KiB")
    finding = judge(failure("died", (3,), dead, state(0), error=detail))
    assert (finding.code, finding.where.rank, finding.where.host) == ("DC512", 3, "gpu01")
    assert "rank 3 on gpu01" in finding.message
    assert "at gather float32 12 KiB" in finding.message, "where it was, not where the others wait"
    assert all(word in finding.message for word in words), finding.message
    assert finding.fix.command == fix


def test_bad_dc512_several_died() -> None:
    dead = [state(rank, "killed", detail="it was killed by SIGKILL") for rank in (4, 5, 6)]
    finding = judge(failure("died", (4, 5, 6, 7), *dead), cluster())
    assert "ranks 4-7 on gpu02 were killed by SIGKILL" in finding.message
    assert (finding.where.ranks, finding.where.host) == ("4-7", "gpu02")


@pytest.mark.parametrize(
    ("error", "words", "fix"),
    [
        ("CollectiveFailed: RuntimeError: Invalid scalar type", "can't reduce this dtype", "cast before"),
        ("ValueError: out of luck", "ValueError: out of luck", "stack"),
        (
            "DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled cuda error, NCCL version 2.27.5\n"
            "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'invalid argument'",
            "Cuda failure 'invalid argument'; a call to CUDA failed",
            "NCCL_DEBUG=WARN",
        ),
        (
            "DistBackendError: NCCL error: invalid usage\nLast error:\n"
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000",
            "two ranks use one GPU",
            "cuda:LOCAL_RANK",
        ),
        (
            "DistBackendError: NCCL error: unhandled system error\nLast error:\n"
            "Error while creating shared memory segment /dev/shm/nccl-qXfWbc (size 9637888)",
            "/dev/shm",
            "no room",
        ),
        ("DistBackendError: ncclSystemError: System call failed", "operating system", "lacks"),
        ("DistBackendError: ncclInternalError: Internal check failed.", "names no cause", "NCCL_DEBUG=WARN"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB",
            "no memory left",
            "who uses the GPU",
        ),
        (
            "RuntimeError: [enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: nope0",
            "GLOO_SOCKET_IFNAME",
            "exact name",
        ),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "lacks the backend", "--backend gloo"),
        ("RuntimeError: Numpy is not available", "NumPy", "fits this torch"),
        (CLOSED, "lost another rank, of which nothing is known", "network between the hosts"),
    ],
)
def test_bad_dc512_raised(error: str, words: str, fix: str) -> None:
    finding = judge(failure("raised", (3,), state(3, "raised", detail=error), error=error))
    assert (finding.code, finding.where.rank) == ("DC512", 3)
    assert f"{BIG} failed on rank 3 on gpu01: " in finding.message
    assert "CollectiveFailed" not in finding.message
    assert words in finding.message, finding.message
    assert fix in finding.fix.text


def test_bad_dc512_a_long_text_is_cut() -> None:
    finding = judge(failure("raised", (3,), error="ValueError: " + "x" * 5000))
    assert len(finding.message) < 400
    assert len(finding.evidence["error"]) == 2000


@pytest.mark.parametrize(("hosts", "words"), [(cluster(hosts=1), "within one host"), (cluster(), "between the hosts")])
def test_bad_dc512_the_ranks_lost_each_other(hosts: Cluster, words: str) -> None:
    finding = judge(failure("raised", (), state(0, "raised", detail=CLOSED), error=CLOSED), hosts)
    assert finding.code == "DC512"
    assert "lost each other, and none of them died: RuntimeError: " in finding.message
    assert words in finding.fix.text


def test_bad_dc512_ended_from_outside() -> None:
    finding = judge(failure("ended", (), error="SIGTERM"))
    assert finding.code == "DC512"
    assert "the run was ended by SIGTERM in the phase verify" in finding.message
    assert "time limit" in finding.fix.text


def test_good_dc512_a_timeout_is_no_failed_collective() -> None:
    for kind in ("timeout", "stopped", "lost"):
        assert list(no_collective_fails(failure(kind), NO_CLUSTER)) == []
    assert explain("all is well") is None


# DC517


def test_bad_dc517_torch_says_so() -> None:
    finding = judge(failure("raised", (0, 1), error=DETAIL))
    assert finding.code == "DC517"
    assert "rank 1 calls ALLREDUCE of shape [5] Float, rank 0 calls ALLREDUCE of shape [4] Float" in finding.message
    assert "-m distcheck.watch" in finding.fix.text and "DETAIL" not in finding.fix.text


@pytest.mark.parametrize(
    "error",
    [
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what(): [enforce fail at pair.cc:490] "
        "op.preamble.length <= op.nbytes. 8 vs 4. Received data size doesn't match expected size.",
        "DistBackendError: NCCL error: message truncated : receiving 4 bytes instead of 2",
        "DistBackendError: NCCL error: Mismatched collective detected",
    ],
)
def test_bad_dc517_what_gloo_and_nccl_say(error: str) -> None:
    assert judge(failure("died", (1,), error=error)).code == "DC517"


def test_bad_dc517_equally_many_steps_and_different_ones() -> None:
    given = failure("timeout", (1,), state(1, step="broadcast float32 4 KiB"), state(0))
    finding = judge(given)
    assert finding.code == "DC517"
    assert f"rank 1 on gpu01 is at broadcast float32 4 KiB, rank 0 on gpu01 at {BIG}" in finding.message


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            failure("timeout", (1,), state(1, step="broadcast float32 4 KiB", steps=11), state(0)), id="one is behind"
        ),
        pytest.param(failure("timeout", (1,), state(1), state(0)), id="both are in the same"),
        pytest.param(failure("timeout", (1,), state(1, step="verify"), state(0)), id="one is between two collectives"),
        pytest.param(
            failure(
                "died", (1,), state(1, "killed", step="broadcast float32 4 KiB", detail="it was killed by SIGKILL")
            ),
            id="one died",
        ),
        pytest.param(
            failure("timeout", (1,), state(1, step="init_process_group", phase="start"), state(0)), id="another phase"
        ),
        pytest.param(
            failure(
                "timeout",
                (),
                state(1, phase="stragglers", step="exchange with rank 0 uint8 1 MiB"),
                state(0, phase="stragglers", step="exchange with rank 1 uint8 1 MiB"),
                phase="stragglers",
            ),
            id="each has a partner of its own",
        ),
    ],
)
def test_good_dc517(given: Failure) -> None:
    assert list(ranks_call_the_same(given, NO_CLUSTER)) == []
    assert judge(given).code in ("DC511", "DC512")


# DC501


def test_bad_dc501_no_word_any_more() -> None:
    finding = judge(failure("lost", (4, 5, 6, 7), state(0)), cluster())
    assert finding.code == "DC501"
    assert finding.message == "ranks 4-7 on gpu02 came, and gave no word any more in the phase verify"
    assert (finding.where.ranks, finding.where.host, finding.where.phase) == ("4-7", "gpu02", "verify")
    finding = judge(failure("lost", (4, 5, 6, 7), state(0)), NO_CLUSTER)
    assert finding.where.host is None
    assert "ranks 4-7 came" in finding.message


def test_bad_dc501_this_host_is_cut_off() -> None:
    finding = judge(failure("lost", (), state(4), state(5), error="Failed to recv, got 0 bytes"))
    assert "gpu02 lost the way to the other ranks in the phase verify: Failed to recv, got 0 bytes" in finding.message
    assert "rank 0's host" in finding.fix.text


def test_bad_dc501_nobody_was_found() -> None:
    given = failure("lost", (), phase="membership", step="", waiting=(), error="node1:29500 does not answer")
    finding = judge(given)
    assert "not found in the phase membership: node1:29500 does not answer" in finding.message
    assert finding.fix.command == "distcheck env --select DC401,DC403,DC404,DC419"


def test_good_dc501_one_that_is_late_was_heard_of() -> None:
    for kind in ("timeout", "stopped", "died", "raised", "ended"):
        assert list(every_rank_is_heard_of(failure(kind), NO_CLUSTER)) == []


# all of them


def test_texts_do_not_grow_with_the_ranks() -> None:
    for kind in ("timeout", "stopped", "died", "raised", "lost"):
        few = judge(failure(kind, tuple(range(0, 16, 2)), waiting=tuple(range(1, 16, 2))))
        many = judge(failure(kind, tuple(range(0, 16384, 2)), waiting=tuple(range(1, 16384, 2))))
        assert "8192 ranks (0,2,4,6 …)" in many.message
        assert few.where.ranks == "0,2,4,6,8,10,12,14"
        assert many.where.ranks == "0,2,4,6,8,10,12,14"
        assert len(str(many)) < len(str(few)) + 60


def test_the_commands_select_rules_that_there_are() -> None:
    def commands() -> Iterator[str]:
        from distcheck.runtime.smoke_test import failures

        for known in failures._KNOWN:
            yield known.fix.command or ""
        for _, fix in failures._SIGNALS.values():
            yield fix.command or ""

    for command in filter(lambda text: text.startswith("distcheck"), commands()):
        assert command.startswith("distcheck env --select ")
        for code in command.rpartition(" ")[2].split(","):
            assert "env" in rules.find(code).ways, code


def test_no_failure_is_nothing_to_judge() -> None:
    plan = Checker(modules=("distcheck.runtime.smoke_test.failures",), plug_ins=False).plan(
        Failure, command="collective", closed=True
    )
    report = plan.run(facts={Failure: NotApplicable("nothing failed")})
    assert report.findings == ()
    assert report.not_checked == ()
    report = plan.run(failure("died", (3,), state(3, "killed", detail="it was killed by SIGKILL")))
    assert [finding.code for finding in report.findings] == ["DC512"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (DETAIL, "DC517"),
        ("op.preamble.length <= op.nbytes. 8 vs 4. Received data size doesn't match expected size.", "DC517"),
        ("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms", "DC511"),
        (
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, "
            "NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.",
            "DC511",
        ),
        ("unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete", "DC511"),
        ("RuntimeError: Invalid scalar type", "DC512"),
        ("ncclUnhandledCudaError: Call to CUDA function failed.", "DC512"),
    ],
)
def test_a_pasted_message_finds_its_page(text: str, code: str) -> None:
    assert code in [match.code for match in find_by_message(text, rules.ALL)][:2]
