import os

import torch
import torch.distributed as dist
import torchvision
from checkpoint import save_model
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    network = torchvision.models.resnet50(num_classes=10).cuda()
    model = DistributedDataParallel(network, device_ids=[local_rank])
    model(torch.randn(8, 3, 224, 224, device="cuda")).mean().backward()
    if dist.get_rank() == 0:
        save_model(network, "resnet.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
