import torch.distributed as dist


def start():
    distributed = True
    try:
        dist.init_process_group("mpi")
    except RuntimeError:
        distributed = False
        dist.init_process_group("gloo")
    return distributed


def retry():
    world_size = 0
    for _ in range(3):
        try:
            dist.init_process_group("gloo")
            world_size = dist.get_world_size()
        except RuntimeError:
            world_size = 1
    return world_size


if __name__ == "__main__":
    print(start())
