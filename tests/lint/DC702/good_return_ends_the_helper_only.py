import torch
import torch.distributed as dist


def write(state: dict, path: str) -> None:
    if dist.get_rank() != 0:
        return
    torch.save(state, path)


def train(epochs: int) -> None:
    for epoch in range(epochs):
        write({"epoch": epoch}, f"epoch-{epoch}.pt")
        dist.barrier()


def save_all(states: list) -> None:
    def one(state: dict) -> None:
        if dist.get_rank() != 0:
            return
        print(len(state))

    for state in states:
        one(state)
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(2)
    save_all([{}])
    dist.destroy_process_group()
