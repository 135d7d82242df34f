import time

import pytest
import torch
import torch.distributed as dist


def mean_over_ranks(value):
    total = torch.tensor([float(value)])
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def test_mean(distributed):
    assert distributed(4, lambda: mean_over_ranks(dist.get_rank())) == [1.5] * 4


@pytest.mark.distributed([1, 2])
def test_it_is_the_same_on_all_ranks(tmp_path):
    assert mean_over_ranks(3) == 3
    if dist.get_rank() == 0:
        (tmp_path / "done").touch()
    dist.barrier()
    assert (tmp_path / "done").exists()


@pytest.mark.distributed(2)
def test_that_fails_on_one_rank():
    rank = dist.get_rank()
    print("my rank is", rank)
    if rank == 1:
        assert mean_of([1, 2]) == 2
    dist.barrier()


def mean_of(values):
    return sum(values) / len(values)


def test_that_hangs(distributed):
    def body():
        if dist.get_rank() == 0:
            time.sleep(600)
        dist.barrier()

    distributed(2, body, timeout=2)
