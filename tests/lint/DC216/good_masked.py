"""Each rank sees one GPU, and that is number 0."""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
model = torch.nn.Linear(4, 4).to("cuda:0")
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
print(model)
dist.destroy_process_group()
