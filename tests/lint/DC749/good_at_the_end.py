"""At the end of the process an error changes nothing."""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    total = torch.ones(1).cuda()
    try:
        dist.all_reduce(total)
    finally:
        try:
            dist.barrier()
        except Exception:
            pass
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
