"""What is told of failures that no rule names: the check of a kernel, the node, and what to do next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.logs.diagnose import diagnose, read_timeline

FOLDER = Path(__file__).parent


def story(name: str) -> dict[str, Any]:
    told = diagnose(read_timeline([str(FOLDER / name)])).story
    assert told is not None
    return told


def test_the_check_of_a_kernel_is_quoted() -> None:
    told = story("DC512/good_a_kernel_asserts.log")
    assert told["why"].endswith("Assertion `t >= 0 && t < n_classes` failed")
    assert "CUDA_LAUNCH_BLOCKING=1" in told["fix"]["text"]


def test_the_node_that_failed_is_named_and_not_the_one_that_tells_of_it() -> None:
    told = story("DC125/good_a_node_failed.log")
    assert told["guilty"] == {"host": "node17"} and told["why"].endswith("node17")
    assert "--exclude=node17" in told["fix"]["text"] and told["fix"]["where"] == "host"


@pytest.mark.parametrize("name", ["DC518/bad_a_shell_tells_of_the_survivor.log", "DC518/bad_unique_id_lost.log"])
def test_who_only_lost_others_is_not_guilty(name: str) -> None:
    told = story(name)
    assert told["outcome"] == "consequences" and told["guilty"] == {}
    assert "read the log of" in told["fix"]["text"]


def test_the_only_process_of_a_text_is_its_only_rank(tmp_path: Path) -> None:
    """NCCL's lines show a process id and no rank; of two processes, either one may be the rank with the traceback."""
    text = (FOLDER / "DC406/bad_the_only_rank.log").read_text("utf-8").partition("\n")[2]
    path = tmp_path / "run.log"
    path.write_text(text, "utf-8")
    assert diagnose(read_timeline([str(path)])).story["guilty"] == {"rank": 2, "host": "host01"}
    path.write_text("host01:22221:22221 [1] bootstrap.cc:48 NCCL WARN Bootstrap : no socket interface found\n" + text)
    assert "rank" not in diagnose(read_timeline([str(path)])).story["guilty"]


def test_mpi_gets_options_of_mpi() -> None:
    told = story("DC412/bad_mpi_over_the_bridge")
    assert "MPI could not connect to 172.17.0.1" in told["why"]
    assert "btl_tcp_if_include" in told["fix"]["text"] and told["fix"]["where"] == "launch-line"


def test_a_bar_before_another_ranks_words_is_quoted() -> None:
    why = story("DC726/bad_bars_before_the_watchdog.log")["why"]
    assert "another process was still at work" in why and "14%" in why


def test_a_card_that_gave_up_is_no_port_that_went_down() -> None:
    assert "catastrophic" in story("DC414/bad_the_adapter_gives_up.log")["why"]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cpu!",
            "torch.device('cuda', local_rank)",
        ),
        (
            "ValueError: You can't train a model that has been loaded with `device_map='auto'` in any distributed mode.",
            "LOCAL_RANK",
        ),
        ("AttributeError: 'DistributedDataParallel' object has no attribute 'generate'", "model.module"),
        (
            "ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
            "single-device/multiple-device GPU modules or CPU modules, but got device_ids [0]",
            "model.to(local_rank)",
        ),
        (
            "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
            "gradient.",
            "as it is",
        ),
        ("Exception: Could not find the transformer layer class to wrap in the model.", "print(model)"),
        ("ValueError: Tensors must be contiguous", ".contiguous()"),
        ("ValueError: Cannot flatten integer dtype tensors", "bnb_4bit_quant_storage"),
        ("KeyError: 'NODE_RANK'", "GROUP_RANK"),
        ("RuntimeError: Shared memory manager connection has timed out", "ulimit -n"),
        ("AssertionError: world size (8) is not divisible by tensor_model_parallel_size (3)", "--nproc-per-node"),
        ("RuntimeError: CUDA error: misaligned address", "CUDA_LAUNCH_BLOCKING=1"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "nvidia-smi"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "--gpus all"),
        ("ImportError: libcudart.so.11.0: cannot open shared object file: No such file", "torch.version.cuda"),
        ("RuntimeError: DataLoader worker (pid(s) 4321) exited unexpectedly", "num_workers=0"),
        ("RuntimeError: DataLoader worker (pid 4321) is killed by signal: Aborted.", "PYTHONFAULTHANDLER=1"),
        (
            "ValueError: Must flatten tensors with uniform dtype but got torch.float32 and torch.bfloat16",
            "model.to(torch.bfloat16)",
        ),
        (
            "RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
            "DTensor before calling distributed operators!",
            "register_fsdp_forward_method(model, 'name')",
        ),
        ("RuntimeError: Missing key in checkpoint state_dict: model.2.weight.", "allow_partial_load=True"),
        (
            "ValueError: Must flatten tensors with uniform requires_grad when use_orig_params=False",
            "use_orig_params=True",
        ),
        (
            "RuntimeError: size mismatch for fc.weight: copying a param with shape torch.Size([0]) from checkpoint, the "
            "shape in current model is torch.Size([512]).",
            "zero_to_fp32.py",
        ),
        (
            "RuntimeError: size mismatch for fc.weight: copying a param with shape torch.Size([512]) from checkpoint, the "
            "shape in current model is torch.Size([0]).",
            "GatheredParameters",
        ),
    ],
)
def test_a_failure_without_a_rule_has_a_name_and_a_fix(line: str, hint: str, tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/workspace/train.py", line 9, in <module>\n    step()\n'
    (tmp_path / "run.log").write_text(raised + line + "\n")
    told = diagnose(read_timeline([str(tmp_path / "run.log")])).story
    assert (told["outcome"], told["code"]) == ("unnamed", None)
    assert told["name"] is not None and hint in told["fix"]["text"]
    # a twin in the same place that none of them knows
    (tmp_path / "twin.log").write_text(raised + "AttributeError: 'Net' object has no attribute 'generate'\n")
    assert diagnose(read_timeline([str(tmp_path / "twin.log")])).story["name"] is None


def test_the_exception_of_a_checkpoint_is_that_of_the_rank_it_names(tmp_path: Path) -> None:
    # every rank prints it, and torchrun sees another rank end first
    outer = (
        "{0}Traceback (most recent call last):\n"
        '{0}  File "/workspace/train.py", line 9, in <module>\n'
        "{0}    dcp.load(state, checkpoint_id=folder)\n"
        "{0}torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([1])\n"
    )
    inner = (
        "{0}Traceback (most recent call last): {1}\n"
        '{0}  File "/opt/env/lib/python3.11/site-packages/torch/distributed/checkpoint/utils.py", line 193, in '
        "reduce_scatter\n"
        "{0}    local_data = map_fun()\n"
        "{0}{2}\n\n"
    )
    end = (
        "E1129 15:51:11.401000 31503 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
        "local_rank: 0 (pid: 31657) of binary: /opt/env/bin/python3\n"
    )

    def told(*parts: str) -> dict[str, Any]:
        text = "".join(part.format(f"[rank{rank}]: ", "(RANK 1)", error) for rank in (0, 1) for part in parts)
        (tmp_path / "run.log").write_text(text + end)
        return dict(diagnose(read_timeline([str(tmp_path / "run.log")])).story)

    # an exception that distcheck knows, and one that it does not
    for error, name in (
        ("RuntimeError: Missing key in checkpoint state_dict: head.weight.", "a distributed checkpoint lacks a key"),
        ("ValueError: planner failed", None),
    ):
        summary = told(outer, inner)
        assert (summary["name"], summary["guilty"]) == (name, {"rank": 1})
        assert summary["first"]["text"].endswith(error)
    # the exceptions of the ranks are not in the log
    summary = told(outer)
    assert (summary["name"], summary["guilty"]) == ("a distributed checkpoint failed on some ranks", {"rank": 1})
    # no rank is named: the writer raised it
    inner = inner.replace(" {1}", "")
    assert told(inner)["guilty"] == {"rank": 0}


def test_the_exception_in_torchrun_s_report_is_that_of_the_row_s_rank(tmp_path: Path) -> None:
    def row(number: int, rank: int, frame: int, error: str) -> str:
        return (
            f"[{number}]:\n  time      : 2026-11-29_16:12:1{8 - rank}\n  host      : node1\n"
            f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : 1 (pid: 2493{rank})\n"
            f"  error_file: /tmp/torchelastic_z13/none/attempt_0/{rank}/error.json\n"
            "  traceback : Traceback (most recent call last):\n"
            f'    File "/workspace/train.py", line {frame}, in main\n      step(batch)\n  {error}\n  \n'
        )

    bar, thin = "=" * 60 + "\n", "-" * 60 + "\n"
    others = "Failures:\n" + row(1, 0, 88, "ValueError: the queue is closed")
    root = "Root Cause (first observed failure):\n" + row(0, 1, 71, "KeyError: 'image'")
    for text in (bar + "train.py FAILED\n" + thin + others + thin + root + bar, root + bar):
        (tmp_path / "run.log").write_text(text)
        told = diagnose(read_timeline([str(tmp_path / "run.log")])).story
        assert (told["first"]["text"], told["guilty"]["rank"]) == ("KeyError: 'image'", 1)
        assert told["place"] == "/workspace/train.py:71 in main"
    # a traceback that a program indents is no part of a report
    (tmp_path / "run.log").write_text(root.replace("  traceback : ", "  and ") + bar)
    told = diagnose(read_timeline([str(tmp_path / "run.log")])).story
    assert told["first"]["text"] != "KeyError: 'image'"


@pytest.mark.torch
def test_the_fixes_for_a_mixed_tensor_and_a_missing_key_work(tmp_path: Path) -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "register_fsdp_forward_method"):
        pytest.skip("this torch has no FSDP2")
    script = """
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def encode(self, x):
        return torch.mm(x, self.fc.weight)


model, batch, folder = Net(), torch.ones(2, 4), sys.argv[1]
fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
try:
    model.encode(batch)
except RuntimeError as error:
    print(error)
register_fsdp_forward_method(model, "encode")
assert model.encode(batch).shape == (2, 4)

dcp.save({"old": torch.ones(2)}, checkpoint_id=folder)
state = {"old": torch.zeros(2), "new": torch.full((2,), 7.0)}
try:
    dcp.load(state, checkpoint_id=folder)
except BaseException as error:
    print(error)
assert list(FileSystemReader(folder).read_metadata().state_dict_metadata) == ["old"]
dcp.load(state, checkpoint_id=folder, planner=DefaultLoadPlanner(allow_partial_load=True))
assert state["old"].tolist() == [1, 1] and state["new"].tolist() == [7, 7]
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "checkpoint")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "got mixed torch.Tensor and DTensor" in done.stdout
    assert "Missing key in checkpoint state_dict: new" in done.stdout


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("exits with return code = -11", "ended with exit code -11 (SIGSEGV), and logged no reason"),
        ("  traceback : Signal 6 (SIGABRT) received by PID 4711", "ended with exit code -6 (SIGABRT), and logged no"),
        ("failed (exitcode: -4) local_rank: 0 (pid: 16) of binary: python", "ended with exit code -4 (SIGILL), and"),
        (
            "node1: rank 0 died from signal 11 and dumped core\nnode1: rank 4 died from signal 9",
            "exit code -11 (SIGSEGV)",
        ),
        # a lost peer leads to an abort as well, and two faults are one too many
        ("node1: rank 0 died from signal 6 and dumped core\nnode1: rank 4 died from signal 9", ""),
        ("node1: rank 0 died from signal 11\nnode1: rank 4 died from signal 7", ""),
        # what a launcher sends, and an ordinary status: their cause is elsewhere
        ("failed (exitcode: -15) local_rank: 0 (pid: 16) of binary: python", ""),
        ("exits with return code = 1", ""),
    ],
)
def test_the_only_process_that_a_signal_ended_failed_first(line: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(line + "\n")
    told = diagnose(read_timeline([str(tmp_path / "run.log")])).story
    assert told["outcome"] == ("unnamed" if text else "consequences")
    assert text in told["first"]["text"]
    assert (told["fix"]["command"] == "export PYTHONFAULTHANDLER=1") == bool(text)


@pytest.mark.parametrize(
    ("first", "shown"),
    [("step 1", "11-22T08:12:44.000"), ("2024-11-22 08:00:00 INFO start", "2024-11-22T08:12:44.000")],
)
def test_a_time_has_no_year_that_the_log_does_not_have(first: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(f"{first}\n[rank1]:[E1122 08:12:44.0 x.cpp:1] RuntimeError: CUDA error: invalid device ordinal\n")
    assert diagnose(read_timeline([str(path)])).story["first"]["time"] == shown


def test_no_advice_to_record_where_a_traceback_is_there(tmp_path: Path) -> None:
    lost = "RuntimeError: Connection closed by peer [10.0.0.5]:40112"
    told = {}
    for name, text in (
        ("bare", f"[rank0]: {lost}\n"),
        (
            "traced",
            f'[rank0]: Traceback (most recent call last):\n[rank0]:   File "/w/t.py", line 1, in f\n[rank0]: {lost}\n',
        ),
    ):
        path = tmp_path / name
        path.write_text(text)
        told[name] = diagnose(read_timeline([str(path)])).story["fix"]["text"]
    assert "errors.record" in told["bare"] and "errors.record" not in told["traced"]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("srun: error: node02: task 5: Exited with exit code 1", "--output=rank-%t.log"),
        (
            "mpirun noticed that process rank 3 with PID 4711 on node node02 exited on signal 15",
            "--output-filename logs",
        ),
        ("the trainer process with rank=[3] was aborted. Please check its log.", "--log_dir logs"),
        ("x", "--log-dir logs --tee 3"),
    ],
)
def test_the_command_is_one_of_the_launcher_that_was_used(line: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(f"[3]: RuntimeError: Connection closed by peer [10.0.0.5]:40112\n{line}\n")
    assert diagnose(read_timeline([str(path)])).story["fix"]["command"] == command


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: Unable to create step for job 88123: More processors requested than permitted",
        "sbatch: error: Batch job submission failed: Requested node configuration is not available",
    ],
)
def test_what_slurm_refuses_is_compared_with_the_partition(line: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(line + "\n")
    told = diagnose(read_timeline([str(tmp_path / "run.log")])).story
    assert told["name"] == "Slurm refused a request" and "sinfo" in told["fix"]["text"]
    # an ordinary end of a task is no refusal
    (tmp_path / "twin.log").write_text("srun: error: node02: task 5: Exited with exit code 1\n")
    assert diagnose(read_timeline([str(tmp_path / "twin.log")])).story["name"] is None
