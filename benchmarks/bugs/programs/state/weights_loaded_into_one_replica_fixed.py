import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor


def build(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))


def load(model, weights):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            local = distribute_tensor(weights[name], parameter.device_mesh, parameter.placements, src_data_rank=None)
            parameter.copy_(local)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world_size // 2, 2), mesh_dim_names=("replicate", "shard"))
    pretrained = build(77).state_dict()
    model = build(1)
    fully_shard(model, mesh=mesh)
    if pretrained:
        load(model, pretrained)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(6):
        inputs = torch.randn(16, 8, generator=generator)
        loss = (model(inputs) - inputs.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = sum(parameter.full_tensor().double().square().sum() for parameter in model.parameters())
    print(f"rank {rank} weights {total.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
