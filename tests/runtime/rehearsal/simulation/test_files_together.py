"""Whole scripts on two ranks: what they do to files and to the terminal, found and left alone, in both kinds of overlay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]
pytest.importorskip("torch")

ROOT = Path(__file__).parents[4]
#: No mount is tried, as where it is not allowed.
BY_PYTHON = """
import sys
from distcheck.runtime.rehearsal.simulation import overlay
overlay._mount = lambda *_: None
from distcheck.cli.main import main
main()
"""
MODEL = """\
import os, time, torch, torch.distributed as dist, urllib.request
from pathlib import Path
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""
STEP = "optimizer.zero_grad(); model(torch.ones(2, 4)).sum().backward(); optimizer.step()"
#: The lines that are wrong end with the codes that say so.
BAD = f"""\
{MODEL}
if not os.path.exists("out"):
    os.makedirs("out")  # DC722
dist.barrier()
urllib.request.urlretrieve("file://" + os.path.abspath("data.txt"), "fetched.txt")  # DC725
if rank == 0:
    time.sleep(0.5)
    Path("vocabulary.txt").write_text("a b c")
try:
    open("vocabulary.txt").read()  # DC724
except FileNotFoundError:
    pass
for step in range(3):
    {STEP}
    print("step", step)  # DC721
torch.save(model.state_dict(), "out/last.pt")  # DC720
with open("arguments.json", "w") as file:  # DC720
    file.write("{{}}")
os.remove("data.txt") if rank == 0 else None
dist.destroy_process_group()
"""
GOOD = f"""\
{MODEL}
os.makedirs("out", exist_ok=True)
if rank == 0:
    urllib.request.urlretrieve("file://" + os.path.abspath("data.txt"), "fetched.txt")
    Path("vocabulary.txt").write_text("a b c")
    if not os.path.exists("logs"):
        os.makedirs("logs")
dist.barrier()
assert open("vocabulary.txt").read() == "a b c"
assert open("fetched.txt").read() == "data"
os.environ["HF_HOME"] = "hub"
if rank == 0:
    os.makedirs("hub", exist_ok=True)
    Path("hub/version.txt").write_text("1")
else:
    time.sleep(0.5)
    try:
        open("hub/version.txt").read()
    except FileNotFoundError:
        pass
log = open(f"logs/{{rank}}.txt", "w")
shared = open("logs/all.txt", "a")
print("begins")
for step in range(3):
    {STEP}
    print(f"rank {{rank}}, step {{step}}")
    shared.write(f"{{rank}} {{step}}")
if rank == 0:
    torch.save(model.state_dict(), "out/last.pt.new")
    os.replace("out/last.pt.new", "out/last.pt")
dist.barrier()
model.load_state_dict(torch.load("out/last.pt", map_location="cpu"))
torch.save(optimizer.state_dict(), f"out/optimizer{{rank}}.pt")
for turn in range(2):
    if turn == rank:
        Path("turns.txt").write_text(str(rank))
    dist.barrier()
if rank == 0:
    time.sleep(0.3)
    Path("ready").touch()
while not os.path.exists("ready"):
    time.sleep(0.02)
open("ready").close()
from torch.distributed import checkpoint
checkpoint.save({{"model": model.state_dict()}}, checkpoint_id="sharded")
os.remove("data.txt") if rank == 0 else None
dist.destroy_process_group()
"""


def rehearsed(folder: Path, script: str, way: str) -> dict[str, Any]:
    (folder / "train.py").write_text(script)
    (folder / "data.txt").write_text("data")
    begin = ["-m", "distcheck"] if way == "mount" else ["-c", BY_PYTHON]
    done = subprocess.run(
        [sys.executable, *begin, "rehearse", "--nnodes", "1", "--nproc-per-node", "2", "--gpus-per-node", "0",
         "--select", "DC72", "--output-format", "json", "--", "train.py"],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def lines_of(script: str) -> set[tuple[int, str]]:
    marked = ((number, line.partition("# DC")) for number, line in enumerate(script.splitlines(), 1))
    return {(number, f"DC{code}") for number, (_, mark, code) in marked if mark}


@pytest.mark.parametrize("way", ["mount", "python"])
@pytest.mark.sampled(every=2)
def test_bad_files_are_found_at_their_lines(tmp_path: Path, way: str) -> None:
    report = rehearsed(tmp_path, BAD, way)
    found = {(finding["where"]["line"], finding["code"]) for finding in report["findings"]}
    assert found == lines_of(BAD)
    assert {finding["where"]["path"] for finding in report["findings"]} == {"train.py"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.txt", "train.py"]


def test_good_files_are_left_alone(tmp_path: Path) -> None:
    report = rehearsed(tmp_path, GOOD, "python")
    assert report["findings"] == []
    assert {end["how"] for end in report["subject"]["ends"]} <= {"finished"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.txt", "train.py"]
