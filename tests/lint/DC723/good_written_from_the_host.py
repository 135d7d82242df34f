import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def save(model, path):
    state = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    torch.save(state, path)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    if dist.get_rank() == 0:
        save(model, "start.pt")
    dist.barrier()
    model.load_state_dict(torch.load("start.pt"))
    model = DDP(model, device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
