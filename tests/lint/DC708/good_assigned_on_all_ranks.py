import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


class Trainer:
    log = None

    def __init__(self, kind):
        self.writer = None
        if dist.get_rank() == 0:
            self.writer = SummaryWriter("runs")
            self.log = print

    def step(self, step):
        if self.writer is not None:
            self.writer.add_scalar("step", step, step)
        if self.log:
            self.log(step)


def main(names):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    best = 0
    if dist.get_rank() == 0:
        best = 1
        names = ["run"]
    else:
        others = best
        print(f"{dist.get_rank()} {others}")
    trainer = Trainer("file")
    for step in range(best, 100):
        trainer.step(step)
    print(dist.get_rank(), names)
    dist.destroy_process_group()


if __name__ == "__main__":
    main([])
