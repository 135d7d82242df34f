import wandb as wb


def start_tracking(name):
    return wb.init(project=name)  # expect: DC721=warning
