import torch
import torch.distributed as dist

from comm import get_rank


def main():
    rank = get_rank()
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).to(rank)
    print(model.weight.device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
