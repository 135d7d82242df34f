"""barrier() of two modules is one operation; so are the two spellings of a gather into a tensor."""

import deepspeed
import torch
import torch.distributed as dist


def meet(value: torch.Tensor) -> None:
    if dist.get_rank() == 0:
        print(value)
        dist.barrier()
    else:
        deepspeed.comm.barrier()


if __name__ == "__main__":
    deepspeed.init_distributed("gloo")
    meet(torch.ones(1))
    dist.destroy_process_group()
