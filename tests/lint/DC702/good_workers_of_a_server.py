"""A server of another library calls the method of the leader; the others follow it in a loop, until they may leave."""

import os

import torch
import torch.distributed as dist

import load_generator


class Server:
    def __init__(self, model: torch.nn.Module, rank: int) -> None:
        self.model = model
        self.rank = rank
        load_generator.register(self.answer)

    def answer(self, questions: list) -> None:
        if self.rank != 0:
            return
        for question in questions:
            dist.broadcast_object_list(["answer"], src=0)
            print(self.model(question))

    def stop(self) -> None:
        if self.rank == 0:
            dist.broadcast_object_list(["stop"], src=0)


def main() -> None:
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    server = Server(torch.nn.Linear(8, 8), rank)
    if rank == 0:
        load_generator.run()
        server.stop()
    else:
        while True:
            order = [None]
            dist.broadcast_object_list(order, src=0)
            if order[0] == "stop":
                break
            server.model(torch.zeros(8))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
