from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.logs import gpus
from distcheck.checks.logs.model import Event, LineAuthor, LogSource, RankStream, Timeline
from distcheck.core.model import Severity
from distcheck.rules.signatures import Kind
from distcheck.rules.signatures.gpus import ROWS

GIB = "Of the allocated memory {allocated} GiB is allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated."


def events(*lines: str, who: LineAuthor = LineAuthor(), attempt: int = 0) -> tuple[Event, ...]:
    """The events of lines, as the reading makes them."""
    return tuple(
        Event(
            row.name,
            row.kind,
            who,
            0,
            number,
            None,
            line,
            {k: v for k, v in match.groupdict().items() if v is not None},
            row.codes,
            attempt,
        )
        for number, line in enumerate(lines, 1)
        for row in ROWS
        if (match := re.search(row.pattern, line))
    )


def timeline(*found: Event, went_on: bool = False, pids: tuple[int, ...] = (), attempts: int = 1) -> Timeline:
    rank_streams = tuple(RankStream(LineAuthor(rank=rank, pid=pid), 0, 1, 9) for rank, pid in enumerate(pids))
    return Timeline((LogSource("train.log", lines=100),), found, rank_streams, went_on=went_on, attempts=attempts)


def oom(gpu: int, total: float, *parts: str) -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {gpu} has a total capacity "
        f"of {total} "
        f"GiB of which 101.25 MiB is free. {' '.join(parts)}"
    )


def only(line: str) -> Event:
    return next(event for event in events(line) if event.signature == "cuda-out-of-memory")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.pattern[:20]}")
def test_a_row_fits_its_examples_in_both_engines(row: object) -> None:
    re2 = pytest.importorskip("re2")
    pattern = row.pattern.encode("latin-1")  # type: ignore[attr-defined]
    for example in row.examples:  # type: ignore[attr-defined]
        plain, fast = re.search(pattern, example.encode()), re2.search(pattern, example.encode())
        assert plain is not None
        assert fast is not None
        assert plain.groups() == fast.groups()


# memory


def test_the_own_memory_and_that_of_others_are_told_apart() -> None:
    memory = gpus.memory_of(
        only(
            oom(
                5,
                79.15,
                "Process 771204 has 76.40 GiB memory in use. Including non-PyTorch memory, this process has 2.64 GiB "
                "memory in use.",
                GIB.format(allocated="2.10"),
            )
        )
    )
    assert memory is not None
    assert (memory.gpu, memory.own, memory.others) == ("5", 2.64, 76.4)
    assert memory.holders == ((771204, 76.4),)


def test_in_a_container_the_own_process_has_the_host_s_number() -> None:
    memory = gpus.memory_of(
        only(oom(0, 14.75, "Process 414660 has 13.09 GiB memory in use.", GIB.format(allocated="10.09")))
    )
    assert memory is not None
    assert (memory.own, memory.others, memory.holders) == (13.09, 0, ())


def test_a_process_that_is_not_the_own_one_is_not_taken_for_it() -> None:
    line = oom(
        0,
        79.15,
        "Process 11 has 70.00 GiB memory in use. Process 12 has 3.10 GiB memory in use. Including non-PyTorch "
        "memory, this process has 17179869184.00 GiB memory in use.",
        GIB.format(allocated="1.00"),
    )
    memory = gpus.memory_of(only(line))
    assert memory is not None
    assert memory.holders == ((11, 70.0),)


def test_the_words_up_to_2_0() -> None:
    line = (
        "RuntimeError: CUDA out of memory. Tried to allocate 98.00 MiB (GPU 0; 39.59 GiB total capacity; 612.40 "
        "MiB already "
        "allocated; 21.19 MiB free; 640.00 MiB reserved in total by PyTorch)"
    )
    memory = gpus.memory_of(only(line))
    assert memory is not None
    assert memory.own == pytest.approx(0.625)
    assert memory.others == pytest.approx(39.59 - 0.625 - 0.0207 - 6, abs=0.01)
    assert gpus.memory_of(only("RuntimeError: CUDA error: out of memory")) is None


@given(st.floats(1, 200), st.floats(0, 200), st.floats(0, 200))
def test_a_model_that_fills_its_card_is_nobody_else_s_fault(total: float, own: float, context: float) -> None:
    """Whatever the sizes: without another process in the text nobody is blamed."""
    line = oom(
        0,
        round(total, 2),
        f"Including non-PyTorch memory, this process has {min(own + context, total):.2f} GiB memory in use.",
        GIB.format(allocated=f"{min(own, total):.2f}"),
    )
    assert not list(gpus.memory_is_not_held_by_others(timeline(*events(line))))


def test_ranks_of_the_job_are_no_strangers() -> None:
    lines = events(
        oom(
            0,
            79.15,
            "Process 4162 has 76.40 GiB memory in use. Including non-PyTorch memory, this process has "
            "2.64 GiB memory in use.",
        ),
        who=LineAuthor(rank=0, pid=4161),
    )
    assert list(gpus.memory_is_not_held_by_others(timeline(*lines)))
    assert not list(gpus.memory_is_not_held_by_others(timeline(*lines, pids=(4161, 4162))))


def test_two_ranks_in_the_memory_of_one_gpu_share_it() -> None:
    line = oom(
        0,
        79.15,
        "Process 4162 has 40.40 GiB memory in use. Including non-PyTorch memory, this process has 38.00 GiB "
        "memory in use.",
    )
    both = (*events(line, who=LineAuthor(rank=0)), *events(line, who=LineAuthor(rank=1)))
    (finding,) = gpus.ranks_share_a_gpu(timeline(*both))
    assert "ranks 0-1" in finding.message
    assert not list(gpus.memory_is_not_held_by_others(timeline(*both)))


# what survives


@pytest.mark.parametrize(
    ("probe", "line"),
    [
        (gpus.driver_is_new_enough, "The NVIDIA driver on your system is too old (found version 11040)."),
        (gpus.ROWS["fabric_manager_runs"], "Error 802: system not yet initialized"),
        (gpus.ROWS["driver_and_library_fit"], "Failed to initialize NVML: Driver/library version mismatch"),
        (gpus.gpus_are_sound, "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."),
        (gpus.ROWS["gpus_take_more_than_one_process"], "all CUDA-capable devices are busy or unavailable"),
    ],
)
def test_what_a_job_survives_is_no_error(probe: object, line: str) -> None:
    (loud,) = probe(timeline(*events(line)))  # type: ignore[operator]
    assert (loud.severity, loud.evidence["role"]) == (Severity.ERROR, "cause")
    (quiet,) = probe(timeline(*events(line), went_on=True))  # type: ignore[operator]
    assert (quiet.severity, quiet.evidence["role"]) == (Severity.INFO, "context")
    # the second attempt went on: the first one failed all the same
    (earlier,) = probe(timeline(*events(line), went_on=True, attempts=2))  # type: ignore[operator]
    assert earlier.severity is Severity.ERROR


# broken cards


@pytest.mark.parametrize("number", sorted(gpus.HARDWARE_XIDS))
def test_an_xid_of_the_hardware_is_a_broken_card(number: int) -> None:
    (finding,) = gpus.gpus_are_sound(timeline(*events(f"[8.1] NVRM: Xid (PCI:0000:3b:00): {number}, pid=1, text")))
    assert finding.severity is Severity.ERROR
    assert "0000:3b:00" in finding.message
    assert finding.evidence["xids"] == [number]


@pytest.mark.parametrize("number", [*sorted(gpus.PROGRAM_XIDS), 999])
def test_an_xid_of_a_program_is_told_only(number: int) -> None:
    (finding,) = gpus.gpus_are_sound(timeline(*events(f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=1, name=python")))
    assert (finding.severity, finding.evidence["role"]) == (Severity.INFO, "context")


def test_no_xid_has_two_meanings() -> None:
    assert not gpus.HARDWARE_XIDS.keys() & gpus.PROGRAM_XIDS.keys()


def test_the_rank_on_the_broken_card_is_to_blame() -> None:
    xid = events("NVRM: Xid (PCI:0000:3b:00): 48, DBE (double bit error)", who=LineAuthor(host="gpu07"))
    ecc = events("RuntimeError: CUDA error: uncorrectable ECC error encountered", who=LineAuthor(rank=3))
    (finding,) = gpus.gpus_are_sound(timeline(*xid, *ecc))
    assert finding.where.rank == 3
    assert "on gpu07" in finding.message


def test_hosts_are_told_apart() -> None:
    lines = [
        event
        for host in ("gpu01", "gpu02", "gpu03")
        for event in events("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", who=LineAuthor(host=host))
    ]
    assert [finding.where.host for finding in gpus.gpus_are_sound(timeline(*lines))] == ["gpu01", "gpu02", "gpu03"]


# the rest


def test_the_warning_of_the_iommu_is_a_cause_only_where_all_waited() -> None:
    warning = events(
        'NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instability or hang!'
    )
    waited = Event("watchdog", Kind.TIMEOUT, LineAuthor(rank=0), 0, 7, None, "timeout")
    named = Event("disk-full", Kind.CAUSE, LineAuthor(rank=0), 0, 6, None, "no space")
    assert [f.severity for f in gpus.peer_access_works(timeline(*warning))] == [Severity.INFO]
    assert [f.severity for f in gpus.peer_access_works(timeline(*warning, waited))] == [Severity.ERROR]
    assert [f.severity for f in gpus.peer_access_works(timeline(*warning, named, waited))] == [Severity.INFO]


def test_an_unknown_error_is_of_wsl_only_under_wsl() -> None:
    failure = events("gpu03:411:502 [0] init.cc:300 NCCL WARN Cuda failure 999 'unknown error'")
    assert not list(gpus.wsl_can_do_it(timeline(*failure)))
    assert list(gpus.wsl_can_do_it(timeline(*failure, *events("5.15.153.1-microsoft-standard-WSL2"))))


def test_a_warning_about_an_architecture_names_the_card() -> None:
    lines = events(
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    )
    (finding,) = gpus.torch_has_code_for_the_gpus(timeline(*lines))
    assert "NVIDIA GeForce RTX 5090, sm_120" in finding.message
    assert finding.where.line == 2
    (alone,) = gpus.torch_has_code_for_the_gpus(timeline(*lines[:1]))
    assert alone.severity is Severity.INFO
