import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    odd = dist.new_group([1, 3])
    if rank in (1, 3):
        me = dist.get_rank(odd)
        peer = dist.get_global_rank(odd, 1 - me)
        message, answer = torch.tensor([float(rank)]), torch.zeros(1)
        if me == 0:
            dist.send(message, dst=peer)
        else:
            dist.recv(answer, src=1)
            print(f"rank {rank}: {answer.item()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
