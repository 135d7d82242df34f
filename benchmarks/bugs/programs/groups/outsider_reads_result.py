import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def mean_over(group, value, size):
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return tensor.item() / size


def main():
    rank, world_size = init_distributed()
    validators = [0, 1]
    group = dist.new_group(validators)
    correct = [0.5, 1.0, 0.0][rank]
    accuracy = mean_over(group, correct, len(validators))
    print(f"rank {rank} accuracy {accuracy}")
    if accuracy > 0.6:
        print(f"rank {rank} keeps the checkpoint")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
