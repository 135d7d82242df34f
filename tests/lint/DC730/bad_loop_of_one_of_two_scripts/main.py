import torch
import torch.distributed as dist
from data import divided
from steps import run
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import TensorDataset


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    model = DDP(torch.nn.Linear(8, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = divided(TensorDataset(torch.randn(1000, 8)))
    for epoch in range(90):
        run(model, optimizer, loader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
