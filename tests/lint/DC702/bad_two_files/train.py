import torch.distributed as dist
from checkpoint import save


def main() -> None:
    dist.init_process_group("gloo")
    save({"step": 1}, "state.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
