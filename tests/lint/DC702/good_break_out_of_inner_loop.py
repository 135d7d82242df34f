import torch
import torch.distributed as dist


def epoch(batches: list) -> None:
    main = dist.get_rank() == 0
    for batch in batches:
        for name in ("loss", "accuracy"):
            if not main:
                break
            print(name)
        dist.all_reduce(batch)
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    epoch([torch.ones(1)])
    dist.destroy_process_group()
