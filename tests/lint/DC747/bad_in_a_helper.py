import torch.distributed as dist


def connect():
    dist.init_process_group("gloo")


def who_am_i():
    try:
        connect()  # expect: DC747
        return dist.get_rank(), dist.get_world_size()
    except:  # noqa: E722
        return 0, 1


if __name__ == "__main__":
    print(who_am_i())
