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
    peers = [peer for peer in range(world_size) if peer != rank]
    inbox = {peer: torch.zeros(4) for peer in peers}
    outbox = {peer: torch.full((4,), 10.0 * rank + peer) for peer in peers}
    requests = {("in", peer): dist.irecv(inbox[peer], src=peer) for peer in peers}
    requests |= {("out", peer): dist.isend(outbox[peer], dst=peer) for peer in peers}
    for request in requests.values():
        request.wait()
    for peer in peers:
        assert inbox[peer][0].item() == 10.0 * peer + rank
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
