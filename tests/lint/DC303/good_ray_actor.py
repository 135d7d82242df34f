import ray
import torch
import torch.distributed as dist


@ray.remote(num_gpus=1)
class Server:
    def __init__(self) -> None:
        torch.cuda.set_device(torch.device("cuda", 0))
        dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
