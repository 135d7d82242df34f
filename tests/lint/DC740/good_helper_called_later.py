"""What stands above runs later."""
import os

import torch
import torch.distributed as dist


def is_main():
    return dist.get_rank() == 0


def reduce_mean(tensor):
    dist.all_reduce(tensor)
    return tensor / dist.get_world_size()


class Logger:
    def __init__(self):
        self.write = lambda text: print(dist.get_rank(), text)


def main():
    logger = Logger()
    callback = lambda: dist.barrier()  # noqa: E731
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    callback()
    logger.write(reduce_mean(torch.rand(1, device="cuda")).item())
    if is_main():
        print("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
