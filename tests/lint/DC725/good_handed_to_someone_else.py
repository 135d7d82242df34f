import ray
import torch
import torch.distributed as dist
from torchvision.datasets import MNIST


@ray.remote
class Worker:
    def setup(self, rank, world_size, address):
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world_size)

    def size(self):
        size = torch.tensor([len(MNIST("data"))])
        dist.all_reduce(size)
        dist.destroy_process_group()
        return size.item()


def main():
    # the driver, one process
    MNIST("data", download=True)
    workers = [Worker.remote() for _ in range(4)]
    ray.get([worker.setup.remote(rank, 4, "file:///tmp/init") for rank, worker in enumerate(workers)])
    return ray.get([worker.size.remote() for worker in workers])


if __name__ == "__main__":
    main()
