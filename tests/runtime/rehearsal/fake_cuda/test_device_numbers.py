"""Devices that are named by a bare number, under the class that knows what a number means."""

from __future__ import annotations

import pytest

from .test_simulated import told

pytestmark = pytest.mark.torch


def test_a_number_is_a_gpu_wherever_torch_reads_a_device() -> None:
    setting = """
        import torch
        x, net = torch.zeros(2), lambda *to, **more: torch.nn.Linear(2, 2).to(*to, **more).weight
        def inside():
            with torch.device(1):
                return torch.zeros(2)
        packed = torch.nn.utils.rnn.pack_sequence([x])
    """
    places = (
        "x.to(1)", "x.to(device=1)", "net(1)", "net(device=1)", "net(torch.device(1))", "net(x.to(1))", "net(tensor=x.cuda(1))",
        "torch.zeros(2, device=1)", "torch.nn.Linear(2, 2, device=torch.device(1)).weight", "inside()", "packed.to(1).data",
    )  # fmt: skip
    assert told(*(f"{expression}.device" for expression in places), setting=setting) == ["cuda:1"] * len(places)
    assert told("net(2)", "torch.device(-1)", setting=setting) == [
        "AcceleratorError: CUDA error: invalid device ordinal", "RuntimeError: Device index must not be negative",
    ]  # fmt: skip


def test_the_class_is_torch_s_for_whoever_looks() -> None:
    setting = "import copy, pickle; device = torch.device(1)"
    said = told(
        "isinstance(device, torch.device), isinstance('cuda', torch.device), issubclass(torch.device, object)",
        "type(device) == torch.device, {type(device): 1}[torch.device], type(device) in {torch.device}",
        "pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device",
        "pickle.loads(pickle.dumps(torch.device)) is torch.device",
        "torch.device | None",
        "torch.device('cuda', 0), torch.device(type='cuda', index=1), torch.device(torch.device('cpu')), torch.device('meta')",
        "torch.device('nonsense')",
        setting=setting,
    )
    assert said[:6] == [
        "(True, False, True)", "(True, 1, True)", "True", "True", "torch.device | None",
        "(device(type='cuda', index=0), device(type='cuda', index=1), device(type='cpu'), device(type='meta'))",
    ]  # fmt: skip
    assert said[6].startswith("RuntimeError: Expected one of cpu, cuda")


def test_what_is_moved_under_a_default_device_arrives() -> None:
    setting = "torch.set_default_device('cuda:1')"
    places = ("torch.zeros(2).to('cuda:1')", "torch.nn.Linear(2, 2).to('cuda:1').weight", "torch.zeros(2).cuda(1)")
    assert told(*(f"{expression}.device" for expression in places), setting=setting) == ["cuda:1"] * 3
    assert told("torch.zeros(2).to('cuda:0').device", "torch.zeros(2).cpu().device", setting=setting) == [
        "cuda:0",
        "cpu",
    ]
