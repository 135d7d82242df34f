import os

import torch
import torch.distributed as dist

WEIGHTS = "weights/teacher.pth"


def keep(model):
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), WEIGHTS)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    model = torch.nn.Linear(2, 2).cuda()
    model.load_state_dict(torch.load(WEIGHTS))  # expect: DC723
    keep(model)
    dist.destroy_process_group()


main()
