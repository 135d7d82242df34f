"""The ranks of a group call the model that they alone have, or rank 0 lets a whole model generate."""

import argparse
import contextlib

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM


@contextlib.contextmanager
def whole(model):
    with FSDP.summon_full_params(model, writeback=False):
        yield


def of_a_group(local_rank):
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        model = FSDP(torch.nn.Linear(2, 2), process_group=pair, device_id=local_rank)
        model(torch.rand(2, 2)).sum().backward()
        replica = DistributedDataParallel(torch.nn.BatchNorm1d(2).cuda(), process_group=pair)
        replica(torch.rand(2, 2).cuda()).sum().backward()


def by_an_option(local_rank, options):
    model = FSDP(
        torch.nn.Linear(2, 2), device_id=local_rank, sharding_strategy=getattr(ShardingStrategy, options.strategy)
    )
    if dist.get_rank() == 0:
        with torch.no_grad():
            print(model(torch.rand(2, 2)))


def generate(local_rank):
    writer = FSDP(AutoModelForCausalLM.from_pretrained("gpt2"), device_id=local_rank)
    with whole(writer):
        if dist.get_rank() == 0:
            print(writer.generate(torch.zeros(1, 1, dtype=torch.long)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", default="NO_SHARD")
    options = parser.parse_args()
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    of_a_group(local_rank)
    by_an_option(local_rank, options)
    generate(local_rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
