from pathlib import Path

import torch.distributed as dist


def share_settings(folder: Path) -> str:
    target = folder / "settings.txt"
    if dist.get_rank() == 0:
        target.write_text("depth=4")
    return target.read_text()  # expect: DC724


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(share_settings(Path("run")))
    dist.destroy_process_group()
