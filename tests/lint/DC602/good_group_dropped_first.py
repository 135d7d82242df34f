import copy
import os

import torch
import torch.distributed as dist


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)
        self.group = dist.new_group()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    net = Net().cuda()
    group = net.group
    net.group = None
    average = copy.deepcopy(net)
    net.group = group
    average.eval()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
