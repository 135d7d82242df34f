"""The script says that it runs on CPUs, too, but the backend does not."""
import os

import torch
import torch.distributed as dist


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl")  # expect: DC120=info
    loss = torch.rand(1, device=device)
    dist.all_reduce(loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
