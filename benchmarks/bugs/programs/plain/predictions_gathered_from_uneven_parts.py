import torch
import torch.distributed as dist
import torch.nn as nn


def gather(tensor):
    """All ranks' tensors, one after the other."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.cat(parts)


@torch.inference_mode()
def predict(model, samples, rank, world_size):
    predictions = []
    for index in range(rank, len(samples), world_size):
        predictions.append(model(samples[index]))
    return torch.stack(predictions)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    samples = torch.randn(7, 3)
    everything = gather(predict(model, samples, rank, world_size))
    if rank == 0:
        print(everything.shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
