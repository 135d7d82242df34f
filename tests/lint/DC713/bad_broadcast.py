import os

import torch
import torch.distributed as c10d


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    c10d.init_process_group("nccl")
    seed = torch.randint(0, 1 << 30, (1,), device="cuda")
    c10d.broadcast(seed, src=0, async_op=True)  # expect: DC713
    torch.manual_seed(int(seed))
    c10d.destroy_process_group()


if __name__ == "__main__":
    main()
