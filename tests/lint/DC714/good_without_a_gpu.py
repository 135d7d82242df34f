import os

import torch
import torch.distributed as dist


class Index:
    def __init__(self, sizes):
        self.use_gpu = torch.cuda.is_available()
        self.sizes = sizes

    def total(self):
        if self.use_gpu:
            total = torch.tensor(sum(self.sizes)).cuda()
            dist.all_reduce(total)
            return total
        # without a GPU there is no group either: one process
        if dist.is_initialized():
            total = torch.tensor(sum(self.sizes))
            dist.all_reduce(total)
            return total
        return sum(self.sizes)

    def mean(self):
        if not torch.cuda.is_available():
            mean = torch.tensor(1.0)
            dist.all_reduce(mean)
            return mean
        return None


def main():
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    print(Index([1, 2]).total(), Index([1]).mean())


if __name__ == "__main__":
    main()
