import os

import torch
import torch.distributed as dist
from apex.parallel import DistributedDataParallel as DDP


def main(batches: list) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.BatchNorm1d(8).cuda())
    if dist.get_rank() == 0:
        model.eval()
        with torch.no_grad():
            for batch in batches:
                print(model(batch).mean())
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.rand(4, 8)])
