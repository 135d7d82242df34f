"""How a finding names what takes the global rank for the index of a GPU."""

from __future__ import annotations

import pytest

from distcheck.checks.source.device_indices import global_rank_names_a_device
from distcheck.checks.source.engine import SourceFile, analyse

HEAD = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
"""


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (
            "model = DDP(torch.nn.Linear(4, 4).to(rank), device_ids=[rank])",
            "torch.nn.Linear(4, 4).to(rank) and device_ids use the global rank",
        ),
        (
            "torch.cuda.set_device(rank); model = DDP(net, device_ids=[rank], output_device=rank)",
            "torch.cuda.set_device(rank) and device_ids and output_device use the global rank",
        ),
        ("model = DDP(net, device_ids=[rank])", "DDP(net, device_ids=[rank]) uses the global rank"),
        (
            "model = DDP(torch.nn.Linear(4, 4).to(rank), device_ids=[local_rank])",
            "torch.nn.Linear(4, 4).to(rank) uses the global rank",
        ),
    ],
)
def test_one_finding_names_all_uses_of_its_line(line: str, named: str) -> None:
    text = f"import os\n{HEAD}net = torch.nn.Linear(4, 4)\n{line}\n"
    [finding] = global_rank_names_a_device(analyse([SourceFile("train.py", text.encode)]))
    assert finding.message.startswith(named)
    assert finding.code == "DC201"
