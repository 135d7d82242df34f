"""Only the source calls broadcast, as if it were a send."""

import torch.distributed as dist


def choose_run_name() -> str:
    names = [None]
    if dist.get_rank() == 0:
        names = ["run-17"]
        dist.broadcast_object_list(names, src=0)  # expect: DC701
    return names[0] or "unknown"


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(choose_run_name())
    dist.destroy_process_group()
