"""Whether the model has buffers can't be seen: it depends on what is loaded."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from zoo import load_model


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(load_model("large"))
    with torch.no_grad():
        if dist.get_rank() == 0:
            print(model(torch.rand(4, 8)))  # expect: DC704=info
    loss = DDP(load_model("small"))(torch.rand(4, 8)).sum()
    dist.barrier()
    print(loss)
    dist.destroy_process_group()


def warm_up() -> None:
    model = DDP(load_model("large"))
    if dist.get_rank() == 0:
        model(torch.rand(4, 8)).sum().backward()  # expect: DC704


if __name__ == "__main__":
    main()
    warm_up()
