import os

import torch
import torch.distributed as dist


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).cuda()
    if local_rank == 0:
        torch.save(model.state_dict(), "last.pt")  # expect: DC217=info
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
