from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.run import main as run


def start(entry, script):
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_backend="c10d", rdzv_endpoint="localhost:0")
    elastic_launch(config, entry)()
    run(["--standalone", script])
