"""Tiny synthetic data in the forms that training scripts read."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

_WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "sees",
    "likes",
    "finds",
    "big",
    "small",
    "red",
    "old",
    "house",
    "tree",
    "river",
    "and",
    "near",
    "under",
    "over",
    "with",
]


def png(path: Path, size: tuple[int, int] = (32, 32), *, seed: int = 0, classes: int = 0) -> Path:
    """Write an image of random colors, width by height; with ``classes``, a gray one of the numbers below it."""
    width, height = size
    generator = random.Random(f"{seed} {path.name}")
    if classes:
        rows = [bytes(generator.randrange(classes) for _ in range(width)) for _ in range(height)]
    else:
        rows = [generator.randbytes(3 * width) for _ in range(height)]
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if classes else 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows), 1)), (b"IEND", b""))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks))
    return path


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def image_folder(
    folder: Path, *, classes: int = 2, images: int = 16, size: tuple[int, int] = (64, 64), names: Sequence[str] = ()
) -> None:
    """A folder of images for each class, as torchvision's ``ImageFolder`` reads it."""
    for number in range(classes):
        name = names[number] if names else f"class{number}"
        for image in range(images):
            png(folder / name / f"{name}_{image}.png", size, seed=number)


def imagenet(folder: Path, *, classes: int = 2, images: int = 16, size: tuple[int, int] = (64, 64)) -> None:
    """``train`` and ``val``, each an image folder."""
    for part in ("train", "val"):
        image_folder(folder / part, classes=classes, images=images, size=size)


def mnist(folder: Path, *, images: int = 200, name: str = "MNIST") -> None:
    """Its four files as torchvision keeps them: ``MNIST/raw`` in ``folder``; also ``FashionMNIST``."""
    generator = random.Random(0)
    root = folder / name / "raw"
    root.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        pixels = generator.randbytes(images * 784)
        labels = bytes(number % 10 for number in range(images))
        (root / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, images, 28, 28) + pixels)
        (root / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, images) + labels)


def coco(folder: Path, *, images: int = 16, size: tuple[int, int] = (96, 96)) -> None:
    """COCO 2017 with boxes and outlines: ``train2017``, ``val2017`` and ``annotations``."""
    generator = random.Random(0)
    categories = [{"id": number, "name": f"class{number}", "supercategory": "thing"} for number in (1, 2, 3)]
    for part in ("train2017", "val2017"):
        pictures, boxes = [], []
        for image in range(1, images + 1):
            path = png(folder / part / f"{image:012}.png", size, seed=image)
            pictures.append({"id": image, "file_name": path.name, "width": size[0], "height": size[1]})
            for _ in range(2):
                x, y, width, height = (generator.randrange(8, 40) for _ in range(4))
                outline = [x, y, x + width, y, x + width, y + height, x, y + height]
                box = {"id": len(boxes) + 1, "image_id": image, "category_id": generator.randrange(1, 4), "iscrowd": 0}
                boxes.append({**box, "bbox": [x, y, width, height], "area": width * height, "segmentation": [outline]})
        path = folder / "annotations" / f"instances_{part}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"images": pictures, "annotations": boxes, "categories": categories}))


def flying_chairs(folder: Path, *, pairs: int = 24, size: tuple[int, int] = (160, 128)) -> None:
    """Pairs of images and the flow between them, as FlyingChairs has them in one folder."""
    flow = struct.pack("<fii", 202021.25, *size) + struct.pack("<f", 1.0) * (2 * size[0] * size[1])
    for number in range(1, pairs + 1):
        for image in (1, 2):
            path = png(folder / f"{number:05}_img{image}.png", size, seed=number)
            # readers open it as what it holds
            path.rename(path.with_suffix(".ppm"))
        (folder / f"{number:05}_flow.flo").write_bytes(flow)


def text(path: Path, *, lines: int = 400, words: int = 12) -> Path:
    """Write lines of random words."""
    generator = random.Random(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(" ".join(generator.choices(_WORDS, k=words)) + ".\n" for _ in range(lines)))
    return path


def weights(folder: Path, file: str, model: str) -> None:
    """Random weights of a torchvision model, where ``torch.hub`` keeps downloads; ``folder`` is ``TORCH_HOME``."""
    import torch
    import torchvision

    path = folder / "hub" / "checkpoints" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(getattr(torchvision.models, model)().state_dict(), path)


def tiny_gpt2(folder: Path) -> None:
    """A GPT-2 of two small layers with random weights and a tokenizer of bytes, as transformers saves them."""
    import transformers

    words = _byte_tokenizer(folder)
    shape = transformers.GPT2Config(vocab_size=words, n_positions=256, n_embd=32, n_layer=2, n_head=2)
    transformers.GPT2LMHeadModel(shape).save_pretrained(folder)


def tiny_llama(folder: Path, kind: str = "Llama") -> None:
    """A Llama, or a model with the same options (``Qwen2``), of two small layers, like :func:`tiny_gpt2`."""
    import transformers

    words = _byte_tokenizer(folder)
    shape = getattr(transformers, f"{kind}Config")(
        vocab_size=words, max_position_embeddings=256, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, bos_token_id=words - 1, eos_token_id=words - 1,
    )  # fmt: skip
    getattr(transformers, f"{kind}ForCausalLM")(shape).save_pretrained(folder)


def tiny_bert(folder: Path) -> None:
    """A BERT of two small layers with random weights and a tokenizer of whole words."""
    import transformers

    folder.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    shape = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2
    )
    transformers.BertForMaskedLM(shape).save_pretrained(folder)


def _byte_tokenizer(folder: Path) -> int:
    """Save a tokenizer of bytes and return the number of its tokens."""
    import transformers

    folder.mkdir(parents=True)
    symbols = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    tokens = {symbol: number for number, symbol in enumerate([*symbols, "<|endoftext|>"])}
    (folder / "vocab.json").write_text(json.dumps(tokens))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    transformers.GPT2Tokenizer(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)
    return len(tokens)


def tiny_t5(folder: Path, words: Iterable[str]) -> None:
    """A T5 of two small layers with random weights and a tokenizer of whole words, as transformers saves them."""
    import tokenizers
    import transformers

    known = {word: number for number, word in enumerate(["<pad>", "</s>", "<unk>", *sorted(set(words))])}
    whole = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    whole.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.T5TokenizerFast(tokenizer_object=whole, extra_ids=0).save_pretrained(folder)
    shape = transformers.T5Config(
        vocab_size=len(known), d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    transformers.T5ForConditionalGeneration(shape).save_pretrained(folder)


def stand_in(folder: Path, name: str, *classes: str) -> None:
    """A package with empty classes, for one that a script imports and does not use: ``openai.openai_object``."""
    for part in (folder.joinpath(*name.split(".")[: depth + 1]) for depth in range(name.count(".") + 1)):
        part.mkdir(parents=True, exist_ok=True)
        (part / "__init__.py").touch()
    (part / "__init__.py").write_text("".join(f"class {one}: pass\n" for one in classes))
