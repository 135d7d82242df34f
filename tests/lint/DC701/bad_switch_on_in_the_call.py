import torch
import torch.distributed as dist


def evaluate(values: list, distributed: bool = False) -> torch.Tensor:
    total = torch.stack(values).sum()
    if distributed:
        dist.all_reduce(total)
    return total


def main() -> None:
    dist.init_process_group("gloo")
    values = [torch.ones(1)]
    print(evaluate(values, True))
    if dist.get_rank() == 0:
        print(evaluate(values, distributed=True))  # expect: DC701
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
