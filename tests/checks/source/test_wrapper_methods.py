"""The attributes that a wrapper has, as torch has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.checks.source.wrapper_methods import OF_WRAPPERS

pytestmark = pytest.mark.torch


def test_each_public_attribute_of_ddp_is_known(tmp_path: Path) -> None:
    """Otherwise the use of one would be an error."""
    torch = pytest.importorskip("torch")
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("torch was built without torch.distributed")
    store = f"file://{tmp_path / 'store'}"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        assert {name for name in dir(model) if not name.startswith("_")} <= OF_WRAPPERS
        assert not hasattr(model, "generate")
        assert not hasattr(model, "in_features")
    finally:
        distributed.destroy_process_group()
