import torch
import torch.distributed as dist
import torch.nn as nn


@torch.no_grad()
def evaluate(network: nn.Module, batches: list) -> float:
    network.eval()
    correct = 0
    for inputs, labels in batches:
        correct += int((network(inputs).argmax(-1) == labels).sum())  # expect: DC704
    return correct / len(batches)


def main() -> None:
    dist.init_process_group("gloo")
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net = nn.parallel.DistributedDataParallel(net)
    batches = [(torch.rand(2, 4), torch.zeros(2))]
    if dist.get_rank() == 0:
        print(evaluate(net, batches))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
