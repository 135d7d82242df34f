import os

import torch
import torch.distributed as dist


def save(model, path):
    rank = int(os.environ["LOCAL_RANK"])
    if rank == 0:
        torch.save(model.state_dict(), path)  # expect: DC217=warning


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    save(torch.nn.Linear(2, 2), "model.pt")


if __name__ == "__main__":
    main()
