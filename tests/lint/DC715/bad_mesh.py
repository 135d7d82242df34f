from torch.distributed import broadcast
from torch.distributed.device_mesh import init_device_mesh


def share(batch, hosts):
    mesh = init_device_mesh("cuda", (hosts, 8), mesh_dim_names=("data", "tensor"))
    tensor_group = mesh.get_group("tensor")
    broadcast(batch, src=0, group=tensor_group)  # expect: DC715
    return batch
