"""The body of a try returns under a condition, or its end runs in any case."""

import torch
import torch.distributed as dist


def train(model):
    try:
        for batch in torch.ones(3, 1, 2):
            if batch.isnan().any():
                return
            model(batch).sum().backward()
    except RuntimeError as error:
        print(error)
    torch.save(model.state_dict(), "last.pt")  # expect: DC720


def evaluate(model):
    try:
        model(torch.ones(1, 2))
        return
    finally:
        torch.save(model.state_dict(), "evaluated.pt")  # expect: DC720


def main():
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    train(model)
    evaluate(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
