import os

import torch
import torch.distributed as dist


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    loss = torch.rand(1, device=torch.device("cuda", local_rank))
    dist.all_reduce(loss)
    if dist.get_rank() == 0:
        print(loss.item() / dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
