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
    loader = DataLoader(  # expect: DC605
        dataset,
        batch_size=8,
        sampler=sampler,
        num_workers=4,
        multiprocessing_context="spawn",
        collate_fn=lambda items: torch.stack([item[0] for item in items]),
    )
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in loader:
            print(batch.shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
