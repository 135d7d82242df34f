import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.hub.load("/models/vision", "resnet50", source="local")
    dist.destroy_process_group()
    return model


if __name__ == "__main__":
    main()
