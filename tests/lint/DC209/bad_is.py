import os

import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    if os.environ["RANK"] is 0:  # expect: DC209
        print("main process")
    rank = os.environ["LOCAL_RANK"]
    kind = "first" if rank == 0 else "other"  # expect: DC209
    print(kind)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
