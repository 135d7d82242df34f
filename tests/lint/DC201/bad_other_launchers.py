"""MPI and Ray count over all hosts as well."""

import torch
from mpi4py import MPI
from ray import train

torch.cuda.set_device(MPI.COMM_WORLD.Get_rank())  # expect: DC201=info


def work(settings):
    context = train.get_context()
    torch.cuda.set_device(context.get_world_rank())  # expect: DC201=info
    torch.cuda.set_device(context.get_local_rank())
    print(settings)
