import torch.distributed as dist


def main():
    dist.init_process_group(backend="nccl", init_method="env://")
    print(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
