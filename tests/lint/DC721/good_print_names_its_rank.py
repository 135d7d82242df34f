import os

import torch
import torch.distributed as dist


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    for step in range(10):
        value = torch.ones(1, device="cuda") * rank
        print(f"[rank {rank}] step {step}: {value.item()}", flush=True)
        dist.all_reduce(value)
        print("rank", rank, "has", value.item())
    print(f"{rank} finished")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
