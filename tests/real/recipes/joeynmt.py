"""A translation toolkit on the toy data of its tests; starts its ranks by mp.spawn."""

from pathlib import Path

from tests.real.recipe import HUNG, Judged, Recipe

RECIPE = Recipe(
    repository="joeynmt/joeynmt",
    commit="cdc4d03d430a1b0f29793a0d95743c5e72ae2f6c",
    script="-m joeynmt",
    kind="language",
    launcher=(),
    nodes=1,
    arguments=("train", "{data}/toy.yaml", "--use-ddp", "--skip-test"),
    install=("sacrebleu", "subword-nmt", "sentencepiece", "pandas", "matplotlib", "tensorboard", "datasets==3.2.0"),
    # it reads its version from the metadata of an installed package
    variables=(("PYTHONPATH", "{data}"),),
    no_cpu="it starts a rank for each GPU",
    ends=HUNG,
    steps=2,
    findings=(
        Judged(
            "DC519",
            "joeynmt/model.py:322",
            True,
            "rank 0 alone leaves the loop when the learning rate is at its minimum, and the others go on",
        ),
    ),
)
_SIDE = """\
        max_length: 30
        level: "bpe"
        voc_limit: 400
        voc_file: "test/data/toy/bpe200.txt"
        tokenizer_type: "subword-nmt"
        tokenizer_cfg: {num_merges: 200, codes: "test/data/toy/bpe200.codes", pretokenizer: "none"}
"""
_PART = """\
        type: "transformer"
        num_layers: 1
        num_heads: 2
        embeddings: {embedding_dim: 32, scale: True}
        hidden_size: 32
        ff_size: 64
"""
_SETTINGS = f"""\
name: "toy"
joeynmt_version: "2.3.0"
model_dir: "toy_model"
use_cuda: True
fp16: False
random_seed: 42
data:
    train: "test/data/toy/train"
    dev: "test/data/toy/dev"
    dataset_type: "plain"
    src:
        lang: "de"
{_SIDE}    trg:
        lang: "en"
{_SIDE}training:
    optimizer: "adam"
    scheduling: "noam"
    batch_size: 16
    epochs: 1
    updates: 6
    validation_freq: 4
    logging_freq: 2
    shuffle: True
testing:
    beam_size: 1
    batch_size: 8
    eval_metrics: ["bleu"]
    max_output_length: 8
model:
    encoder:
{_PART}    decoder:
{_PART}"""


def make_data(folder: Path) -> None:
    (folder / "toy.yaml").write_text(_SETTINGS)
    metadata = folder / "joeynmt-2.3.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: joeynmt\nVersion: 2.3.0\n")
