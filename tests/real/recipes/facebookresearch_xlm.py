"""A masked language model under Slurm, which gives each task its rank; it waits for a signal of Slurm to save."""

import sys
from pathlib import Path
from types import ModuleType

from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="facebookresearch/XLM",
    commit="cd281d32612d145c6742b4d3f048f80df8669c30",
    script="train.py",
    kind="language",
    launcher=("srun", "python"),
    arguments=(
        "--master_port=10001",
        "--exp_name=small",
        "--exp_id=0",
        "--dump_path=dumped",
        "--data_path={data}",
        "--lgs=en",
        "--clm_steps=",
        "--mlm_steps=en",
        "--emb_dim=32",
        "--n_layers=2",
        "--n_heads=2",
        "--batch_size=4",
        "--bptt=16",
        "--optimizer=adam,lr=0.0001",
        "--epoch_size=64",
        "--max_epoch=2",
        "--validation_metrics=_valid_en_mlm_ppl",
    ),
    # apex is only used with --fp16; its data are pickles that torch.load has not read without this since 2.6
    variables=(("PYTHONPATH", "{data}/stand_in"), ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")),
    install=("numpy",),
    no_cpu="it binds a GPU",
    # it calls inspect.getargspec, which Python 3.11 has no more
    ends="xlm/optim.py:264",
    steps=0,
    findings=(
        Judged("DC720", "xlm/utils.py:55", True, "all ranks open one params.pkl for writing, right after another"),
    ),
)


def make_data(folder: Path) -> None:
    """Token numbers with their dictionary, an object of its class, as its preprocessing saves them."""
    import numpy
    import torch

    from tests.real import made_data

    made_data.stand_in(folder / "stand_in", "apex")
    words = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10))]
    words += [f"word{number}" for number in range(50)]
    dictionary = type("Dictionary", (), {"__module__": "xlm.data.dictionary"})
    modules = {name: ModuleType(name) for name in ("xlm", "xlm.data", "xlm.data.dictionary")}
    vars(modules["xlm.data.dictionary"])["Dictionary"] = dictionary
    known = dictionary()
    vars(known).update(
        id2word=dict(enumerate(words)),
        word2id={word: number for number, word in enumerate(words)},
        counts=dict.fromkeys(words, 1),
        bos_index=0,
        eos_index=1,
        pad_index=2,
        unk_index=3,
    )
    generator = numpy.random.default_rng(0)
    rows = generator.integers(14, len(words), (400, 12)).astype(numpy.uint16)
    rows[:, -1] = 1
    starts = numpy.arange(400, dtype=numpy.int64) * 12
    data = {
        "dico": known,
        "positions": numpy.stack([starts, starts + 11], 1),
        "sentences": rows.reshape(-1),
        "unk_words": {},
    }
    sys.modules.update(modules)
    try:
        for part in ("train", "valid", "test"):
            torch.save(data, folder / f"{part}.en.pth", pickle_protocol=4)
    finally:
        for name in modules:
            del sys.modules[name]
