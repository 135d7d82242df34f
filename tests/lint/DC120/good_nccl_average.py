import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    loss = torch.rand(1, device="cuda")
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
