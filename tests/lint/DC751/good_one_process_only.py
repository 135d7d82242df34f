import os

import torch
import torch.distributed as dist


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(16, 4).cuda()
    model.requires_grad_(False)
    model.weight.requires_grad = True
    total = model(torch.randn(8, 16, device="cuda")).sum()
    total.backward()
    dist.all_reduce(model.weight.grad)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
