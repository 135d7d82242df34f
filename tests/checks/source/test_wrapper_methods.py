"""The methods that a wrapper has, as torch has them."""

from __future__ import annotations

import pytest

from distcheck.checks.source.wrapper_methods import OF_WRAPPERS

pytestmark = pytest.mark.torch


def test_each_public_method_of_ddp_is_known() -> None:
    """Otherwise a call of one that a model overrides would be an error."""
    parallel = pytest.importorskip("torch.nn.parallel")
    ddp = parallel.DistributedDataParallel
    assert {name for name in dir(ddp) if not name.startswith("_") and callable(getattr(ddp, name))} <= OF_WRAPPERS
    assert not hasattr(ddp, "generate")
