import os

import torch
import torch.distributed as dist


def log_locally(loss):
    print("loss", loss.item())


def log_mean(loss):
    dist.all_reduce(loss)
    print("mean loss", loss.item() / dist.get_world_size())


class Reporter:
    def __init__(self):
        self.first = log_mean if dist.get_rank() == 0 else log_locally
        self.second = log_locally if dist.get_rank() == 0 else log_mean

    def report(self, loss):
        self.first(loss)  # expect: DC703
        self.second(loss)  # expect: DC703


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    Reporter().report(torch.rand(1, device="cuda"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
