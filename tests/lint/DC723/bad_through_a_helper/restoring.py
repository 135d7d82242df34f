from torch import load


def restore(path, model, optimizer):
    state = load(path)  # expect: DC723
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]
