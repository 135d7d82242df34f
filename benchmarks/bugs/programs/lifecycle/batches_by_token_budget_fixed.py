import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def texts():
    draw = random.Random(6)
    return [[draw.randrange(50) for _ in range(5 if number % 2 else 12)] for number in range(40)]


def batches(mine, budget):
    batch, used = [], 0
    for text in mine:
        if batch and used + len(text) > budget:
            yield batch
            batch, used = [], 0
        batch.append(text)
        used += len(text)
    if batch:
        yield batch


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(50, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, ids, starts):
        return self.head(self.words(ids, starts))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(2)
    network = DistributedDataParallel(Classifier())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    ready = list(batches(texts()[rank::world], budget=60))
    fewest = torch.tensor(len(ready))
    dist.all_reduce(fewest, op=dist.ReduceOp.MIN)
    ready = ready[: fewest.item()]
    random.Random(rank).shuffle(ready)
    for batch in ready:
        ids = torch.tensor([word for text in batch for word in text])
        starts = torch.tensor([0] + [len(text) for text in batch[:-1]]).cumsum(0)
        wanted = torch.tensor([text[0] % 2 for text in batch])
        loss = nn.functional.cross_entropy(network(ids, starts), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seen = torch.tensor(len(ready))
    dist.all_reduce(seen)
    print(f"rank {rank}: {len(ready)} of {seen.item()} batches")
    del network
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
