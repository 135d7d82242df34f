class DataParallel:
    """A layout, not torch's wrapper."""

    def __init__(self, degree: int) -> None:
        self.degree = degree


def layout(world_size: int) -> DataParallel:
    return DataParallel(world_size)
