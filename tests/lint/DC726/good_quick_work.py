import os

import torch
import torch.distributed as dist
from torchvision.datasets import MNIST


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(16, 4).cuda()
    if dist.get_rank() == 0:
        names = list(map(str.lower, os.listdir(".")))
        MNIST("data", download=True)
        torch.save(model.state_dict(), "model.pt")
        print(names)
    dist.barrier()
    dataset = MNIST("data")
    print(len(dataset))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
