"""The grid of ranks by host: where it shows more than ranges do, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck import rules
from distcheck.checks.logs.diagnose import diagnose, timeline_of
from distcheck.checks.logs.model import LogSource
from distcheck.checks.logs.reading import SourceReader, matcher_of, signatures
from distcheck.core.model import Finding, Fix, Report, Where, expand_ranges, placement_of
from distcheck.reporters import Style, rank_grid, render
from distcheck.runtime.coordination.model import CollectiveCall, Position, Positions
from distcheck.runtime.coordination.stack_report import plain_job
from tests.reporters.pages import page


def by_host(hosts: int, each: int) -> dict[int, str]:
    return {rank: f"gpu{rank // each + 1:02}" for rank in range(hosts * each)}


def finding(ranks: str | None, **where: Any) -> Finding:
    return rules.DC510.found("wrong", where=Where(ranks=ranks, **where), fix=Fix("look", where="host"))


def report(ranks: str | None, hosts: dict[int, str], **where: Any) -> Report:
    return Report("collective", subject={"placement": placement_of(hosts)}, findings=(finding(ranks, **where),))


def grid_of(text: str) -> list[str]:
    """The lines of the grid."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if "ranks by host" in line), len(lines))
    end = next((number for number in range(start, len(lines)) if not lines[number].startswith("  ")), len(lines))
    return lines[start:end]


def test_a_finding_shows_that_each_host_has_one_of_its_ranks() -> None:
    text = render(report("3,11", by_host(2, 8)), "full", Style(width=80))
    assert grid_of(text) == [
        "  ranks by host (* affected):",
        "    gpu01   0   1   2   3*  4   5   6   7",
        "    gpu02   8   9  10  11* 12  13  14  15",
    ]


@pytest.mark.parametrize(
    ("ranks", "hosts"),
    [
        pytest.param("1-2", by_host(1, 8), id="one host"),
        pytest.param("0-7", by_host(2, 4), id="all ranks"),
        pytest.param("0,2", {0: "a", 1: "b", 2: "c"}, id="few ranks"),
        pytest.param("3,11", by_host(13, 5), id="65 ranks"),
        pytest.param("3,11", by_host(2, 4), id="a rank whose host is not known"),
        pytest.param("3", by_host(2, 8), id="one rank"),
        pytest.param(None, by_host(2, 8), id="no rank"),
        pytest.param("3,11", {}, id="no host is known"),
    ],
)
def test_where_a_grid_shows_no_more_than_the_sentence_there_is_none(ranks: str | None, hosts: dict[int, str]) -> None:
    made = report(ranks, hosts)
    assert rank_grid.of_finding(made.findings[0], made) == ()
    assert "by host" not in render(made, "full", Style())
    assert "by host" not in page(made)[0]


def test_the_largest_grid_fits_a_terminal_of_80_columns() -> None:
    odd = [rank for rank in range(64) if rank % 2]
    hosts = {rank: f"ip-10-0-0-{rank // 16}.us-west-2.compute.internal" for rank in range(64)}
    lines = grid_of(render(report(",".join(map(str, odd)), hosts), "full", Style(width=80)))
    assert len(lines) == 9
    assert max(map(len, lines)) <= 80
    marked = [int(cell[:-1]) for line in lines[1:] for cell in line.split() if cell.endswith("*")]
    assert marked == odd
    # only the first line of a host has its name
    assert sum("ip-10" in line for line in lines) == 4


def test_the_name_of_a_host_controls_no_terminal() -> None:
    hosts = {**by_host(2, 4), **dict.fromkeys(range(4, 8), "gpu\x1b[2J<b>")}
    text = render(report("3,5", hosts), "full", Style())
    assert "\x1b" not in text
    assert "gpu\\x1b[2J<b>" in text
    assert "gpu\\x1b[2J&lt;b&gt;" in page(report("3,5", hosts))[0]


def test_the_page_has_the_grid_as_a_table() -> None:
    text, read = page(report("3,11", by_host(2, 8)))
    assert "<caption>ranks by host (* affected)</caption>" in text
    assert '<th class="text" scope="row">gpu02</th>' in text
    assert '<span class="rank"><mark>11*</mark></span> <span class="rank">12</span>' in text
    assert "gpu01 0 1 2 3* 4 5 6 7" in read.words


def hung(hosts: dict[int, str], ended: set[int]) -> dict[str, Any]:
    call = CollectiveCall(9, "all_reduce", place="train.py:16")
    positions = tuple(
        Position(rank, host, 100 + rank, "left" if rank in ended else "waiting", None if rank in ended else call)
        for rank, host in hosts.items()
    )
    return plain_job("the job", Positions(positions, len(hosts), 20.0), seen="no progress for 20 s", interval_s=20.0)


def test_a_job_shows_the_letter_of_the_group_at_each_rank() -> None:
    made = Report("watch", subject={"jobs": [hung(by_host(2, 4), {1, 5})]}, findings=(finding("1,5"),))
    text = render(made, "full", Style(width=80))
    assert grid_of(text)[:3] == [
        "  ranks by host, with the letter of their group:",
        "    gpu01  0B 1A 2B 3B",
        "    gpu02  4B 5A 6B 7B",
    ]
    assert "  A  ranks 1,5 ended" in text
    assert "  B  ranks 0,2-4,6-7 waiting in all_reduce #9" in text
    # once is enough
    assert text.count("by host") == 1
    words = page(made)[1].words
    assert "A ranks 1,5 ended" in words
    assert "gpu01 0B 1A 2B 3B" in words
    assert words.count("by host") == 1


@pytest.mark.parametrize("hosts", [by_host(1, 8), by_host(2, 1), dict.fromkeys(range(8), "")], ids=len)
def test_a_job_on_one_host_keeps_its_lines(hosts: dict[int, str]) -> None:
    text = render(Report("watch", subject={"jobs": [hung(hosts, {1})]}), "full", Style())
    assert "by host" not in text
    assert "  rank 1 ended" in text


def test_a_job_with_more_groups_than_are_shown_has_no_letters_without_a_meaning() -> None:
    job = hung(by_host(2, 8), set())
    job["stacks"] = [{"ranks": str(rank), "members": [rank], "doing": "ended", "frames": []} for rank in range(16)]
    made = Report("stuck", subject={"jobs": [job]})
    assert "by host" not in render(made, "full", Style())
    assert "  P  rank 15 ended" in render(made, "full", Style(verbose=1))


def test_a_log_knows_the_hosts_of_ranks_from_its_prefixes() -> None:
    lines = [
        f"gpu{rank // 4 + 1:02}: [rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
        for rank in (1, 5)
    ]
    lines += [f"gpu{rank // 4 + 1:02}: [rank{rank}]: step 3" for rank in (0, 2, 3, 4, 6, 7)]
    reader = SourceReader(LogSource("text"), matcher_of(signatures()))
    reader.feed("\n".join(lines).encode() + b"\n")
    made = diagnose(timeline_of([reader.reading()]))
    for part in made.subject["placement"]:
        assert {f"gpu{rank // 4 + 1:02}" for rank in expand_ranges(part["ranks"])} == {part["host"]}
    assert len(made.subject["placement"]) == 2
