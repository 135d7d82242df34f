"""Somebody else waits for these."""
import torch.distributed as dist


class Reducer:
    def __init__(self):
        self.handle = None
        self.handles = {}
        self.pending = []

    def start(self, name, bucket):
        self.handle = dist.all_reduce(bucket, async_op=True)
        self.handles[name] = dist.all_reduce(bucket, async_op=True)
        self.pending += [dist.all_reduce(bucket, async_op=True)]

    def finish(self):
        self.handle.wait()
        for handle in list(self.handles.values()) + self.pending:
            handle.wait()


def begin(bucket):
    return dist.all_reduce(bucket, async_op=True)


def begin_both(bucket, other):
    first = dist.all_reduce(bucket, async_op=True)
    second = dist.broadcast(other, src=0, async_op=True)
    return first, (lambda: second.wait())


def stream(buckets):
    for bucket in buckets:
        yield bucket, dist.all_reduce(bucket, async_op=True)
