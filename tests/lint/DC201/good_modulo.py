"""The remainder by the number of GPUs is an index on this host (DC212 has its own opinion)."""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    device = rank % torch.cuda.device_count()
    torch.cuda.set_device(device)
    model = torch.nn.Linear(4, 4).to(device)
    print(f"rank {rank} uses cuda:{device}", model.weight.shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
