"""Pins of torch in requirements, setup files and environments."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck import rules
from distcheck.core.model import Fix, Severity, Where
from distcheck.core.package_pins import Newest, PackagePins, newest_in, respect_pins
from distcheck.core.rank_evidence import ACCELERATE_SINCE, SINCE, TRANSFORMERS_SINCE


@pytest.mark.parametrize(
    ("text", "path", "version", "excluded"),
    [
        ("torch==1.6.0\n", "requirements.txt", (1, 6, 0), False),
        ("numpy\ntorch == 1.7.1+cu101  # old\n", "requirements.txt", (1, 7, 1), False),
        ("torch>=1.6,<1.8\n", "requirements.txt", (1, 8), True),
        ("torch[opt]~=1.6.0; python_version < '3.9'\n", "requirements.txt", (1, 7), True),
        ("torch~=1.6\n", "requirements.txt", (2,), True),
        ("torch==2.0.1\nhorovod[pytorch]==0.24.3\n", "requirements.txt", (2, 0, 1), False),
        ("setup(install_requires=['torch==2.1.2', 'x'])", "setup.py", (2, 1, 2), False),
        ('dependencies = ["torch<=1.13"]', "pyproject.toml", (1, 13), False),
        ('torch = "1.13.1"', "pyproject.toml", (1, 13, 1), False),
        ('torch = "^1.13"', "pyproject.toml", (2, 0), True),
        ("dependencies:\n  - pytorch=1.9.0=py3.7_cuda11.1\n", "environment.yml", (1, 9, 0), False),
        (
            "channels:\n  - pytorch\n\n  - defaults\ndependencies:\n  - pytorch=1.12\n",
            "environment.yml",
            (1, 12),
            False,
        ),
        ("channels: [pytorch]\ndependencies:\n- pytorch=1.12\n", "environment.yml", (1, 12), False),
        ("  - pytorch::pytorch=1.12\n", "environment.yml", (1, 12), False),
        ("install_requires =\n    torch<2\n", "setup.cfg", (2,), True),
        (
            "# Setup\n```\n$ conda install pytorch==1.7.1 cudatoolkit=10.1 -c pytorch\n```\n",
            "README.md",
            (1, 7, 1),
            False,
        ),
        ("We train with `torch==1.13.1` and CUDA 11.7.\n", "README.md", (1, 13, 1), False),
        ("Written for [PyTorch 1.7](https://x.example/torch/1.7.0), and others.\n", "README.md", (1, 7), False),
        ("## Needs\n\n- Python 3.10\n- PyTorch==2.1.0\n- numpy\n", "README.md", (2, 1, 0), False),
        ("```\npytorch==2.1.0\ntransformers==4.41.1\n```\n", "README.md", (2, 1, 0), False),
        ("## Dependencies\n- python >= 3.8\n- torch 1.8.0\n- timm\n", "README.md", (1, 8, 0), False),
        ("## Dependencies\nPython 3.8<br />\nPytorch 1.8.1<br /> \nnumpy\n", "README.md", (1, 8, 1), False),
        ("This code was tested with Python 3.9.16 and PyTorch `2.3.1`.\n", "README.md", (2, 3, 1), False),
        ("Developed with pytorch==1.10.0, please use it.\n", "README.md", (1, 10, 0), False),
        (
            "We pull the image: docker pull pytorch/pytorch:1.7.1-cuda11.0-cudnn8-runtime\n",
            "readme.md",
            (1, 7, 1),
            False,
        ),
        ("* pytorch1.2.0\n* numpy\n", "README.md", (1, 2, 0), False),
        ("    conda install pytorch==1.8.0 torchvision==0.9.0\n", "SEGMENTATION.md", (1, 8, 0), False),
        ("Run `pip3 install torch==1.12.1+cu113 --extra-index-url x`.\n", "INSTALL.md", (1, 12, 1), False),
        ("FROM --platform=linux/amd64 pytorch/pytorch:1.8.1-cuda11.1-cudnn8-devel\n", "Dockerfile", (1, 8, 1), False),
        (
            "ARG PYTORCH_VERSION=1.8\nRUN conda install -y -c pytorch pytorch=${PYTORCH_VERSION} torchvision\n",
            "train.Dockerfile",
            (1, 8),
            False,
        ),
        (
            "ENV TORCH=1.13.1\nRUN apt-get update && pip install torch==$TORCH numpy\n",
            "Dockerfile.gpu",
            (1, 13, 1),
            False,
        ),
    ],
)
def test_a_bound_is_read(text: str, path: str, version: tuple[int, ...], excluded: bool) -> None:
    assert newest_in(text, path) == [Newest(version, path, excluded)]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("torch\n", "requirements.txt"),
        ("torch>=1.6\n", "requirements.txt"),
        ("torch!=1.6\n", "requirements.txt"),
        ("install_requires=['torch']", "setup.py"),
        ("conda install -c pytorch pytorch torchvision\n", "README.md"),
        ("channels:\n- pytorch\ndependencies:\n- pytorch\n", "environment.yml"),
    ],
)
def test_no_bound_allows_all(text: str, path: str) -> None:
    assert newest_in(text, path) == [None]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("torchvision>=0.7\npytorch-lightning==1.6\n# torch==1.6\n", "requirements.txt"),
        ("horovod[tensorflow,pytorch]==0.24.3\n", "requirements.txt"),
        ("name: x\nchannels:\n  - pytorch\n  - defaults\n", "environment.yml"),
        ("import torch\nfrom torch.utils import x\ny = torch.cuda\n", "setup.py"),
        ('description = "uses torch for training"', "pyproject.toml"),
        ("git+https://github.com/x/torch\n", "requirements.txt"),
        ("The results need torch==1.6.0, see torch==1.7.\n", "README.md"),
        ("Needs [PyTorch 1.7](https://x.example/torch) or newer.\n", "README.md"),
        ("Needs [PyTorch 1.7](https://x.example/torch)+.\n", "README.md"),
        ("- torch==1.6.0 gave other results\n", "README.md"),
        ("FROM ubuntu:22.04\nARG X=1.8\nRUN pip install torch torchvision -c pytorch\n", "Dockerfile"),
        ("FROM pytorch/pytorch:latest\nFROM pytorch/manylinux:2.0\n", "Dockerfile"),
        ("- torch 1.6.0 or later\n- PyTorch >= 1.6\n- torch 1.6+\n", "README.md"),
        ("Tested with PyTorch 1.8.1 and newer.\nTested on torch 1.8+\n", "README.md"),
        ("Tested with PyTorch 1.8, 2.1\nTested with torch 1.8 and 2.1, built on torch 1.8 to 2.1\n", "README.md"),
        ("Requires PyTorch 1.8. Tested with torch >= 1.8, or with the image my/pytorch/pytorch:1.8\n", "README.md"),
        ("PyTorch 1.8.1 and later\n## PyTorch 1.8.1\nPytorch 1.8.1+\n", "README.md"),
    ],
)
def test_other_words_declare_nothing(text: str, path: str) -> None:
    assert newest_in(text, path) == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("timm==0.3.2\n", (1, 9)),
        ("torch>=1.7\ntimm == 0.3.2\n", (1, 9)),
        ("torch\ntorchvision==0.8.1\n", (1, 8)),
        ("torchvision==0.14.1\n", (2, 0)),
        ("torchvision==0.15.2\n", (2, 1)),
        ("  - torchvision=0.8.2\n", (1, 8)),
        ("torchaudio==0.13.0\n", (2, 0)),
    ],
)
def test_a_pin_of_another_package_bounds_torch(text: str, version: tuple[int, ...]) -> None:
    (found,) = newest_in(text, "requirements.txt")
    assert found is not None
    assert (found.version, found.excluded) == (version, True)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("module load pytorch-gpu/py3/1.11.0\n", (1, 11, 0)),
        ("ml CUDA/11.7 PyTorch/1.12.0-foss-2022a-CUDA-11.7.0\n", (1, 12, 0)),
        ("module load python/3.8-pytorch-1.13\nmodule load pytorch/2.0\n", (2, 0)),
        ("singularity exec docker://pytorch/pytorch:1.7.1-cuda11.0-cudnn8-runtime python x\n", (1, 7, 1)),
        ("# module load pytorch/1.11\nmodule load cuda/11.7 # pytorch/1.11\n", None),
        ("module load pytorch\necho pytorch/1.11\n", None),
    ],
)
def test_a_launch_file_loads_its_torch(tmp_path: Path, text: str, version: tuple[int, ...] | None) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.6\n")
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{text}")
    expected = None if version is None else Newest(version, "job.sh")
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/job.sh") == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("environment.yml", "- python=3.7\n", Newest((2, 0), "environment.yml (Python 3.7)", True)),
        ("environment.yml", "- python=3.8.13\n", Newest((2, 5), "environment.yml (Python 3.8.13)", True)),
        ("setup.py", "python_requires='>=3.6,<3.8'", Newest((2, 0), "setup.py (Python before 3.8)", True)),
        ("README.md", "conda create -n x python=3.6 -y\n", Newest((1, 11), "README.md (Python 3.6)", True)),
        ("environment.yml", "- python=3.8\n- torch==1.9\n", Newest((1, 9), "environment.yml")),
        ("environment.yml", "- python=3.10\n", None),
        ("environment.yml", "- python=3\n", None),
        ("setup.py", "python_requires='>=3.7'", None),
    ],
)
def test_an_old_python_bounds_torch(tmp_path: Path, name: str, text: str, expected: Newest | None) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.6\n" if "torch" not in text else "numpy\n")
    (tmp_path / name).write_text(text)
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/train.py") == expected


@pytest.mark.parametrize("text", ["timm==0.4.12\n", "torchvision>=0.8\n", "my-timm==0.3.2\n", "timm\n"])
def test_other_packages_leave_torch_open(text: str) -> None:
    assert newest_in(f"torch\n{text}", "requirements.txt") == [None]


def test_the_lowest_bound_of_a_file_counts() -> None:
    assert newest_in("torch==1.6.0\ntorchvision==0.8.1\n", "a.txt") == [Newest((1, 6, 0), "a.txt")]


def test_releases_are_compared() -> None:
    assert Newest((1, 13), "x").is_before("2.0")
    assert Newest((2,), "x", True).is_before("2.0")
    assert Newest((2, 0), "x", True).is_before("2.0")
    assert not Newest((2, 0, 1), "x", True).is_before("2.0")
    assert not Newest((2,), "x").is_before("2.0")
    assert not Newest((2, 1, 2), "x").is_before("2.1")
    assert Newest((2, 1, 2), "x").is_before("2.13")
    assert not Newest((1, 9), "x").is_before("1.9")


def test_the_nearest_declaration_counts(tmp_path: Path) -> None:
    (tmp_path / "own" / "tools").mkdir(parents=True)
    (tmp_path / "other" / "requirements").mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("torch==1.6\n")
    (tmp_path / "own" / "setup.py").write_text("setup(install_requires=['torch'])\n")
    (tmp_path / "other" / "requirements" / "base.txt").write_text("torch==1.9\n")
    pins = PackagePins([str(tmp_path)])
    assert pins.of(f"{tmp_path}/own/tools/train.py") is None
    assert pins.of(f"{tmp_path}/train.py") == Newest((1, 6), "requirements.txt")
    assert pins.of(f"{tmp_path}/other/train.py") == Newest((1, 9), "base.txt")
    (tmp_path / "environment.yml").write_text("- pytorch=1.13\n")
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/train.py") == Newest((1, 13), "environment.yml")


def test_a_document_that_says_what_to_install_counts(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "docs" / "model_zoo.md").write_text("pip install torch==2.4\n")
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/tools/train.py") is None
    (tmp_path / "readme").mkdir()
    (tmp_path / "readme" / "INSTALL.md").write_text("pip install torch==1.7.1\n")
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/tools/train.py") == Newest((1, 7, 1), "INSTALL.md")
    (tmp_path / "docs" / "install.md").write_bytes(b"# Needs\r\n- torch 1.10.1\r\n- timm\r\n")
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/tools/train.py") == Newest((1, 10, 1), "install.md")


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("uv.lock", '[[package]]\nname = "torch"\nversion = "2.11.0+cu128"\n', (2, 11, 0)),
        ("poetry.lock", '[[package]]\nname = "torch"\nversion = "1.13.1"\n', (1, 13, 1)),
        ("Pipfile.lock", '{"default": {\n  "torch": {\n  "hashes": [],\n  "version": "==1.12.0"\n }}}\n', (1, 12, 0)),
        ("constraints.txt", "torch==1.13.0\ntorchvision==0.14.0\n", (1, 13, 0)),
    ],
)
def test_a_lock_counts_before_open_bounds(tmp_path: Path, name: str, text: str, version: tuple[int, ...]) -> None:
    (tmp_path / "pyproject.toml").write_text('dependencies = ["torch>=1.9"]\n')
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/train.py") is None
    (tmp_path / name).write_text(f"{'x' * 300_000}\n{text}")
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/train.py") == Newest(version, name)
    (tmp_path / name).write_text(text.replace("torch", "torchmetrics"))
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/train.py") is None


def test_the_newest_release_of_a_lock_counts(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text('name = "torch"\nversion = "1.9.0"\n\nname = "torch"\nversion = "2.1.0"\n')
    assert PackagePins([str(tmp_path)]).of(f"{tmp_path}/train.py") == Newest((2, 1, 0), "uv.lock")


def test_nothing_above_the_project_counts(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.6\n")
    (tmp_path / "project").mkdir()
    assert PackagePins([f"{tmp_path}/project"]).of(f"{tmp_path}/project/train.py") is None


def test_a_finding_about_a_newer_torch_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.6\n")
    where = Where(path=f"{tmp_path}/train.py", line=1)
    old = rules.DC207.found("one spelling", where=where, fix=Fix("x"), evidence={SINCE: "2.0"})
    always = rules.DC207.found("one spelling", where=where, fix=Fix("x"))
    first, second = respect_pins(
        [old, always],
        PackagePins([str(tmp_path)]),
        PackagePins([str(tmp_path)], "accelerate"),
        PackagePins([str(tmp_path)], "transformers"),
        PackagePins([str(tmp_path)], "python"),
    )
    assert first.severity is Severity.INFO
    assert "requirements.txt pins torch 1.6" in first.message
    assert second == always


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("from torch._six import inf\n", True),
        ("import torch\nimport torch._six as six\n", True),
        ("try:\n    from torch._six import inf\nexcept ImportError:\n    from torch import inf\n", False),
        ("import torch._six_of_ours\n", False),
    ],
)
def test_an_import_that_a_release_removed_bounds_torch(tmp_path: Path, text: str, noted: bool) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.6\n")
    (tmp_path / "train.py").write_text(text)
    where = Where(path=f"{tmp_path}/train.py", line=1)
    old = rules.DC611.found("weights_only", where=where, fix=Fix("x"), evidence={SINCE: "2.6"})
    (found,) = respect_pins(
        [old],
        PackagePins([str(tmp_path)]),
        PackagePins([str(tmp_path)], "accelerate"),
        PackagePins([str(tmp_path)], "transformers"),
        PackagePins([str(tmp_path)], "python"),
    )
    assert (found.severity is Severity.INFO) == noted
    assert ("train.py (torch._six) pins torch before 2.0" in found.message) == noted


@pytest.mark.parametrize(
    ("name", "text", "severity", "ends"),
    [
        (
            "environment.yml",
            "dependencies:\n  - pip:\n    - accelerate==0.10.0\n    - torch==2.1\n",
            Severity.INFO,
            "; environment.yml pins accelerate 0.10.0, which may accept it",
        ),
        (
            "requirements.txt",
            "accelerate<1\n",
            Severity.INFO,
            "; requirements.txt pins accelerate before 1, which may accept it",
        ),
        ("requirements.txt", "accelerate==1.2.1\ntorch==0.4\n", Severity.ERROR, ""),
        ("requirements.txt", "accelerate>=0.10\ntorchvision==0.10\n", Severity.ERROR, ""),
    ],
)
def test_what_accelerate_refuses_is_a_note_for_an_older_pin(
    tmp_path: Path, name: str, text: str, severity: Severity, ends: str
) -> None:
    (tmp_path / name).write_text(text)
    finding = rules.DC102.found(
        "--num_processes is 1",
        where=Where(path=str(tmp_path / "job.sh")),
        fix=Fix("drop --multi_gpu"),
        evidence={ACCELERATE_SINCE: "1.0"},
    )
    roots = [str(tmp_path)]
    (found,) = respect_pins(
        [finding],
        *(PackagePins(roots, package) for package in ("torch", "accelerate", "transformers", "python")),
    )
    assert (found.severity, found.message) == (severity, f"--num_processes is 1{ends}")


@pytest.mark.parametrize(
    ("declared", "severity"),
    [
        ("transformers", Severity.WARNING),
        ("transformers>=4.36.2", Severity.WARNING),
        ("git+https://github.com/huggingface/transformers.git\ntransformers", Severity.WARNING),
        ("torch", Severity.INFO),
        ("transformers==4.45.2", None),
        ("transformers<5", None),
        ("git+https://github.com/huggingface/transformers.git@v4.40.1", None),
        ("transformers @ git+https://github.com/huggingface/transformers@1a2b3c4d", None),
    ],
)
def test_what_only_another_transformers_refuses_is_no_finding(
    tmp_path: Path, declared: str, severity: Severity | None
) -> None:
    (tmp_path / "requirements.txt").write_text(f"{declared}\n")
    where = Where(path=str(tmp_path / "train.sh"), line=2)
    removed = rules.DC817.found("x", where=where, evidence={TRANSFORMERS_SINCE: "5.0"}, fix=Fix("x"))
    pins = [PackagePins([str(tmp_path)], package) for package in ("torch", "accelerate", "transformers", "python")]
    assert [one.severity for one in respect_pins([removed], *pins)] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("name", "text", "severities"),
    [
        ("environment.yml", "dependencies:\n  - python=3.8\n", []),
        ("README.md", "```\nconda create -n x python=3.9 -y\npython -m pip install transformers\n```\n", []),
        ("pyproject.toml", '[project]\nrequires-python = ">=3.8,<3.10"\n', []),
        ("setup.py", 'setup(python_requires=">=3.7, <3.9")\n', []),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = ">=3.8,<3.10"\n', []),
        ("environment.yml", "dependencies:\n  - python=3.10\n", [Severity.WARNING]),
        ("pyproject.toml", '[project]\nrequires-python = ">=3.8"\n', [Severity.WARNING]),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.8"\n', [Severity.WARNING]),
        ("README.md", "```\npython -m pip install transformers\n```\n", [Severity.WARNING]),
    ],
)
def test_a_python_that_can_not_have_transformers_5_leaves_the_options(
    tmp_path: Path, name: str, text: str, severities: list[Severity]
) -> None:
    (tmp_path / "requirements.txt").write_text("transformers\n")
    (tmp_path / name).write_text(text)
    where = Where(path=str(tmp_path / "train.sh"), line=2)
    removed = rules.DC817.found("x", where=where, evidence={TRANSFORMERS_SINCE: "5.0"}, fix=Fix("x"))
    pins = [PackagePins([str(tmp_path)], package) for package in ("torch", "accelerate", "transformers", "python")]
    assert [one.severity for one in respect_pins([removed], *pins)] == severities
