import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    if dist.get_rank() == 0:
        torch.hub.load("pytorch/vision", "resnet50")
        torch.hub.load_state_dict_from_url("https://example.org/model.pth")
    dist.barrier()
    model = torch.hub.load("pytorch/vision", "resnet50")
    local = torch.hub.load("/models/vision", "resnet50", source="local")
    model.load_state_dict(torch.hub.load_state_dict_from_url("https://example.org/model.pth"))
    dist.destroy_process_group()
    return local


if __name__ == "__main__":
    main()
