import copy
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.backbone(x)))


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(Net().cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        loss = model(torch.randn(8, 16, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outputs = model(torch.randn(8, 16, device="cuda")).float().cpu()
        weights = {name: tensor.cpu() for name, tensor in model.module.state_dict().items()}
        print(model.module.head.weight.data.cpu())
        snapshot = copy.deepcopy(model.module).cpu()
        print(outputs.shape, len(weights), snapshot.training)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
