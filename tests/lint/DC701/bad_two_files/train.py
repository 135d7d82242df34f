import comm
import torch.distributed as dist
from comm import gather_losses, is_first


def epoch(number: int) -> None:
    loss = 1.0 / (number + 1)
    if is_first():
        print("losses", gather_losses(loss))  # expect: DC701
    if comm.is_first() and number > 3:
        comm.synchronize()  # expect: DC701


def main() -> None:
    dist.init_process_group("gloo")
    for number in range(5):
        epoch(number)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
