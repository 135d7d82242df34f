import unittest

import torch.distributed as dist


class ExitTest(unittest.TestCase):
    def test_exit(self) -> None:
        dist.init_process_group("gloo")
        if dist.get_rank() != 0:
            return
        dist.barrier()  # expect: DC702=warning
