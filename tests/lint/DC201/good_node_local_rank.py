"""torch tells the local rank itself."""

import torch
import torch.distributed as dist


def main():
    index = dist.get_node_local_rank(fallback_rank=0)
    torch.cuda.set_device(index)
    dist.init_process_group("nccl")
    print(torch.ones(1, device=torch.device("cuda", index)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
