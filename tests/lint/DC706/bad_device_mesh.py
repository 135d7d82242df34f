import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def main() -> None:
    dist.init_process_group("gloo")
    if dist.get_rank() < 4:
        mesh = init_device_mesh("cpu", (2, 2))  # expect: DC706
        print(mesh)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
