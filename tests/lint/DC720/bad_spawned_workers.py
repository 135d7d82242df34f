import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def worker(gpu, world_size, init_file):
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", init_method=init_file, rank=gpu, world_size=world_size)
    model = DDP(torch.nn.Linear(5, 5).cuda(gpu), device_ids=[gpu])
    model(torch.zeros(1, 5, device=gpu)).sum().backward()
    torch.save(model.module.state_dict(), "net.pth")  # expect: DC720=warning
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    import tempfile

    folder = tempfile.mkdtemp()
    mp.spawn(worker, args=(count, f"file://{folder}/rendezvous"), nprocs=count)
