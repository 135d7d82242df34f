import torch
import torch.distributed as dist


def run(batches: list, target: float, epochs: int) -> None:
    for epoch in range(epochs):
        total = torch.zeros(1)
        for batch in batches:
            part = batch.sum()
            dist.all_reduce(part)  # expect: DC702=warning
            total += part
        if dist.get_rank() == 0:
            print("total", total.item())
            if total.item() > target:
                break


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run([torch.rand(2, 4)], 10.0, 10)
    dist.destroy_process_group()
