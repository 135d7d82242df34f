import torch.distributed.launch as launch  # expect: DC801


def start(arguments):
    launch.main(arguments)
