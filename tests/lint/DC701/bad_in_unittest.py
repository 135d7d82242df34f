"""Tests provoke hangs on purpose: one step milder there."""

import unittest

import torch
import torch.distributed as dist


class ReduceTest(unittest.TestCase):
    def test_reduce(self) -> None:
        dist.init_process_group("gloo")
        value = torch.ones(1)
        if dist.get_rank() == 0:
            dist.all_reduce(value)  # expect: DC701=warning
        dist.destroy_process_group()
