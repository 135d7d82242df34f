"""What is None on all ranks but the first is tested for it, handed on, or has a value on the others as well."""

import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


class Silent:
    def add_scalar(self, name, value, step):
        pass


class Logger:
    def __init__(self):
        self.writer = None
        if dist.get_rank() == 0:
            self.writer = SummaryWriter("runs")

    def scalar(self, name, value, step):
        if self.writer is None:
            return
        self.writer.add_scalar(name, value, step)

    def text(self, text):
        if self.writer:
            self.writer.add_text("note", text)

    def share(self, other):
        other.attach(self.writer)


def early(losses):
    writer = None
    if dist.get_rank() == 0:
        writer = SummaryWriter("runs")
    for step, loss in enumerate(losses):
        if writer is None:
            continue
        writer.add_scalar("loss", loss, step)


def asserted(losses):
    writer = None
    if dist.get_rank() == 0:
        writer = SummaryWriter("runs")
    if len(losses) > 2:
        assert writer is not None
        writer.add_scalar("loss", losses[0], 0)


def handed(model, losses, report):
    writer = None
    if dist.get_rank() == 0:
        writer = SummaryWriter("runs")
    report(losses, writer)
    return writer and writer.log_dir


def replaced(losses):
    writer = None
    if dist.get_rank() == 0:
        writer = SummaryWriter("runs")
    else:
        writer = Silent()
    for step, loss in enumerate(losses):
        writer.add_scalar("loss", loss, step)


def main():
    dist.init_process_group("nccl")
    logger = Logger()
    logger.scalar("loss", 1.0, 0)
    logger.text("done")
    early([1.0])
    asserted([1.0, 2.0])
    replaced([1.0])
    handed(None, [1.0], print)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
