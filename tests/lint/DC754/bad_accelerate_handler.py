from accelerate import Accelerator, DistributedDataParallelKwargs


def build() -> Accelerator:
    handler = DistributedDataParallelKwargs(find_unused_parameters=True)  # expect: DC754
    return Accelerator(kwargs_handlers=[handler])
