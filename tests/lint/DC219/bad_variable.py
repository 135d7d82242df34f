import os

os.environ["RANK"] = os.environ["LOCAL_RANK"]  # expect: DC219=info

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
