import torch
import torch.distributed as dist


class Meter:
    def __init__(self, size):
        self.values = torch.zeros(size)
        self.total = None

    def add(self, value):
        self.values += value

    def close(self):
        if self.total is None:
            self.total = self.values.clone()
            dist.all_reduce(self.total)

    def __del__(self):
        self.close()


def report(meters, rank):
    if rank == 0:
        best = meters["accuracy"]
        print(f"best {best.values.max().item():.2f}")
        del best


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    meters = {"accuracy": Meter(3), "loss": Meter(1)}
    for step in range(4):
        meters["accuracy"].add(torch.full((3,), 0.1 * step))
        meters["loss"].add(1.0 / (1 + step))
    report(meters, rank)
    value = torch.tensor([float(rank)])
    dist.all_reduce(value)
    for name in sorted(meters):
        meters[name].close()
    print(f"rank {rank} value {value.item():.1f}")
    meters.clear()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
