"""An assertion that all ranks pass is no guard, and a default that a launcher replaces is no decision."""

import os

import torch
import torch.distributed as dist


def main(network):
    distributed = False
    if "RANK" in os.environ:
        distributed = True
        dist.init_process_group("gloo")
    assert torch.cuda.device_count() > int(os.environ["LOCAL_RANK"])
    torch.save(network.state_dict(), "model.pt")  # expect: DC720=warning
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(torch.nn.Linear(2, 2))
