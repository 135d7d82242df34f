"""Every name is imported under another one."""

from torch.cuda import set_device as bind
from torch.distributed import barrier, destroy_process_group
from torch.distributed import get_rank as who_am_i
from torch.distributed import init_process_group as start


def main():
    start(backend="nccl")
    me = who_am_i()
    bind(me)  # expect: DC201=info
    barrier()
    destroy_process_group()


if __name__ == "__main__":
    main()
