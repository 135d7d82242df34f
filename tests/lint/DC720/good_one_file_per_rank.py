import os
from pathlib import Path

import torch
import torch.distributed as dist


def shard_path(folder, rank):
    return Path(folder) / f"optimizer_{rank:05d}.pt"


def main(folder="state"):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    shard = {"step": 1, "moments": torch.zeros(8, device="cuda")}
    torch.save(shard, f"{folder}/rank{rank}.pt")
    torch.save(shard, shard_path(folder, rank))
    torch.save(shard, "{}/part-{}-of-{}.pt".format(folder, rank, dist.get_world_size()))
    torch.save(shard, os.path.join(folder, "shard_%d.pt" % dist.get_rank()))
    torch.save(shard, folder + "/" + str(rank) + ".pt")
    own = os.path.join(folder, os.environ["RANK"])
    os.makedirs(own, exist_ok=True)
    torch.save(shard, os.path.join(own, "optimizer.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
