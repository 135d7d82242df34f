"""How few calls of a job are compared with gradients."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.torch


class Compared:
    """An observer of one model with gradients, and the comparisons that it makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        from distcheck.runtime.coordination import copy_observer, flat_gradients

        self.calls = 0
        #: raised by each comparison
        self.error: Exception | None = None
        self.modes = 0
        real = flat_gradients.holds_gradients

        def counted(*args: Any) -> bool:
            self.calls += 1
            self.modes = torch._C._len_torch_dispatch_stack()
            if self.error is not None:
                raise self.error
            return real(*args)

        monkeypatch.setattr(copy_observer, "holds_gradients", counted)
        self.model = torch.nn.Linear(6, 5)
        self.observer = copy_observer.CopyObserver(lambda: 0)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.observer._of_optimizer[self.optimizer] = list(self.observer._found(self.optimizer, set()))
        for one in self.model.parameters():
            one.grad = torch.randn_like(one)

    def reduce(self, tensor: Any, line: int = 1, ranks: int = 2) -> None:
        from distcheck.runtime.coordination.model import CollectiveCall

        self.observer.on_call(CollectiveCall(1, "all_reduce", "0", place=f"train.py:{line}"), [tensor], ranks)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    return Compared(monkeypatch)


def test_sizes_of_one_line_are_compared_together(compared: Compared) -> None:
    import torch

    for size in range(100, 130):
        compared.reduce(torch.rand(size))
    assert compared.calls == 4
    # another line is compared, until the limit of the process is reached
    for line in range(2, 100):
        compared.reduce(torch.rand(100), line)
    assert compared.calls == 64
    assert not compared.observer.error


def test_calls_with_gradients_use_up_nothing_of_their_line(compared: Compared) -> None:
    import torch

    gradients = [one.grad.reshape(-1) for one in compared.model.parameters()]
    for size in range(10):
        compared.reduce(torch.cat([*gradients, torch.zeros(1 + size)]))
    assert compared.calls == 10
    assert compared.observer._calls == {"model": 10}


def test_call_sites_are_bounded(compared: Compared) -> None:
    import torch

    for size in range(20, 1300):
        compared.reduce(torch.empty(size))
    assert len(compared.observer._sites) == 1024


def test_tensors_smaller_than_all_gradients_are_not_compared(compared: Compared) -> None:
    import torch

    for one in compared.model.parameters():
        one.grad = torch.ones(5, 6) if one.dim() == 2 else None
    compared.reduce(torch.rand(20))
    assert compared.calls == 0


def test_nothing_is_read_while_a_graph_is_captured(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    compared.reduce(torch.rand(100))
    assert compared.calls == 0


def test_modes_of_the_script_see_no_comparison(compared: Compared) -> None:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Plain(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    tensor = torch.rand(100)
    with Plain():
        compared.reduce(tensor)
    assert (compared.calls, compared.modes) == (1, 0)


def test_an_error_ends_this_comparison_alone(compared: Compared) -> None:
    import torch

    compared.error = ValueError("no elements")
    for _ in range(3):
        compared.reduce(torch.rand(100))
    assert compared.calls == 1
    assert compared.observer.error == "ValueError: no elements"


def test_a_rank_that_is_not_in_the_group(compared: Compared) -> None:
    import torch

    compared.reduce(torch.rand(100), ranks=0)
    assert compared.observer.error == ""
