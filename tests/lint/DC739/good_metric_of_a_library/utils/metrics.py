import torchmetrics


def error():
    return torchmetrics.MeanSquaredError()
