import torch
import torch.distributed as dist


class Trainer:
    def __init__(self) -> None:
        self.is_main = dist.get_rank() == 0
        self.history = []

    def end_epoch(self, metric: torch.Tensor) -> None:
        """Keep the best metric; only the main process has one."""
        if dist.is_initialized() and not self.is_main:
            return None
        self.history.append(metric.item())
        if len(self.history) > 1:
            dist.broadcast(metric, src=0)  # expect: DC702=warning
        return None


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().end_epoch(torch.ones(1))
    dist.destroy_process_group()
