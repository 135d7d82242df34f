import click
import torch
import torch.distributed as dist


@click.command()
@click.option("--epochs", default=10)
@click.option("--local_rank", default=0, type=int)  # expect: DC207
def train(epochs, local_rank):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    for _ in range(epochs):
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
