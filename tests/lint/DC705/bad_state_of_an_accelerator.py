from accelerate import Accelerator


def save(accelerator, step):
    accelerator.save_state(f"state-{step}")  # expect: DC705=info


def main():
    accelerator = Accelerator()
    for step in range(100):
        if accelerator.is_main_process:
            accelerator.save_state("last")  # expect: DC705=info
            save(accelerator, step)


if __name__ == "__main__":
    main()
