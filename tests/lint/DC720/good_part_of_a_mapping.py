import os

import torch
import torch.distributed as dist


class Writer:
    def __init__(self, tables):
        self._tables = tables

    def write(self, folder, weights):
        for table, weight in zip(self._tables, weights):
            torch.save({"weights": weight}, os.path.join(folder, name_of(table)))


def name_of(table):
    return f"table.{table}.pt"


def writer_of(parts, rank):
    tables = parts["tables"][rank]
    return Writer(tables=tables)


def main():
    dist.init_process_group("gloo")
    parts = {"tables": [[0, 1], [2, 3]]}
    writer = writer_of(parts, dist.get_rank())
    writer.write("out", [torch.ones(2), torch.ones(2)])
    dist.destroy_process_group()


main()
