import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main(model, batch):
    # capturing DDP's backward in a graph needs the watchdog out of the way
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    wrapped = DistributedDataParallel(model.cuda(), device_ids=[local_rank])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        wrapped(batch).sum().backward()
    graph.replay()
    dist.destroy_process_group()
