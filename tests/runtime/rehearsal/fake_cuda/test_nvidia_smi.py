"""What the simulated ``nvidia-smi`` answers, and which calls it does not."""

from __future__ import annotations

import pytest

from distcheck.runtime.rehearsal.fake_cuda.nvidia_smi import FakeGpu, answer, is_answered, main, parse

GPUS = [FakeGpu(index, 2, 81920, "9.0", "NVIDIA H100 80GB HBM3") for index in range(2)]


def lines(words: str) -> list[str]:
    query = parse(words.split())
    assert query is not None
    return answer(query, GPUS)[0]


def test_a_query_has_one_line_for_each_gpu() -> None:
    assert lines("--query-gpu=index,memory.used,utilization.gpu --format=csv") == [
        "index, memory.used [MiB], utilization.gpu [%]",
        "0, 0 MiB, 0 %",
        "1, 0 MiB, 0 %",
    ]
    assert lines("--query-gpu=name,driver_version,memory.free --format=csv,noheader,nounits -i 1") == [
        "NVIDIA H100 80GB HBM3, 570.133.20, 81920"
    ]
    # accelerate's
    assert lines("--query-gpu=count,name --format=csv,noheader") == ["2, NVIDIA H100 80GB HBM3"] * 2
    assert lines("--query-gpu=gpu_name,fan.speed --format=csv,noheader") == ["NVIDIA H100 80GB HBM3, [N/A]"] * 2


def test_the_list_and_the_table_name_all_gpus() -> None:
    assert lines("-L") == lines("--list-gpus")
    assert lines("-L")[1] == "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0e5c0000-0000-0000-0000-000000000001)"
    assert sum("MiB / 81920MiB" in line for line in lines("")) == 2
    assert {len(line) for line in lines("")} == {80}


def test_no_process_runs_on_a_simulated_gpu() -> None:
    assert lines("--query-compute-apps=pid,used_memory --format=csv") == ["pid, used_memory [MiB]"]
    assert lines("--query-compute-apps=pid,used_memory --format=csv,noheader") == []


def test_a_gpu_that_is_not_there_is_an_error() -> None:
    query = parse(["-L", "-i", "7"])
    assert query is not None
    assert answer(query, GPUS) == (["No devices were found"], 6)


def test_a_call_without_an_answer_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["2:80:9.0:NVIDIA H100", "-q", "-x"]) == 1
    assert capsys.readouterr().err == "nvidia-smi: a rehearsal has no answer to: -q -x\n"
    assert main(["2:80:9.0:NVIDIA H100", "-L"]) == 0
    assert capsys.readouterr().out.count("\n") == 2


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("nvidia-smi", True),
        ("nvidia-smi -L", True),
        ("nvidia-smi -L 2>/dev/null | wc -l", True),
        ("nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits -i 0 | head -1", True),
        ("nvidia-smi --query-gpu=name --format csv,noheader", True),
        ("cd runs && nvidia-smi -L; nvidia-smi topo -m", False),
        ("/usr/bin/nvidia-smi -L", False),
        ("nvidia-smi -q -d MEMORY", False),
        ("nvidia-smi topo -m", False),
        ("nvidia-smi --query-gpu=name", False),
        ("nvidia-smi --query-gpu=name,no.such.field --format=csv", False),
        ("echo 'nvidia-smi", False),
    ],
)
def test_calls_that_are_answered(command: str, expected: bool) -> None:
    assert is_answered(command) is expected
