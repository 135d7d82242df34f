import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    dist.init_process_group("gloo")
    hidden = 64 if dist.get_rank() == 0 else 32
    net = torch.nn.Sequential(
        torch.nn.Linear(8, hidden),  # expect: DC709
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, 2),  # expect: DC709
    )
    model = DDP(net)
    for _ in range(4):
        model(torch.randn(4, 8)).mean().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
