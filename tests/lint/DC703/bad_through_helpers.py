import torch
import torch.distributed as dist


def publish(box: list) -> None:
    dist.broadcast_object_list(box, src=0)
    dist.barrier()


def receive(box: list) -> None:
    dist.broadcast_object_list(box, src=0)


def main() -> None:
    dist.init_process_group("gloo")
    box = [None]
    if dist.get_rank() == 0:
        box[0] = {"depth": 4}
        publish(box)  # expect: DC703
    else:
        receive(box)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
