import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    count = torch.cuda.device_count()
    local_rank = dist.get_rank() % count  # expect: DC212
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(4, 4).to(f"cuda:{local_rank}")
    print(model.weight.shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
