import os
import tempfile

import torch
import torch.distributed as dist


def main(output="out"):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    own = os.path.join(output, f"rank{dist.get_rank()}")
    if not os.path.exists(own):
        os.makedirs(own)
    scratch = tempfile.mkdtemp()
    os.mkdir(os.path.join(scratch, "parts"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
