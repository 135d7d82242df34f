import threading

import torch
import torch.distributed as dist


class MetricThread:
    """Sums metrics in the background; the events stand for what a scheduler of threads may do."""

    def __init__(self, rank):
        self.begin, self.reduced = threading.Event(), threading.Event()
        self.value = torch.tensor([float(rank), 1.0])
        self.thread = threading.Thread(target=self.run)

    def run(self):
        self.begin.wait()
        dist.all_reduce(self.value)
        self.reduced.set()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    metric = MetricThread(rank)
    metric.thread.start()
    gradient = torch.full((5,), float(rank))
    if rank == 0:
        metric.begin.set()
        metric.reduced.wait(60)
        dist.all_reduce(gradient)
    else:
        dist.all_reduce(gradient)
        metric.begin.set()
    metric.thread.join()
    print(f"rank {rank} gradient {gradient[0].item():.1f} metric {metric.value[0].item():.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
