import torch.distributed


def join_group(device_id, world_size, gpu_ranks):
    torch.distributed.init_process_group(
        backend="nccl", init_method="tcp://localhost:10000", world_size=world_size, rank=gpu_ranks[device_id]
    )
    return torch.distributed.get_rank()
