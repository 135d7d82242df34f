"""These functions share their names with collectives and talk to nobody."""

import torch
import torch.distributed as dist


def all_reduce(values: list) -> float:
    return sum(values) / max(len(values), 1)


class Gate:
    def barrier(self) -> None:
        print("gate closed")

    def gather(self) -> list:
        return []


def main() -> None:
    dist.init_process_group("gloo")
    gate = Gate()
    losses = torch.arange(4).gather(0, torch.zeros(1, dtype=torch.int64)).tolist()
    if dist.get_rank() == 0:
        print(all_reduce(losses), gate.gather())
        gate.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
