import torch
import torch.distributed as dist


def send_settings(settings: dict) -> dict:
    size = torch.tensor([len(settings)])
    dist.broadcast(size, 0)
    return settings


def receive_settings() -> dict:
    size = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(size, 0)
    return {str(number): None for number in range(int(size))}


def main() -> None:
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        settings = send_settings({"depth": 12})
    else:
        settings = receive_settings()
    print(settings)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
