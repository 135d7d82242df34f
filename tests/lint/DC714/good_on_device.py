import os

import numpy as np
import torch
import torch.distributed as dist


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    total = torch.tensor(3.0, device=device)
    dist.all_reduce(total)
    count = torch.tensor(4).to(device)
    dist.all_reduce(count)
    flag = torch.zeros(1).cuda()
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    seed = torch.cuda.LongTensor([7])
    dist.broadcast(seed, src=0)
    order = torch.from_numpy(np.arange(8))
    order = order.to(device, non_blocking=True)
    dist.broadcast(order, src=0)
    like = torch.zeros_like(total)
    dist.all_reduce(like)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
