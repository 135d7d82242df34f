"""The call tries what the backend can do: all ranks have the same backend, and fall back alike."""

import torch
import torch.distributed as dist


def supports_all_to_all() -> bool:
    supported = False
    try:
        tensor = torch.zeros(4)
        dist.all_to_all_single(tensor, tensor)
        supported = True
    except RuntimeError as error:
        print("no all_to_all_single", error)
    return supported


def serve(answer) -> None:
    while True:
        try:
            question = [None]
            dist.broadcast_object_list(question, src=0)
            answer(question[0])
        except Exception:
            pass


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(supports_all_to_all())
    serve(print)
