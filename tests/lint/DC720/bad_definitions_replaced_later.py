import torch
import torch.distributed as dist


def keep(state):
    torch.save(state, "best.pt")  # expect: DC720


def train(model):
    dist.init_process_group("gloo")
    keep(model.state_dict())
    dist.destroy_process_group()


train(torch.nn.Linear(2, 2))


def keep(state):  # noqa: F811
    if dist.get_rank() == 0:
        torch.save(state, "best.pt")


def put(state):
    if dist.get_rank() == 0:
        torch.save(state, "last.pt")


def again(model):
    dist.init_process_group("gloo")
    put(model.state_dict())
    dist.destroy_process_group()


def put(state):  # noqa: F811
    torch.save(state, "last.pt")  # expect: DC720


again(torch.nn.Linear(2, 2))
