"""What is judged about the variables of launch files: names, values, leftovers, masks, interfaces; and their fixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.launch_files import variables as room
from distcheck.checks.launch_files.model import LaunchFiles, Nodes
from distcheck.core.configuration import Configuration, ConfigurationEntry
from distcheck.core.fixes import apply_fixes
from distcheck.core.model import Finding, Severity, Unavailable

from .reading import read

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
NOT_STATED = Unavailable("no facts of the nodes were given")
#: What a good file has behind its settings: eight ranks on each of two nodes.
TWO_NODES = (
    "torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py\n"
)
ONE_NODE = "torchrun --standalone --nproc_per_node=8 train.py\n"


def judge(
    text: str,
    path: str = "run.sh",
    *,
    nodes: Nodes | Unavailable = NOT_STATED,
    known: tuple[str, ...] = (),
    others: Mapping[str, str] = {},
) -> list[Finding]:
    """What all probes of the room say about one file."""
    return judge_files({path: text}, nodes=nodes, known=known, others=others)


def judge_files(
    texts: Mapping[str, str],
    *,
    nodes: Nodes | Unavailable = NOT_STATED,
    known: tuple[str, ...] = (),
    others: Mapping[str, str] = {},
) -> list[Finding]:
    files = LaunchFiles(tuple(read(path, text, {**texts, **others}) for path, text in texts.items()))
    configuration = Configuration((ConfigurationEntry("known-variables", known, "pyproject.toml"),))

    def run() -> Iterator[Finding]:
        yield from room.names_are_known(files, configuration)
        yield from room.names_are_current(files, configuration)
        yield from room.values_are_understood(files, configuration)
        yield from room.debugging_is_off(files, configuration)
        yield from room.transports_are_on(files, nodes, configuration)
        yield from room.masks_say_what_they_do(files, nodes)
        yield from room.interfaces_lead_to_the_nodes(files, nodes)

    return list(run())


def said(findings: list[Finding], least: Severity = WARNING) -> list[tuple[int | None, str, Severity]]:
    """Line, rule and severity of what is at least so bad."""
    return sorted((item.where.line, item.code, item.severity) for item in findings if item.severity >= least)


def fixed(text: str, path: str = "run.sh", *, safe: bool = True) -> str:
    """The text after one round of its fixes."""
    fixes = [item.fix for item in judge(text, path) if item.fix.edits and (item.fix.safe or not safe)]
    edited = apply_fixes(fixes, {path: text.encode()}, others={path: lambda path, data: None})
    assert not edited.refused
    return edited.files.get(path, text.encode()).decode()


# names


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("export NCCL_SOCKET_IFNAMES=eth0", "DC110"),
        ("export GLOO_IB_DISABLE=0", "DC110"),
        ("declare -x TORCH_NCCL_ASYNC_ERROR_HANDLNG=1", "DC110"),
        ("export TORCH_NCCL_ASYNC_HANDLING=1", "DC110"),
        ("export NCCL_SOCKET_IFNAMES=$INTERFACE", "DC110"),
        ("export NCCL_ASYNC_ERROR_HANDLING=1", "DC111"),
        ("export NCCL_BLOCKING_WAIT=1", "DC111"),
        ("export NCCL_TREE_THRESHOLD=0", "DC111"),
    ],
)
def test_bad_dc110_dc111_names_that_nothing_reads_any_more(line: str, expected: str) -> None:
    findings = judge(f"#!/bin/bash\n{line}\n{ONE_NODE}")
    assert said(findings) == [(2, expected, WARNING)]
    assert findings[0].where.variable == line.split("=")[0].split()[-1]
    assert findings[0].fix.command is None


@pytest.mark.parametrize(
    "lines",
    [
        "# export NCCL_SOCKET_IFNAMES=eth0\n",
        "echo 'export NCCL_SOCKET_IFNAMES=eth0'\n",
        "NCCL_ARGS='--x'\nexport OTHER=$NCCL_ARGS\n",
        "export NCCL_FASTRAK_IFNAME=eth1 NCCL_TUNER_PLUGIN=x NCCL_ROOT=/opt/nccl\n",
        # for several releases
        "export NCCL_ASYNC_ERROR_HANDLING=1\nexport TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n",
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
        "export NCCL_SOCKET_IFNAMES=eth0\nunset NCCL_SOCKET_IFNAMES\n",
        "export NCCL_TIMEOUT=3600\n",
        # torchrun's option takes what the variable says
        "export NNODES=$SLURM_NNODES\n",
    ],
)
def test_good_dc110_dc111_names_that_are_meant(lines: str) -> None:
    assert said(judge(lines + ONE_NODE)) == []


def test_good_dc110_a_name_that_the_configuration_knows() -> None:
    text = "export NCCL_SOCKET_IFNAMES=eth0\n" + ONE_NODE
    assert said(judge(text, known=("NCCL_SOCKET_IFNAMES",))) == []
    assert said(judge(text, known=("NCCL_OTHER",))) == [(1, "DC110", WARNING)]


def test_a_misspelt_name_is_written_right_and_only_where_nothing_else_uses_it() -> None:
    assert fixed("export NCCL_SOCKET_IFNAMES='eth0' # ours\n" + ONE_NODE).startswith(
        "export NCCL_SOCKET_IFNAME='eth0' # ours\n"
    )
    used = "export NCCL_SOCKET_IFNAMES=eth0\necho $NCCL_SOCKET_IFNAMES\n" + ONE_NODE
    assert fixed(used) == used
    neighbour = "export NCCL_SOCKET_IFNAMES=eth0\nexport NCCL_SOCKET_IFNAME=ib0\n" + ONE_NODE
    assert fixed(neighbour) == neighbour


def test_a_renamed_variable_gets_its_new_name() -> None:
    assert fixed("export NCCL_ASYNC_ERROR_HANDLING=1\n" + ONE_NODE).startswith(
        "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n"
    )
    on_the_line = "NCCL_ASYNC_ERROR_HANDLING=1 " + ONE_NODE
    assert fixed(on_the_line) == "TORCH_" + on_the_line


def test_a_name_that_only_new_releases_read_is_not_written_unasked() -> None:
    text = "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000\n" + ONE_NODE
    (finding,) = judge(text)
    assert (finding.code, finding.severity, finding.fix.safe) == ("DC111", INFO, False)
    assert fixed(text) == text
    assert fixed(text, safe=False).startswith("export TORCH_FR_BUFFER_SIZE=2000\n")


@pytest.mark.parametrize("name", ["NCCL_DISABLE_IB", "NCCL_BLOCKING_WAIT", "NCCL_DESYNC_DEBUG", "NCCL_TREE_THRESHOLD"])
def test_no_fix_leads_to_the_next_finding(name: str) -> None:
    """What the new name says would be reported as well: a transport that is off, a setting for debugging."""
    text = f"export {name}=1\n{TWO_NODES}"
    assert said(judge(text)) == [(1, judge(text)[0].code, WARNING)]
    assert fixed(text, safe=False) == text


@given(
    name=st.sampled_from(
        ["NCCL_SOCKET_IFNAMES", "NCCL_DISABLE_IB", "NCCL_IB_GID_IDX", "TORCH_NCCL_ASYNC_ERR_HANDLING"]
    ),
    value=st.sampled_from(["0", "1", "3", "eth0", "'eth0'", '"$X"']),
    launch=st.sampled_from([ONE_NODE, TWO_NODES]),
)
def test_a_safe_fix_leaves_nothing_of_its_kind(name: str, value: str, launch: str) -> None:
    after = fixed(f"export {name}={value}\n{launch}")
    if name not in after:
        assert said(judge(after), INFO) == []


# values


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("export LOGLEVEL=info", ERROR),
        ("export TORCH_DISTRIBUTED_DEBUG=1", ERROR),
        ("export NCCL_P2P_DISABLE=true", ERROR),
        ("export NCCL_IB_TIMEOUT=99", WARNING),
        ("export NCCL_SOCKET_IFNAME='eth0, eth1'", WARNING),
    ],
)
def test_bad_dc112_values_that_are_not_taken_as_they_are_meant(line: str, severity: Severity) -> None:
    assert said(judge(f"{line}\n{ONE_NODE}")) == [(1, "DC112", severity)]


@pytest.mark.parametrize(
    "lines",
    [
        "export NCCL_P2P_DISABLE=$NO_P2P\n",
        "export TORCH_DISTRIBUTED_DEBUG=${LEVEL:-1}\n",
        "export NCCL_BUFFSIZE=$((4 * 1024 * 1024))\n",
        "export NCCL_SOCKET_IFNAME=<your interface>\n",
        "export NCCL_SOCKET_IFNAME='<your interface>'\n",
        "LOGLEVEL=info\n",
        "export NCCL_DEBUG=warn NCCL_IB_TIMEOUT=22\n",
    ],
)
def test_good_dc112_values_that_are_right_or_not_known(lines: str) -> None:
    assert said(judge(lines + ONE_NODE)) == []


def test_good_dc112_what_torchrun_alone_reads_matters_to_torchrun() -> None:
    assert said(judge("export LOGLEVEL=info\npython convert.py\n")) == []


def test_a_value_is_written_as_the_library_reads_it() -> None:
    assert fixed('export NCCL_BUFFSIZE="8MB"\n' + ONE_NODE, safe=False).startswith('export NCCL_BUFFSIZE="8388608"\n')
    kept = 'export NCCL_BUFFSIZE="8MB"\n' + ONE_NODE
    assert fixed(kept) == kept


# leftovers

ONE_TASK = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=4\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export CUDA_LAUNCH_BLOCKING=1\n" + ONE_NODE, [(1, "DC113", WARNING)]),
        (f"{ONE_TASK}#SBATCH --gres=gpu:1\nexport CUDA_LAUNCH_BLOCKING=1\nsrun python a.py\n", [(6, "DC113", WARNING)]),
        (f"{ONE_TASK}#SBATCH --gres=gpu:0\nexport CUDA_LAUNCH_BLOCKING=1\nsrun python a.py\n", [(6, "DC113", INFO)]),
        ("export NCCL_DEBUG=INFO\n" + ONE_NODE, [(1, "DC113", INFO)]),
        ("export NCCL_P2P_DISABLE=1\n" + ONE_NODE, [(1, "DC114", WARNING)]),
        ("NCCL_SHM_DISABLE=1 " + ONE_NODE, [(1, "DC114", WARNING)]),
        # nothing shows that the cards have no peer access
        ("# RTX 3090 with NVLink\n\nexport NCCL_P2P_DISABLE=1\n" + ONE_NODE, [(3, "DC114", WARNING)]),
        ("# RTX 4090 or A100\n\nexport NCCL_P2P_DISABLE=1\n" + ONE_NODE, [(3, "DC114", WARNING)]),
        ("export PORT=4090 NCCL_P2P_DISABLE=1\n" + ONE_NODE, [(1, "DC114", WARNING)]),
        ("LOG_ERROR=1 NCCL_P2P_DISABLE=1 " + ONE_NODE, [(1, "DC114", WARNING)]),
        ("export NCCL_IB_DISABLE=1\n" + TWO_NODES, [(1, "DC114", WARNING)]),
        ("export NCCL_NET=Socket\n" + TWO_NODES, [(1, "DC114", WARNING)]),
        # a loop that starts the nodes is no test
        (
            "for h in a b; do\n  ssh $h 'export CUDA_LAUNCH_BLOCKING=1; torchrun --nproc_per_node=2 train.py' &\ndone\n",
            [(2, "DC113", WARNING)],
        ),
        ("for h in a b; do\n  ssh $h NCCL_P2P_DISABLE=1 " + ONE_NODE + "done\n", [(2, "DC114", WARNING)]),
        # nothing faster is known to be there
        ("export NCCL_IB_DISABLE=1\n" + ONE_NODE, [(1, "DC114", INFO)]),
        ("export NCCL_P2P_DISABLE=1\npython train.py\n", [(1, "DC114", INFO)]),
        ("export NCCL_P2P_DISABLE=1\n", [(1, "DC114", INFO)]),
        ("export NCCL_IB_DISABLE=1\ntorchrun --nnodes=$N --nproc_per_node=8 train.py\n", [(1, "DC114", INFO)]),
    ],
)
def test_bad_dc113_dc114_what_is_left_over(text: str, expected: list[tuple[int, str, Severity]]) -> None:
    assert said(judge(text), INFO) == expected


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('if [ "$DEBUG" = 1 ]; then\n  export CUDA_LAUNCH_BLOCKING=1\nfi\n' + ONE_NODE, "run.sh"),
        ("export CUDA_LAUNCH_BLOCKING=1\n" + ONE_NODE, "debug_rank.sh"),
        ("export CUDA_LAUNCH_BLOCKING=1 # for debugging only\n" + ONE_NODE, "run.sh"),
        ("# no InfiniBand on these machines\nexport NCCL_IB_DISABLE=1\n" + TWO_NODES, "run.sh"),
        ("export NCCL_P2P_DISABLE=1  # hangs on our 4090s\n" + ONE_NODE, "run.sh"),
        ("NCCL_P2P_DISABLE=1 torchrun --nproc_per_node=2 all_reduce_test.py\n", "run.sh"),
        ("# two RTX 4090\n\nexport NCCL_P2P_DISABLE=1\n" + ONE_NODE, "run.sh"),
        ("# \u53cc\u53614090\n\nexport NCCL_P2P_DISABLE=1\n" + ONE_NODE, "run.sh"),
        ("export NCCL_P2P_DISABLE=1\necho 'P2P is off: it hangs'\n" + ONE_NODE, "run.sh"),
        ("export CUDA_LAUNCH_BLOCKING=0 NCCL_P2P_DISABLE=0\n" + ONE_NODE, "run.sh"),
    ],
)
def test_good_dc113_dc114_what_is_meant(text: str, path: str) -> None:
    assert said(judge(text, path)) == []


def test_a_folder_of_tests_makes_no_script_a_diagnostic() -> None:
    assert said(judge("export CUDA_LAUNCH_BLOCKING=1\n" + ONE_NODE, "tests/run.sh")) == [(1, "DC113", WARNING)]


def test_good_dc114_p2p_of_cards_that_have_none() -> None:
    text = "export NCCL_P2P_DISABLE=1\n" + ONE_NODE
    assert said(judge(text, nodes=Nodes("facts.json", gpus=8, gpu_name="NVIDIA GeForce RTX 4090"))) == []
    assert said(judge(text, nodes=Nodes("facts.json", gpus=8, gpu_name="NVIDIA H100 80GB HBM3"))) != []


def test_the_launch_line_that_suffers_most_decides() -> None:
    text = "export NCCL_IB_DISABLE=1\npython prepare.py\n" + ONE_NODE + TWO_NODES
    assert said(judge(text), INFO) == [(1, "DC114", WARNING)]


# masks


@pytest.mark.parametrize(
    ("value", "left"),
    [("'\"0,1\"'", 0), ("0,1,1", 0), ("all", 0), ("0-7", 1), ("0,1,x,3", 2), ("0;1", 1), ("GPU-aa,0", 1)],
)
def test_bad_dc204_masks_that_hide_more_than_they_say(value: str, left: int) -> None:
    quoted = f"'{value}'" if ";" in value else value
    (finding,) = judge(f"export CUDA_VISIBLE_DEVICES={quoted}\n{ONE_NODE}")
    assert (finding.code, finding.severity, finding.evidence["left"]) == ("DC204", ERROR, left)


@pytest.mark.parametrize("value", ["0,1,2,3", "'0, 1'", '""', "-1", "$GPUS", "GPU-8932f937,GPU-5a1b2c3d", "none", "4"])
def test_good_dc204_masks(value: str) -> None:
    assert said(judge(f"export CUDA_VISIBLE_DEVICES={value}\npython train.py\n")) == []


def test_a_mask_is_compared_with_the_nodes_that_are_stated() -> None:
    text = "export CUDA_VISIBLE_DEVICES=4,5,6,7\ntorchrun --standalone --nproc_per_node=4 train.py\n"
    assert said(judge(text)) == []
    (finding,) = judge(text, nodes=Nodes("facts.json", gpus=4))
    assert (finding.code, finding.severity) == ("DC204", ERROR)
    assert "facts.json" in finding.message


def test_a_mask_is_written_as_cuda_reads_it() -> None:
    assert fixed("export CUDA_VISIBLE_DEVICES=0-3\n" + ONE_NODE.replace("=8", "=4"), safe=False).startswith(
        "export CUDA_VISIBLE_DEVICES=0,1,2,3\n"
    )


# interfaces


@pytest.mark.parametrize("value", ["lo", "=lo", "docker0", "lo,docker", "veth"])
def test_bad_dc406_interfaces_that_stay_on_their_node(value: str) -> None:
    assert said(judge(f"export NCCL_SOCKET_IFNAME={value}\n{TWO_NODES}")) == [(1, "DC406", WARNING)]


@pytest.mark.parametrize(
    ("value", "launch"),
    [
        ("lo", ONE_NODE),
        ("lo", "torchrun --nnodes=$N --nproc_per_node=8 train.py\n"),
        # two nodes that are played by one machine
        ("lo", "torchrun --nnodes=2 --node_rank=0 --nproc_per_node=1 --master_addr=127.0.0.1 --master_port=1 t.py &\n"),
        ("^lo,docker", TWO_NODES),
        ("eth", TWO_NODES),
        ("tun0", TWO_NODES),
        ("lo,eth0", TWO_NODES),
        ("$IFACE", TWO_NODES),
    ],
)
def test_good_dc406_interfaces(value: str, launch: str) -> None:
    assert said(judge(f"export NCCL_SOCKET_IFNAME={value}\n{launch}")) == []


def test_bad_dc406_an_interface_that_the_nodes_lack() -> None:
    nodes = Nodes("facts.json", interfaces=("lo", "docker0", "bond0"))
    text = "export NCCL_SOCKET_IFNAME=eth0\n" + ONE_NODE
    (finding,) = judge(text, nodes=nodes)
    assert (finding.code, finding.severity) == ("DC406", ERROR)
    assert "NCCL_SOCKET_IFNAME==bond0" in finding.fix.text
    assert said(judge("export NCCL_SOCKET_IFNAME=bond\n" + ONE_NODE, nodes=nodes)) == []


# places


def test_a_variable_in_a_manifest_and_in_an_image() -> None:
    image = "FROM x\nENV NCCL_SOCKET_IFNAMES=eth0\nCMD torchrun --standalone --nproc_per_node=2 train.py\n"
    assert said(judge(image, "Dockerfile")) == [(2, "DC110", WARNING)]
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: t}\nspec:\n  containers:\n  - name: t\n    image: i\n"
        "    command: [torchrun, --nproc_per_node=2, train.py]\n    env:\n    - name: NCCL_BUFFSIZE\n"
        "      value: 8MB\n"
    )
    assert said(judge(pod, "pod.yaml")) == [(10, "DC112", ERROR)]
    # a number in YAML would be no text
    assert 'value: "8388608"' in fixed(pod, "pod.yaml", safe=False)


def test_an_assignment_in_a_sourced_file_is_said_once_and_fixed_there() -> None:
    texts = {
        "run.sh": "source ./env.sh\n" + ONE_NODE,
        "other.sh": ". ./env.sh\n" + ONE_NODE,
        "env.sh": "export NCCL_ASYNC_ERROR_HANDLING=1\n",
    }
    (finding,) = judge_files(texts)
    assert (finding.where.path, finding.where.line, finding.code) == ("env.sh", 1, "DC111")
    assert [edit.path for edit in finding.fix.edits] == ["env.sh"]


def test_a_credential_in_a_value_is_not_shown() -> None:
    findings = judge("export NCCL_SOCKET_IFNAMES=hf_abcdefghijklmnopqrstuvwxyz012345\n" + ONE_NODE)
    assert findings
    assert "hf_abc" not in repr(findings)


def test_a_line_that_a_fix_shows_is_the_line_that_it_makes() -> None:
    (finding,) = judge("  export NCCL_SOCKET_IFNAMES=eth0;  echo\n" + ONE_NODE)
    assert "call it NCCL_SOCKET_IFNAME: export NCCL_SOCKET_IFNAME=eth0;  echo" in finding.fix.text


def test_a_file_that_a_program_made_is_judged_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = 60
    text = "".join(f"export NCCL_DEBU{number}=1 X{number}=1; {ONE_NODE}" for number in range(lines))
    found = said(judge(text), INFO)
    assert [(line, code) for line, code, _ in found] == [(number, "DC110") for number in range(1, lines + 1)]
    monkeypatch.setattr(room, "_MAX_PAIRS", 100)
    assert said(judge(text), INFO) == found


def test_dc113_a_document_shows_how_to_search_for_an_error() -> None:
    one = "```bash\nNCCL_DEBUG=INFO torchrun --standalone --nproc_per_node=8 train.py\n```\n"
    assert judge(one, "README.md") == []
    all_commands = "```bash\nexport NCCL_DEBUG=INFO\ntorchrun --standalone --nproc_per_node=8 train.py\n```\n"
    assert said(judge(all_commands, "README.md"), least=INFO) == [(2, "DC113", INFO)]
