import deepspeed
import torch


def main() -> None:
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model, optimizer=optimizer, config={"train_micro_batch_size_per_gpu": 8}
    )
    for _ in range(10):
        loss = engine(torch.randn(8, 16, device=engine.device)).mean()
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
