"""Other libraries' collectives return what they computed."""
import horovod.torch as hvd
from mpi4py import MPI

comm = MPI.COMM_WORLD


def mean_loss(loss):
    loss = hvd.allreduce(loss, name="loss")
    return loss.item() / 1.0


def total(count):
    count = comm.allreduce(count, op=MPI.SUM)
    return count + 1


class Step:
    def __init__(self, fabric):
        self.fabric = fabric

    def __call__(self, loss):
        return self.fabric.all_reduce(loss).item() * 2
