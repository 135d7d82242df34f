"""Without workers the main process reads the data; with workers, only the process that has none communicates."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler, get_worker_info


class Agreed(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        value = torch.tensor(float(index))
        dist.all_reduce(value)
        return value


class Careful(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        value = torch.tensor(float(index))
        if get_worker_info() is None:
            dist.all_reduce(value)
        return value


def main() -> None:
    dist.init_process_group("gloo")
    for _ in DataLoader(Agreed(), sampler=DistributedSampler(Agreed(), shuffle=False)):
        pass
    for _ in DataLoader(Careful(), num_workers=2, sampler=DistributedSampler(Careful(), shuffle=False)):
        pass
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
