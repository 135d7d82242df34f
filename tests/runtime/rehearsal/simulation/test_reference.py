"""The first step of all ranks against that of one (DC758, DC763, DC765), from hand-made rows and in whole rehearsals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Severity
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.launcher import ENDED, RehearsalResult
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan
from distcheck.runtime.rehearsal.simulation.reference import added, plan_of

ROOT = Path(__file__).parents[4]
PLAN = RehearsalPlan("train.py", nnodes=1, nproc_per_node=2, reference=True, reference_arguments=("--batch", "4"))
START = {"weight": (1.0, 2.0, -1.0), "bias": (0.5, 0.0, 0.25)}
#: What the ranks compute from their samples, and the mean of these: what one rank computes from all samples.
OWN = ((3.0, -1.0, 2.0), (1.0, 3.0, 0.0))
MEAN = (2.0, 1.0, 1.0)
BIAS = (0.1, 0.2, 0.3)
SAMPLES = (("a", "b"), ("c", "d"))


def times(factor: float, vector: tuple[float, ...]) -> list[float]:
    return [factor * one for one in vector]


def rows(
    rank: int, weight: Any, samples: Any, *, bias: Any = BIAS, after: float = 0.1, **more: Any
) -> list[LoggedEvent]:
    """Rows of one rank. ``after``: the learning rate with which its parameters follow from the gradients."""
    rates = more.pop("rates", (0.1, 0.1))
    data = {
        "number": 0, "samples": samples, "most": 2, "random": False, "closure": False, "half": False, "sharded": False,
        "normalized": [], "accelerated": False, "gradients": {"weight": list(weight), "bias": list(bias)},
        "parameters": {name: list(values) for name, values in START.items()}, "rates": [rates[0]], **more,
    }  # fmt: skip
    changed = {
        name: [value - after * slope for value, slope in zip(START[name], gradient, strict=True)]
        for name, gradient in (("weight", MEAN), ("bias", BIAS))
    }
    second = {"number": 0, "parameters": changed, "rates": [rates[1]]}
    return [
        LoggedEvent("reference.first", rank, rank, 1.0, 0, "train.py:30", "main", data),
        LoggedEvent("reference.second", rank, rank, 2.0, 1, "train.py:30", "main", second),
    ]


def rehearsed(
    ranks: list[list[LoggedEvent]], one: list[LoggedEvent], *, ends: tuple[End, ...] = (End(0, 9, steps=2),)
) -> Rehearsal:
    single = Rehearsal(plan_of(PLAN), ends, tuple(one))
    mine = Rehearsal(PLAN, (End(0, 1, steps=3), End(1, 2, steps=3)), tuple(row for each in ranks for row in each))
    return added(mine, lambda plan: RehearsalResult(single, ENDED, None, {}, (), "", 1.0), 10.0)


def found(rehearsal: Rehearsal) -> list[Finding]:
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.reference",), plug_ins=False)
    done = checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal)
    assert all(probe.status in ("ran", "not-applicable") for probe in done.probes), done.probes
    return list(done.findings)


def two(weights: Any, **more: Any) -> list[list[LoggedEvent]]:
    return [rows(rank, weights[rank], SAMPLES[rank], **more) for rank in (0, 1)]


ONE = rows(0, MEAN, ["d", "a", "c", "b"])
REDUCED = (MEAN, MEAN)


@pytest.mark.parametrize(
    "weights",
    [REDUCED, OWN, tuple(times(1.01, MEAN) for _ in range(2))],
    ids=["averaged", "averaged after the step", "rounding"],
)
def test_good_steps_that_agree(weights: Any) -> None:
    rehearsal = rehearsed(two(weights), ONE)
    assert found(rehearsal) == []
    assert rehearsal.missed == ()


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (2.0, "are 2 times those of one rank with the same samples: they are summed, and not averaged"),
        (0.5, "are 1/2 of those of one rank with the same samples: they are divided once too often"),
        (0.25, "are 0.25 times those of one rank with the same samples"),
    ],
)
def test_bad_dc758_by_a_factor(factor: float, text: str) -> None:
    ranks = [rows(rank, times(factor, MEAN), SAMPLES[rank], bias=times(factor, BIAS)) for rank in (0, 1)]
    (finding,) = found(rehearsed(ranks, ONE))
    assert (finding.code, finding.severity) == ("DC758", Severity.WARNING)
    assert (finding.where.line, finding.where.ranks) == (30, "0-1")
    assert finding.message.endswith(text)


def test_bad_dc758_one_gradient_is_lost() -> None:
    (finding,) = found(rehearsed(two(((0.0, 0.0, 0.0),) * 2), ONE))
    assert "the gradient of weight that the ranks use in the first step differ" in finding.message


def test_bad_dc758_clipped_before_the_reduction() -> None:
    (finding,) = found(rehearsed(two(((1.0, 1.5, 0.2),) * 2), ONE))
    assert finding.fix is not None
    assert finding.fix.text.startswith("clip gradients after they are reduced")


def test_bad_and_good_dc758_normalized_by_own_samples() -> None:
    """Few samples of a rank make it a warning."""
    for most, severity in ((8, Severity.WARNING), (16, Severity.INFO)):
        ranks = two(((1.0, 1.5, 0.2),) * 2, normalized=["BatchNorm1d"], most=most)
        (finding,) = found(rehearsed(ranks, ONE))
        assert finding.severity is severity
        assert "(BatchNorm1d)" in finding.message


def test_good_half_precision_and_gradients_that_are_only_rounding() -> None:
    assert found(rehearsed(two((times(1.2, MEAN),) * 2, half=True), ONE)) == []
    small = two(REDUCED, bias=(1e-5, 2e-5, -1e-5))
    assert found(rehearsed(small, rows(0, MEAN, ["a", "b", "c", "d"], bias=(-1e-5, 1e-5, 1e-5)))) == []


def test_bad_dc765_another_schedule() -> None:
    ranks = two(REDUCED, rates=(0.1, 0.064))
    (finding,) = found(rehearsed(ranks, rows(0, MEAN, ["a", "b", "c", "d"], rates=(0.05, 0.04))))
    assert finding.code == "DC765"
    assert "by a factor of 0.64 in the first step, and of 0.8 on one rank" in finding.message


def test_good_dc765_accelerate_steps_schedulers_for_each_rank() -> None:
    one = rows(0, MEAN, ["a", "b", "c", "d"], rates=(0.05, 0.04), accelerated=True)
    assert found(rehearsed(two(REDUCED, rates=(0.1, 0.064), accelerated=True), one)) == []


def test_good_dc765_a_rate_for_the_number_of_ranks() -> None:
    ranks = two(REDUCED, rates=(0.2, 0.16), after=0.2)
    assert found(rehearsed(ranks, rows(0, MEAN, ["a", "b", "c", "d"], rates=(0.1, 0.08)))) == []


def test_bad_dc763_other_parameters_after_the_step() -> None:
    (finding,) = found(rehearsed(two(REDUCED, after=0.2), ONE))
    assert (finding.code, finding.severity) == ("DC763", Severity.WARNING)


WRONG = two((times(2.0, MEAN),) * 2)


@pytest.mark.parametrize(
    ("ranks", "one", "why"),
    [
        (WRONG, rows(0, MEAN, ["a", "b"]), "the ranks get 4 samples before the first step, and one rank gets 2; --ref"),
        (WRONG, rows(0, MEAN, ["a", "b", "c", "e"]), "the 4 samples before the first step are others on one rank"),
        (WRONG, rows(0, MEAN, ["a", "b", "c", "d"], random=True), "draws random numbers"),
        (WRONG, rows(0, MEAN, ["a", "b", "c", "d"], closure=True), "computes gradients in its step"),
        (WRONG, rows(0, MEAN, ["a", "b", "c", "d"], sharded=True), "are shards"),
        (WRONG, rows(0, MEAN, None), "are not known"),
        (WRONG, rows(0, MEAN, ["a", "b", "c", "d"], parameters={"weight": [9.0, 9.0, 9.0]}), "begin with other values"),
        (WRONG, rows(0, MEAN, ["a", "b", "c", "d"], parameters={"other": [1.0, 2.0, 3.0]}), "has the same name"),
        (WRONG[:1], ONE, "no optimizer makes its first step on all ranks"),
    ],
)
def test_good_steps_that_need_not_agree_are_not_compared(ranks: Any, one: Any, why: str) -> None:
    rehearsal = rehearsed(ranks, one)
    assert found(rehearsal) == []
    (missed,) = rehearsal.missed
    assert missed.startswith("the first step against one rank: ")
    assert why in missed


def test_good_a_script_that_fails_as_one_rank_or_starts_several() -> None:
    raised = rehearsed(WRONG, [], ends=(End(0, 9, "raised", 1, detail="ValueError: two ranks\nat least"),))
    assert raised.missed[0].endswith("the script makes no step as one rank; it raised: ValueError: two ranks")
    assert "starts 2 ranks" in rehearsed(WRONG, ONE, ends=(End(0, 1, steps=1), End(1, 2, steps=1))).missed[0]


def test_one_rank_is_not_run_if_the_ranks_made_no_step() -> None:
    rehearsal = Rehearsal(PLAN, (End(0, 1, steps=3), End(1, 2)))
    assert added(rehearsal, lambda _: pytest.fail("one rank ran"), 10.0).missed == (
        "the first step against one rank: the ranks made no step",
    )


def test_samples_of_loaders_count_if_forward_gets_no_tensors() -> None:
    def batch(rank: int, leaves: list[str]) -> LoggedEvent:
        data = {"number": 1, "count": len(leaves), "leaves": [leaves], "gradients": True}
        return LoggedEvent("samples.batch", rank, rank, 0.5, 0, "train.py:20", "main", data)

    ranks = [[*rows(rank, times(2.0, MEAN), []), batch(rank, list(SAMPLES[rank]))] for rank in (0, 1)]
    assert [one.code for one in found(rehearsed(ranks, [*rows(0, MEAN, []), batch(0, ["a", "b", "c", "d"])]))] == [
        "DC758"
    ]
    assert found(rehearsed(ranks, [*rows(0, MEAN, []), batch(0, ["a", "b", "c", "x"])])) == []


def test_the_plan_of_one_rank() -> None:
    plan = plan_of(PLAN._replace(arguments=("--lr", "1"), steps=None, most_steps=16))
    assert (plan.world_size, plan.gpus_per_node, plan.steps, plan.most_steps) == (1, 1, 2, 0)
    assert plan.arguments == ("--lr", "1", "--batch", "4")


SCRIPT = """\
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

batch, fault = int(sys.argv[1]), sys.argv[2]
if len(sys.argv) > 3:
    batch = int(sys.argv[3])
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5 if fault == "dropout" else 0.0), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for x, y in DataLoader(data, batch_size=batch, sampler=DistributedSampler(data)):
    optimizer.zero_grad()
    (model(x.cuda()) - y.cuda()).square().mean().backward()
    if fault == "clip":
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= 1 if fault == "sum" else world
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "codes", "not_checked"),
    [
        ("none", [], None),
        ("sum", ["DC758"], None),
        ("clip", ["DC758", "DC758"], None),
        ("dropout", [], "draws random numbers"),
    ],
)
def test_rehearsed(tmp_path: Path, fault: str, codes: list[str], not_checked: str | None) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [
        sys.executable, "-m", "distcheck", "rehearse", "--isolated", "--nnodes", "1", "--nproc-per-node", "2", "--reference",
        "--reference-args", "16", "--output-format", "json", "-o", "report.json", "--exit-zero", "--", "train.py", "8", fault,
    ]  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=280, check=False)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [finding["code"] for finding in report["findings"]] == codes, ran.stdout + ran.stderr
    whys = [item["why"] for item in report["not_checked"] if "one rank" in item["what"]]
    assert bool(whys) == (not_checked is not None), whys
    assert not_checked is None or not_checked in whys[0]
