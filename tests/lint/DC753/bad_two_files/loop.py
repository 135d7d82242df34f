from torch.nn import utils


def optimise(network, optimizer, batch):
    network(batch).mean().backward()
    weights = network.parameters()
    utils.clip_grad_norm_(weights, 1.0)  # expect: DC753
    optimizer.step()
    optimizer.zero_grad()
