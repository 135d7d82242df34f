import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    dataset = TensorDataset(torch.randn(1000, 16))
    sampler = DistributedSampler(dataset)
    pick = lambda items: torch.stack([item[0] for item in items])  # noqa: E731
    forked = DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=4, collate_fn=pick)
    in_process = DataLoader(
        dataset, batch_size=8, sampler=sampler, num_workers=0, multiprocessing_context=None, collate_fn=pick
    )
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in forked:
            print(batch.shape)
        for batch in in_process:
            print(batch.shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
