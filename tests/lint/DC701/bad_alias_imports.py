import torch
import torch.distributed as c10d
from torch.distributed import ReduceOp, barrier as wait_for_all, get_rank as my_rank


def summarize(values: torch.Tensor) -> None:
    me = my_rank()
    if me == 0:
        c10d.all_reduce(values, op=ReduceOp.MAX)  # expect: DC701
        print(values)
    if 0 == me:
        wait_for_all()  # expect: DC701


def main() -> None:
    c10d.init_process_group(backend="gloo")
    summarize(torch.zeros(4))
    c10d.destroy_process_group()


if __name__ == "__main__":
    main()
