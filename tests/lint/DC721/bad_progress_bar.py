import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    for _ in tqdm(range(100)):  # expect: DC721=info
        model(torch.randn(2, 4).cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
