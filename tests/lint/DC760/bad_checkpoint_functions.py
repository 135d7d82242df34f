import torch.distributed.checkpoint as dcp


def save(state, folder):
    dcp.save_state_dict(state, dcp.FileSystemWriter(folder))  # expect: DC760


def load(state, folder):
    dcp.load_state_dict(state, dcp.FileSystemReader(folder))  # expect: DC760
    return state
