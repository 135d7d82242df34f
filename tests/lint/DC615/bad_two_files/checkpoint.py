import torch


def save_model(model, path):
    torch.save(model, path)  # expect: DC615
