import comm
import torch.distributed as dist


def main():
    comm.setup()
    dist.barrier()


if __name__ == "__main__":
    main()
