import torch.distributed as dist


def hello() -> None:
    match dist.get_rank():
        case 0:
            print("first")
            dist.barrier()  # expect: DC701
        case _:
            print("other")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    hello()
    dist.destroy_process_group()
