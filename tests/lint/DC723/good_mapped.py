import functools
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

load_on_host = functools.partial(torch.load, map_location="cpu")


def main(path="last.pt"):
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    model.load_state_dict(torch.load(path, map_location="cpu"))
    model.load_state_dict(torch.load(path, "cpu"))
    model.load_state_dict(torch.load(path, map_location=f"cuda:{local_rank}"))
    model.load_state_dict(torch.load(path, map_location={"cuda:0": f"cuda:{local_rank}"}))
    model.load_state_dict(torch.load(path, map_location=lambda storage, location: storage))
    model.load_state_dict(torch.load(path, device, weights_only=True))
    model.load_state_dict(torch.load(path, mmap=True), assign=False)
    model.load_state_dict(load_on_host(path))
    model = DDP(model, device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
