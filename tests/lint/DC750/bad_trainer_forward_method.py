import os

import torch
from torch import distributed
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, net: torch.nn.Module, local_rank: int) -> None:
        self.model = DistributedDataParallel(net.to(local_rank), device_ids=[local_rank])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        logits = self.model.module.forward(images)  # expect: DC750
        loss = F.cross_entropy(logits, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    distributed.init_process_group(backend="nccl")
    trainer = Trainer(torch.nn.Linear(32, 10), local_rank)
    for _ in range(1000):
        images = torch.randn(4, 32, device="cuda")
        labels = torch.randint(10, (4,), device="cuda")
        trainer.step(images, labels)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
