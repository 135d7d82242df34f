import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, _ = init_distributed()
    if rank == 0:
        metadata = {"shape": (4, 2), "dtype": "float32", "name": "embedding"}
        dist.send_object_list([metadata], dst=1)
        dist.send(torch.ones(4, 2), dst=1)
    else:
        received = [None]
        dist.recv_object_list(received, src=0)
        embedding = torch.zeros(received[0]["shape"])
        dist.recv(embedding, src=0)
        assert embedding.sum().item() == 8.0, embedding
        print("received", embedding.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
