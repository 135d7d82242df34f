import torch.distributed as dist
from torch.distributed import _get_global_rank  # expect: DC760


def main():
    dist.init_process_group("gloo")
    group = dist.new_group([0, 1])
    print(_get_global_rank(group, 0))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
