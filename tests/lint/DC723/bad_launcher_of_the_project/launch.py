import torch
import torch.distributed as dist


def run_job(local_rank, size, func, config):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", world_size=size, rank=local_rank)
    func(config)
    dist.destroy_process_group()


def launch_job(config, func):
    if config["gpus"] > 1:
        torch.multiprocessing.spawn(run_job, nprocs=config["gpus"], args=(config["gpus"], func, config))
    else:
        func(config)
