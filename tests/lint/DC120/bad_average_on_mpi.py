import torch
import torch.distributed as dist


def main():
    dist.init_process_group("mpi")
    loss = torch.rand(1)
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)  # expect: DC120
    print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
