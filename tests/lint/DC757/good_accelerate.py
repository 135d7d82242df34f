import torch
from accelerate import Accelerator


def main(model, critic, loader, loss_of):
    accelerator = Accelerator()
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    own = torch.optim.Adam(critic.parameters())  # of a model that only the main process has
    for epoch in range(3):
        for batch in loader:
            accelerator.backward(loss_of(model(batch)))
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()  # expect: DC765=warning
        if accelerator.is_main_process:
            critic(torch.ones(1)).sum().backward()
            own.step()
            print(epoch)


if __name__ == "__main__":
    main(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), [torch.ones(1)], torch.sum)
