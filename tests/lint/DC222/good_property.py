import torch.distributed as dist


class Trainer:
    @property
    def is_main_process(self) -> bool:
        return dist.get_rank() == 0

    def log(self, text: str) -> None:
        if self.is_main_process:
            print(text)
