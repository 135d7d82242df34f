from torch.distributed import get_world_size


class Settings:
    batch_size = 512 // get_world_size()  # expect: DC742
    epochs = 4
