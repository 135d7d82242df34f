"""Methods that end in an underscore work in place and return the tensor itself; so do views."""
import torch.distributed as dist


def average(gradients):
    for tensor in gradients:
        dist.all_reduce(tensor.div_(dist.get_world_size()))
        dist.broadcast(tensor.clamp_(min=0), src=0)


def average_parameters(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad.data)
        dist.all_reduce(parameter.data.view(-1))
        dist.all_reduce(parameter.detach())
        dist.all_reduce(parameter.grad.detach().flatten())
