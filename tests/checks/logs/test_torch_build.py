"""The torch that a job found, as probes judge it from a timeline."""

from __future__ import annotations

import pytest

from distcheck.checks.logs.torch_build import (
    backend_was_built_in,
    gpus_could_be_counted,
    no_proxy_stood_before_etcd,
    store_needed_no_libuv,
    torch_was_the_installed_one,
)

from .made import SITE, code, found_by, said, timeline


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("RuntimeError: Distributed package doesn't have NCCL built in", "without the backend nccl"),
        ("AssertionError: Torch not compiled with CUDA enabled", "without CUDA"),
        ("AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", "without CUDA"),
        (
            "AttributeError: module 'torch.distributed' has no attribute 'init_process_group'",
            "it has no init_process_group",
        ),
        ("AssertionError: Unknown c10d backend type UCC", "without the backend ucc"),
        ("RuntimeError: No backend type associated with device type cuda", "made for gloo alone"),
        ("ValueError: monitored_barrier is only implemented for GLOO backend.", "works with gloo alone"),
        ("ValueError: Cannot use ReduceOp.AVG with Gloo", "gloo has no ReduceOp.AVG"),
        ("RuntimeError: Backend gloo does not support reduce_scatter", "the backend gloo has no reduce_scatter"),
        ("RuntimeError: ProcessGroupNCCL does not support recvAnysource", "the backend nccl has no recvAnysource"),
    ],
)
def test_what_the_build_or_the_backend_lacks(line: str, part: str) -> None:
    ((rule, severity, message),) = found_by(backend_was_built_in, timeline(said(line)))
    assert (rule, severity) == ("DC120", "error")
    assert part in message


@pytest.mark.parametrize("text", ["No backend type associated with device type cpu", "Tensors must be CUDA and dense"])
def test_a_tensor_on_the_cpu_is_no_fault_of_the_build(text: str) -> None:
    ((rule, severity, message),) = found_by(backend_was_built_in, timeline(said(f"RuntimeError: {text}")))
    assert (rule, severity) == ("DC714", "error")
    assert "made for nccl alone" in message


def test_windows_gets_gloo() -> None:
    line = "RuntimeError: Distributed package doesn't have NCCL built in"
    (windows,) = backend_was_built_in(timeline(said(line, code("C:\\work\\train.py", "init()"))))
    (linux,) = backend_was_built_in(timeline(said(line, code("train.py", "init()"))))
    assert 'backend="gloo"' in windows.fix.text
    assert "pytorch.org/get-started" in linux.fix.text


@pytest.mark.parametrize(("device", "option"), [("Cuda", "gpu"), ("Xpu", "xpu")])
def test_gpus_that_could_not_be_counted(device: str, option: str) -> None:
    ((rule, _, message),) = found_by(gpus_could_be_counted, timeline(said(f"ValueError: {device} is not available.")))
    assert (rule, message) == ("DC121", f"--nproc-per-node={option} counts GPUs, and this process can use none")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (
            "ModuleNotFoundError: No module named 'torch.distributed'; 'torch' is not a package",
            "torch.py is taken for torch",
        ),
        ("AttributeError: partially initialized module 'torch' has no attribute 'nn'", "torch.py is taken for torch"),
        ("ImportError: cannot import name 'default_generator' from 'torch._C' (unknown location)", "source tree"),
    ],
)
def test_something_else_is_taken_for_torch(line: str, part: str) -> None:
    made = timeline(said(line, code("train.py", "import torch"), code("torch.py", "import torch.nn")))
    ((rule, severity, message),) = found_by(torch_was_the_installed_one, made)
    assert (rule, severity) == ("DC122", "error")
    assert part in message


def test_another_module_that_is_only_half_there() -> None:
    line = "AttributeError: partially initialized module 'torchvision' has no attribute 'extension'"
    assert not found_by(torch_was_the_installed_one, timeline(said(line)))


@pytest.mark.parametrize("spelled", ["build", "built"])
def test_libuv_can_be_switched_off_but_not_for_torchrun(spelled: str) -> None:
    line = f"RuntimeError: use_libuv was requested but PyTorch was {spelled} without libuv support"
    (plain,) = store_needed_no_libuv(timeline(said(line, code("C:\\w\\train.py", "init()"))))
    agent = code("C:\\env\\Lib\\site-packages\\torch\\distributed\\run.py", "elastic_launch(", "run")
    (torchrun,) = store_needed_no_libuv(timeline(said(line, agent)))
    assert plain.fix.command == "set USE_LIBUV=0"
    assert torchrun.fix.command is None
    assert "torchrun takes no notice" in torchrun.fix.text


def test_a_proxy_counts_before_etcd_only() -> None:
    line = "OSError: Tunnel connection failed: 403 Forbidden"
    etcd = code(f"{SITE}/etcd/client.py", "self._machines_cache = self.machines")
    assert [rule for rule, *_ in found_by(no_proxy_stood_before_etcd, timeline(said(line, etcd)))] == ["DC124"]
    hub = code(f"{SITE}/huggingface_hub/file_download.py", "get()")
    assert not found_by(no_proxy_stood_before_etcd, timeline(said(line, hub)))
