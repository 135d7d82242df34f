"""The main thread waits for the thread, or the thread has a group of its own."""

import threading

import torch
import torch.distributed as dist


def shared(value: torch.Tensor) -> None:
    dist.all_reduce(value)


def apart(value: torch.Tensor, group: dist.ProcessGroup) -> None:
    dist.all_reduce(value, group=group)


def main() -> None:
    dist.init_process_group("gloo")
    group = dist.new_group()
    threading.Thread(target=apart, args=(torch.ones(1), group), daemon=True).start()
    one = threading.Thread(target=shared, args=(torch.ones(1),))
    one.start()
    one.join()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
