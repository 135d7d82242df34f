import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
