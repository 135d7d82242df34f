import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, network, batches, accumulate):
        self.rank = int(os.environ["LOCAL_RANK"])
        self.raw = network.cuda(self.rank)
        self.model = DDP(self.raw, device_ids=[self.rank])
        self.optimizer = torch.optim.AdamW(self.raw.parameters())
        self.batches, self.accumulate = batches, accumulate

    def loss_of(self, x, wanted):
        logits = self.model(x.cuda(self.rank))
        return torch.nn.functional.cross_entropy(logits, wanted.cuda(self.rank))

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        for micro_step in range(self.accumulate):
            x, wanted = next(self.batches)
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                loss = self.loss_of(x, wanted)
            if dist.is_initialized():
                self.model.require_backward_grad_sync = micro_step == self.accumulate - 1  # expect: DC759
            (loss / self.accumulate).backward()
        self.optimizer.step()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    batch = torch.randn(4, 32), torch.randint(8, (4,))
    trainer = Trainer(torch.nn.Linear(32, 8), iter([batch] * 400), accumulate=4)
    for _ in range(100):
        trainer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
