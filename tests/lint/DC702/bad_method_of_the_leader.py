"""The others wait in a loop for another collective than the leader makes."""

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
            dist.broadcast(question, src=0)  # expect: DC702
            print(self.model(question))


def main() -> None:
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    server = Server(torch.nn.Linear(8, 8), rank)
    if rank == 0:
        load_generator.run()
    while True:
        total = torch.zeros(8)
        dist.all_reduce(total)
        server.model(total)


if __name__ == "__main__":
    main()
