import os

import torch
import torch.distributed as dist


class Writer:
    def __init__(self, tables):
        self._tables = tables

    def write(self, folder, weights):
        for table, weight in zip(self._tables, weights):
            torch.save({"weights": weight}, os.path.join(folder, name_of(table)))  # expect: DC720


def name_of(table):
    return f"table.{table}.pt"


def main(step):
    dist.init_process_group("gloo")
    parts = {"tables": [[0, 1], [2, 3]]}
    writer = Writer(tables=parts["tables"][0])
    writer.write("out", [torch.ones(2), torch.ones(2)])
    dist.destroy_process_group()


main(0)
