import torch
import torch.distributed as dist
import torch.nn as nn


def average_gradients(model):
    for param in model.parameters():
        if param.grad is not None:
            dist.all_reduce(param.grad)
            param.grad.div_(dist.get_world_size())


def train(model, optimizer, steps, log_every=2):
    for step in range(steps):
        x = torch.randn(4, 6)
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        if step % log_every == 0 and dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.4f}")
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.Linear(6, 2)
    torch.manual_seed(100 + dist.get_rank())
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
