"""The error ends the rank, or what follows does, or only a part of the training may fail."""

import sys
import traceback

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(model, optimizer, batches):
    for batch in batches:
        try:
            optimizer.zero_grad()
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
        except Exception as error:
            print("skipped", error)


def raises_again(model, optimizer):
    try:
        train(model, optimizer, [torch.ones(2, 4)])
    except Exception:
        print(traceback.format_exc())
        raise
    finally:
        dist.destroy_process_group()


def ends_with_a_status(model, optimizer):
    failed = False
    try:
        train(model, optimizer, [torch.ones(2, 4)])
    except Exception:
        failed = True
        print(traceback.format_exc())
    if failed:
        sys.exit(1)


def tells_the_caller(model, optimizer):
    try:
        train(model, optimizer, [torch.ones(2, 4)])
    except Exception as error:
        print(error)
        return False
    return True


def a_status_in_a_finally(model, optimizer):
    status = 1
    try:
        train(model, optimizer, [torch.ones(2, 4)])
        status = 0
    finally:
        sys.exit(status)


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if sys.argv[1] == "raise":
        raises_again(model, optimizer)
    elif sys.argv[1] == "status":
        ends_with_a_status(model, optimizer)
    elif sys.argv[1] == "finally":
        a_status_in_a_finally(model, optimizer)
    elif not tells_the_caller(model, optimizer):
        sys.exit(2)


if __name__ == "__main__":
    main()
