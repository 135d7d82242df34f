import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(out):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"out": out}))  # expect: DC720
    model = DDP(torch.nn.Linear(4, 4).cuda())
    model(torch.ones(1, 4, device="cuda")).sum().backward()
    with folder.joinpath("scores.txt").open("w") as file:  # expect: DC720
        file.write("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main("out")
