import torch
import torch.distributed as dist
from comm import my_number


def main():
    dist.init_process_group("nccl")
    number = my_number()
    torch.cuda.set_device(number)  # expect: DC201=info
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
