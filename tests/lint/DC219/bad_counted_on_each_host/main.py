import torch.distributed as dist
from options import get_options


def main():
    options = get_options()
    dist.init_process_group(
        "gloo",
        init_method=options.address,
        world_size=options.processes,
        rank=options.local_rank,  # expect: DC219
    )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
