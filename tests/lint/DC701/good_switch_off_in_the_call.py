"""The helper has a collective in it, and this call says that it is not wanted."""

import torch
import torch.distributed as dist


def evaluate(values: list, distributed: bool = False, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    total = torch.stack(values).sum()
    if distributed:
        dist.all_reduce(total)
    return total


def report(values: list, *, synchronise: bool = True) -> None:
    if not synchronise:
        print(len(values))
        return
    print(evaluate(values, distributed=synchronise))


def finish(total: torch.Tensor, mode: str) -> None:
    if mode == "train" and dist.get_rank() == 0:
        dist.all_reduce(total)


def main() -> None:
    dist.init_process_group("gloo")
    values = [torch.ones(1)]
    print(evaluate(values, True))
    report(values)
    finish(values[0], "eval")
    if dist.get_rank() == 0:
        print(evaluate(values), evaluate(values, distributed=False))
        report(values, synchronise=False)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
