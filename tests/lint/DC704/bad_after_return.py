import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def validate(model: DDP, batch: torch.Tensor) -> None:
    if dist.get_rank() != 0:
        return
    print(model(batch).argmax(-1))  # expect: DC704


def main() -> None:
    dist.init_process_group("gloo")
    validate(DDP(torch.nn.BatchNorm1d(4)), torch.rand(2, 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
