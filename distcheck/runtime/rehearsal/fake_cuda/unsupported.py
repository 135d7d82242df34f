"""What is not simulated of CUDA: it stops the script, or is passed over, and is noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .limits import note, refuse


def patch_unsupported() -> None:
    """What only a GPU can do: passed over with a note where the script's meaning stays, an error where it does not."""

    def graphed(callables: Any, *_: Any, **__: Any) -> Any:
        note("torch.cuda.make_graphed_callables", "the functions run uncompiled")
        return callables

    _refuse_to_make(torch.cuda.graphs.CUDAGraph, "torch.cuda.CUDAGraph")
    _refuse_to_make(torch.cuda.graphs.graph, "torch.cuda.graph")
    torch.cuda.make_graphed_callables = torch.cuda.graphs.make_graphed_callables = graphed
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(torch.cuda.nvtx, name, lambda *_, **__: 0)
    for name in ("temperature", "power_draw", "clock_rate", "utilization", "memory_usage"):
        setattr(torch.cuda, name, _measured(f"torch.cuda.{name}"))
    _pass_over_compilation()


def _refuse_to_make(kind: Any, name: str) -> None:
    """There is no object of a class, which stays one for annotations, ``isinstance()`` and classes below it."""

    def refused(*_: Any, **__: Any) -> Any:
        raise refuse(name, "a graph records the work of a GPU, and there is none")

    kind.__new__ = staticmethod(refused)


def _measured(name: str) -> Callable[..., int]:
    def measured(*_: Any, **__: Any) -> int:
        note(name, "0 was returned")
        return 0

    return measured


def _pass_over_compilation() -> None:
    """``torch.compile`` traces with tensors of its own, which our devices don't reach: the function itself is run."""

    def compiled(model: Any = None, **_: Any) -> Any:
        note("torch.compile", "the function runs uncompiled")
        return (lambda function: function) if model is None else model

    def compile_module(self: Any, *_: Any, **__: Any) -> None:
        note("torch.nn.Module.compile", "the module runs uncompiled")

    torch.compile = compiled
    torch.nn.Module.compile = compile_module
