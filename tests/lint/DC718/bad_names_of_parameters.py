import torch
import torch.distributed as dist


def average(model):
    shared = set()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            shared.add(name)
    parameters = dict(model.named_parameters())
    for name in shared:
        dist.all_reduce(parameters[name].data)  # expect: DC718


def main():
    dist.init_process_group("gloo")
    average(torch.nn.Linear(4, 4))
    dist.destroy_process_group()
