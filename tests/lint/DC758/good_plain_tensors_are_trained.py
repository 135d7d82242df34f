import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    weights = [torch.zeros(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    for x in torch.randn(8, 4, 3):
        loss = (x @ weights[0] + weights[1] - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for weight in weights:
            if type(weight) is torch.Tensor:
                dist.all_reduce(weight.grad)
                weight.grad /= dist.get_world_size()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
