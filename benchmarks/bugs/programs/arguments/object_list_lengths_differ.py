import os

import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def share_configuration(rank, configuration):
    if rank == 0:
        objects = [configuration["model"], configuration["lr"], configuration["layers"]]
    else:
        objects = [None, None]
    dist.broadcast_object_list(objects, src=0)
    name, lr, layers = objects
    return {"model": name, "lr": lr, "layers": layers}


def main():
    rank, _ = init_distributed()
    configuration = {"model": "mlp", "lr": 0.1, "layers": [8, 16, 4]}
    shared = share_configuration(rank, configuration if rank == 0 else {})
    print(f"rank {rank}: {shared}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
