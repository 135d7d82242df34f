import torch
import torch.distributed as dist


def is_main_process() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


class Logger:
    def __init__(self) -> None:
        self.totals = torch.zeros(2)

    def flush(self) -> None:
        if not is_main_process():
            return
        dist.all_reduce(self.totals)  # expect: DC702
        print(self.totals)


def main() -> None:
    dist.init_process_group("gloo")
    logger = Logger()
    logger.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
