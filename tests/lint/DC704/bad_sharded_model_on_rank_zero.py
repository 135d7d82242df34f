"""Rank 0 alone calls a model in FSDP, or lets it generate: its layers gather the shards of all ranks."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from transformers import AutoModelForCausalLM


def evaluate(model, batches):
    total = 0.0
    with torch.no_grad():
        for batch in batches:
            total += model(batch).sum().item()  # expect: DC704
    return total


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = FSDP(torch.nn.Linear(2, 2), device_id=local_rank)
    model(torch.rand(2, 2)).sum().backward()
    if dist.get_rank() == 0:
        evaluate(model, [torch.rand(2, 2)])
    writer = FSDP(AutoModelForCausalLM.from_pretrained("gpt2"), device_id=local_rank)
    if dist.get_rank() == 0:
        with torch.no_grad():
            print(writer.generate(torch.zeros(1, 1, dtype=torch.long)))  # expect: DC704
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
