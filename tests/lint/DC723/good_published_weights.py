import os

import torch
import torch.distributed as dist
import torchvision
from huggingface_hub import hf_hub_download

WEIGHTS = "weights/inception_features.pth"


def features():
    model = torchvision.models.inception_v3()
    weights = torch.load(WEIGHTS)
    model.load_state_dict(weights)
    return model


def next_to_the_code(model):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lpips_vgg.pth")
    model.load_state_dict(torch.load(path))


def from_the_hub(model):
    path = hf_hub_download(repo_id="somebody/something", filename="model.bin")
    model.load_state_dict(torch.load(path))


def main():
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = features()
    next_to_the_code(model)
    from_the_hub(model)
    dist.destroy_process_group()


main()
