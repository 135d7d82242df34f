import os

import torch
import torch.distributed as dist


def export(options):
    model = torch.nn.Linear(4, 4)
    torch.save(model.state_dict(), os.path.join(options["out"], "last.pt"))


def launch(options, main_fn):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        main_fn(options)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    launch({"out": "out"}, export)
