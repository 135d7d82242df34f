import torch.distributed as dist


def make_monitor_group() -> dist.ProcessGroup | None:
    if dist.get_rank() != 0:
        return None
    return dist.new_group([0], backend="gloo")  # expect: DC706


if __name__ == "__main__":
    dist.init_process_group("gloo")
    make_monitor_group()
    dist.destroy_process_group()
