import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.hub.load("pytorch/vision", "resnet50")  # expect: DC725
    # each rank fetches the file under a name of its own first
    weights = torch.hub.load_state_dict_from_url("https://example.org/model.pth")  # expect: DC725=info
    model.load_state_dict(weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
