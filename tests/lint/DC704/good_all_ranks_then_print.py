import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.BatchNorm1d(8))
    with torch.no_grad():
        score = model(torch.rand(4, 8)).mean()
    dist.all_reduce(score)
    if dist.get_rank() == 0:
        print(score / dist.get_world_size(), sum(p.numel() for p in model.parameters()))
        model.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
