import torch.distributed as dist


def checkpoint(step: int, rank: int) -> None:
    rank == 0 and dist.barrier()  # expect: DC701
    rank != 0 or print("saved", step)


def leave(rank: int) -> None:
    done = rank != 0 or dist.barrier() is None  # expect: DC701
    print(done)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    checkpoint(10, dist.get_rank())
    leave(dist.get_rank())
    dist.destroy_process_group()
