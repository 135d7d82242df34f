import torch
import torch.distributed as dist
from evaluation import validate
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def loader_of(data):
    return DataLoader(data, sampler=DistributedSampler(data, shuffle=False))


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    model = DDP(torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(4)).cuda())
    loader = loader_of(TensorDataset(torch.randn(100, 4), torch.ones(100, 4)))
    for epoch in range(30):
        model(torch.ones(5, 4).cuda()).sum().backward()
        if validate(model, loader) > 5:
            break  # expect: DC739
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
