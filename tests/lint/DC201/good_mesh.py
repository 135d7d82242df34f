"""The rank along one dimension of a mesh is not the global one."""

import os

import torch
from torch.distributed.device_mesh import init_device_mesh

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
per_node = int(os.environ["LOCAL_WORLD_SIZE"])
mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]) // per_node, per_node), mesh_dim_names=("node", "gpu"))
device = torch.device("cuda", mesh.get_local_rank("gpu"))
print(torch.ones(1, device=device))
torch.distributed.destroy_process_group()
