import torch.distributed as dist


def serve() -> None:
    message = [None]
    while True:
        if dist.get_rank() == 0:
            text = input("prompt: ")
            if not text:
                continue
            message = [text]
        dist.broadcast_object_list(message, src=0)
        print(message[0])
