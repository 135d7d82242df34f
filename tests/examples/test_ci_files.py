"""The action, the hooks and the examples for CI systems: right by the systems' own schemas, and run as they run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import distcheck
from distcheck.checks.pickles.formats import PROMISING
from distcheck.checks.source.discovery import LAUNCH_SUFFIXES, SUFFIXES, may_be_a_launch_file
from distcheck.cli import scaffold
from distcheck.cli.installation import Installation
from distcheck.reporters import FORMATS
from tests.cli.test_ci import BAD, GOOD, environment

ROOT = Path(__file__).parent.parent.parent
ACTION = ROOT / "action.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
EXAMPLES = ROOT / "examples" / "ci"
VERSION = distcheck.__version__
posix = pytest.mark.skipif(os.name != "posix", reason="the steps are run with a POSIX system's bash")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def written(system: str, folder: Path) -> Path:
    """What ``distcheck init`` writes for a system."""
    for change in scaffold.propose(str(folder), [system], installation=Installation(f"distcheck=={VERSION}")).changes:
        if change.path.endswith((".yml", ".yaml")):
            path = folder / change.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change.new)
            return path
    raise AssertionError(system)


# schemas that others ship


def check(schema: str, path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """check-jsonschema carries the schemas of schemastore.org and of the systems themselves."""
    pytest.importorskip("check_jsonschema")
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *words, str(path)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


SCHEMAS = [
    ("github-actions", ACTION, ()),
    ("github-workflows", EXAMPLES / "github.yml", ()),
    ("gitlab-ci", EXAMPLES / "gitlab.yml", ("--data-transform", "gitlab-ci")),
    # its patterns are no valid ECMA-262 with the flag u
    (
        "azure-pipelines",
        EXAMPLES / "azure-pipelines.yml",
        ("--data-transform", "azure-pipelines", "--regex-variant", "python"),
    ),
]


@pytest.mark.parametrize(("schema", "path", "words"), SCHEMAS, ids=[schema for schema, *_ in SCHEMAS])
def test_a_file_is_right_by_the_systems_schema(schema: str, path: Path, words: Sequence[str]) -> None:
    result = check(schema, path, *words)
    assert result.returncode == 0, result.stdout


def test_the_schemas_refuse_what_is_wrong(tmp_path: Path) -> None:
    broken = read(ACTION)
    broken["runs"]["steps"][0].pop("shell")
    (tmp_path / "action.yml").write_text(yaml.safe_dump(broken))
    assert check("github-actions", tmp_path / "action.yml").returncode == 1


@pytest.mark.parametrize(
    ("system", "schema", "words"),
    [("github", "github-workflows", ()), ("gitlab", "gitlab-ci", ("--data-transform", "gitlab-ci"))],
)
def test_what_init_writes_is_right_by_the_systems_schema(
    tmp_path: Path, system: str, schema: str, words: Sequence[str]
) -> None:
    result = check(schema, written(system, tmp_path), *words)
    assert result.returncode == 0, result.stdout


def test_the_azure_lines_of_the_documentation_are_right(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"## Azure Pipelines\n\n```yaml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "azure-pipelines.yml"
    path.write_text(block)
    result = check("azure-pipelines", path, "--data-transform", "azure-pipelines", "--regex-variant", "python")
    assert result.returncode == 0, result.stdout


def test_what_has_no_release_names_a_commit_and_says_so() -> None:
    for path in (EXAMPLES / "github.yml", ROOT / "docs" / "ci.md", ROOT / "docs" / "walkthrough.md"):
        text = path.read_text(encoding="utf-8")
        assert "no release yet" in text
        assert "distcheck@COMMIT" in text


def test_examples_and_pages_name_no_release_and_formats_that_there_are() -> None:
    examples = [path.read_text(encoding="utf-8") for path in EXAMPLES.iterdir()]
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
    pages |= {path: path.read_text(encoding="utf-8") for path in (ROOT / "distcheck" / "rules").rglob("*.md")}
    assert len(examples) == 4
    for text in (*examples, *pages.values()):
        # what is not on an index can't be installed from one
        assert not re.search(r"pip install '?distcheck\b|distcheck==\d|distcheck@v\d|VERSION: \"", text)
        assert not re.search(r"repo: \S+/distcheck\n +rev: v", text)
    for text in (*examples, pages[ROOT / "docs" / "ci.md"]):
        for chosen in re.findall(r"--also ([\w-]+)=[^ \n]", text):
            assert chosen in (*FORMATS, "FORMAT")


# the action


def steps() -> dict[str, Any]:
    return {step["name"]: step for step in read(ACTION)["runs"]["steps"]}


def test_no_input_is_part_of_a_script() -> None:
    """What a pull request can name (a branch, a file) would run as shell text there."""
    for step in steps().values():
        assert "${{" not in step.get("run", "")
    given = json.dumps([step.get("env", {}) for step in steps().values()])
    for name in read(ACTION)["inputs"]:
        assert f"inputs.{name} }}}}" in given, f"{name} is not used"


def test_actions_of_others_are_named_by_their_major_version() -> None:
    used = [step["uses"] for step in steps().values() if "uses" in step]
    used += [step["uses"] for step in read(EXAMPLES / "github.yml")["jobs"]["distcheck"]["steps"] if "uses" in step]
    for name in used:
        assert name == "distcheck/distcheck@COMMIT" or re.fullmatch(r"[\w-]+/[\w/-]+@v\d+", name)


def test_shellcheck_has_nothing_to_say_of_the_scripts(tmp_path: Path) -> None:
    program = shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("there is no shellcheck")
    for name, step in steps().items():
        if "run" in step:
            (tmp_path / "step.sh").write_text(f"#!/bin/bash\n{step['run']}")
            result = subprocess.run([program, str(tmp_path / "step.sh")], capture_output=True, text=True, timeout=60)
            assert result.returncode == 0, f"{name}\n{result.stdout}"


class Job:
    """What a runner gives to the steps of an action."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.temp = folder / "temp"
        for path in (self.workspace, self.temp):
            path.mkdir()
        self.output, self.summary = folder / "output", folder / "summary"
        for path in (self.output, self.summary):
            path.write_text("")

    def install(self) -> None:
        """In place of the step that installs: this very package."""
        script = self.temp / "distcheck" / "bin" / "distcheck"
        script.parent.mkdir(parents=True)
        script.write_text(f"#!{sys.executable}\nfrom distcheck.cli.fast_path import main\nmain()\n")
        script.chmod(0o755)

    def step(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step as the runner does (``shell: bash``), with these inputs and the defaults of the others."""
        step = steps()[name]
        values = {key: str(value.get("default", "")) for key, value in read(ACTION)["inputs"].items()}
        values.update({key.replace("_", "-"): value for key, value in inputs.items()})
        values["python"] = sys.executable
        given = {
            key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], text)
            for key, text in step["env"].items()
        }
        script = self.temp / "step.sh"
        script.write_text(step["run"])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace, capture_output=True, text=True, timeout=300,
            env=environment(
                **given, RUNNER_TEMP=str(self.temp), GITHUB_ACTION_PATH=str(ROOT), GITHUB_ACTIONS="true",
                GITHUB_OUTPUT=str(self.output), GITHUB_STEP_SUMMARY=str(self.summary), GITHUB_WORKSPACE=str(self.workspace),
            ),
        )  # fmt: skip

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path)
    made.install()
    (made.workspace / "train.py").write_text(BAD)
    return made


@posix
def test_the_action_annotates_summarises_and_fails_with_our_status(job: Job) -> None:
    result = job.step("Run distcheck", args="--parts lint", sarif="true")
    assert result.returncode == 1, result.stderr
    assert result.stdout.startswith("::error file=train.py,line=5")
    assert "DC709" in job.summary.read_text()
    assert job.outputs() == {"exit-status": "1", "sarif-file": str(job.temp / "distcheck.sarif")}
    sarif = json.loads((job.temp / "distcheck.sarif").read_text())
    assert sarif["version"] == "2.1.0" and sarif["runs"][0]["results"][0]["ruleId"] == "DC709"


@posix
def test_the_action_ends_with_0_and_leaves_out_what_is_not_asked_for(job: Job) -> None:
    (job.workspace / "good file.py").write_text(GOOD)
    result = job.step(
        "Run distcheck", args="--parts lint", paths="'good file.py'", summary="false", output_format="full"
    )
    assert result.returncode == 0, result.stderr
    assert "lint: 1 file" in result.stdout
    assert job.outputs() == {"exit-status": "0"}
    assert job.summary.read_text() == ""


@posix
def test_the_action_runs_the_other_commands_with_all_their_outputs(job: Job) -> None:
    result = job.step(
        "Run distcheck", command="lint", paths="train.py", args="--select DC709\n--no-cache", sarif="true"
    )
    assert result.returncode == 1, result.stderr
    assert job.outputs() == {"exit-status": "1", "sarif-file": str(job.temp / "distcheck.sarif")}
    assert "DC709" in job.summary.read_text()
    judged = job.step(
        "Run distcheck", command="env", paths="torchrun --nproc-per-node=2 train.py", output_format="json"
    )
    assert json.loads(judged.stdout)["stage"] == "planned"


@posix
@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"command": "rules; touch pwned"}, "command: expected ci"),
        ({"args": "--nonsense"}, "No such option"),
        ({"paths": "nowhere.py"}, "no such file"),
        ({"output_format": "pdf"}, "Invalid value"),
    ],
)
def test_the_action_used_wrongly_ends_with_2(job: Job, inputs: Mapping[str, str], said: str) -> None:
    result = job.step("Run distcheck", **inputs)
    assert result.returncode == 2
    assert said in result.stdout + result.stderr
    assert job.outputs().get("exit-status", "2") == "2"


@posix
@pytest.mark.parametrize(
    "text", ["$(touch pwned)", "`touch pwned`", "; touch pwned", "x' ; touch pwned; '", '" ; touch pwned']
)
def test_nothing_of_an_input_is_run(job: Job, text: str) -> None:
    job.step("Run distcheck", **dict.fromkeys(("paths", "args", "output_format", "sarif", "summary"), text))
    assert job.step("Run distcheck", command=text).returncode == 2
    assert job.step("Install distcheck", version=text).returncode == 2
    assert not list(job.workspace.glob("*pwned*")) and not list(job.temp.glob("*pwned*"))


@posix
def test_the_code_that_is_checked_is_not_imported(job: Job) -> None:
    """A pull request may bring a click.py of its own."""
    for name in ("click.py", "yaml.py", "pathspec.py", "distcheck.py"):
        (job.workspace / name).write_text("import pathlib\npathlib.Path('pwned').touch()\n")
    result = job.step("Run distcheck", args="--parts lint,env")
    assert result.returncode == 1, result.stderr
    assert not (job.workspace / "pwned").exists()


@posix
@pytest.mark.slow
@pytest.mark.full  # what the action installs is installed by tests/cli/test_installation.py, and its commands run above
def test_the_action_installs_itself_beside_the_packages_of_the_job(tmp_path: Path) -> None:
    job = Job(tmp_path)
    (job.workspace / "train.py").write_text(BAD)
    assert job.step("Install distcheck", version="1.0; touch pwned").returncode == 2
    # pip builds in the folder that it is given: not in ours
    copy = tmp_path / "action"
    copy_of_the_project(copy)
    script = steps()["Install distcheck"]["run"].replace('"$GITHUB_ACTION_PATH"', f'"{copy}"')
    (tmp_path / "install.sh").write_text(script)
    result = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(tmp_path / "install.sh")],
        env={**os.environ, "RUNNER_TEMP": str(job.temp), "DISTCHECK_ACTION_PYTHON": sys.executable, "DISTCHECK_ACTION_VERSION": ""},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert (job.temp / "distcheck" / "click").is_dir()
    assert job.step("Run distcheck", args="--parts lint").returncode == 1


# pre-commit


def hooks() -> dict[str, Any]:
    return {hook["id"]: hook for hook in read(HOOKS)}


def test_pre_commit_takes_the_manifest() -> None:
    pytest.importorskip("pre_commit")
    result = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-manifest", str(HOOKS)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stdout


def test_the_hook_takes_the_files_that_lint_takes() -> None:
    pattern = hooks()["distcheck-lint"]["files"]
    assert pattern == scaffold.HOOK_FILES
    names = [f"train{suffix}" for suffix in (*SUFFIXES, *LAUNCH_SUFFIXES)]
    names += [
        "Dockerfile",
        "docker/Dockerfile.train",
        "train.dockerfile",
        "GNUmakefile",
        "Makefile",
        "hostfile",
        "my_host_file.txt",
    ]
    names += ["machinefile", "a/b/train.SBATCH".lower(), "Containerfile"]
    for name in names:
        assert re.search(pattern, name), name
        last = name.rpartition("/")[2]
        assert last.endswith(SUFFIXES) or may_be_a_launch_file(last), name
    for name in ("README.md", "setup.cfg", "data.csv", "train.pyc", "model.pt", "notes.txt", "py"):
        assert not re.search(pattern, name), name
        assert "." not in name or not (name.endswith(SUFFIXES) or may_be_a_launch_file(name)), name


def test_the_hook_for_checkpoints_takes_the_endings_of_checkpoints() -> None:
    pattern = hooks()["distcheck-pickle"]["files"]
    for suffix in PROMISING:
        assert re.search(pattern, f"a/model{suffix}"), suffix
    assert not re.search(pattern, "train.py") and not re.search(pattern, "pt")


def copy_of_the_project(folder: Path) -> None:
    """What a clone of it would hold of what an installation needs."""
    shutil.copytree(ROOT / "distcheck", folder / "distcheck", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "setup.cfg", "README.md", "LICENSE", ".pre-commit-hooks.yaml", "action.yml"):
        shutil.copy(ROOT / name, folder / name)


def git(folder: Path, *words: str) -> str:
    who = [
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@example.org",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "init.defaultBranch=main",
    ]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout


@pytest.mark.slow
def test_pre_commit_itself_runs_the_hooks(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    hook_repository, project = tmp_path / "hooks", tmp_path / "project"
    hook_repository.mkdir()
    copy_of_the_project(hook_repository)
    git(hook_repository, "init", "-q")
    git(hook_repository, "add", "-A")
    git(hook_repository, "commit", "-qm", "x")
    revision = git(hook_repository, "rev-parse", "HEAD").strip()
    project.mkdir()
    git(project, "init", "-q")
    (project / ".pre-commit-config.yaml").write_text(
        yaml.safe_dump(
            {"repos": [{"repo": str(hook_repository), "rev": revision, "hooks": [{"id": name} for name in hooks()]}]}
        )
    )
    (project / "train.py").write_text(BAD)
    (project / "model.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    (project / "README.md").write_text("nothing\n")
    git(project, "add", "-A")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))}
    variables = {**kept, "PRE_COMMIT_HOME": str(tmp_path / "cache"), "PRE_COMMIT_COLOR": "never"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", *words],
            cwd=project, env=variables, capture_output=True, text=True, timeout=400,
        )  # fmt: skip

    result = run()
    if "No matching distribution" in result.stdout or "Could not find a version" in result.stdout:
        pytest.skip("pip can install nothing here: there is no package index to be reached")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "DC709" in result.stdout and "train.py:5" in result.stdout
    assert "DC610" in result.stdout and "model.pkl" in result.stdout

    (project / "train.py").write_text(GOOD)
    (project / "model.pkl").write_bytes(b"]q\x00.")
    git(project, "add", "-A")
    result = run()
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("Passed") == 2

    # what init writes installs the same once more, from a package index; here it finds it
    config = yaml.safe_load(scaffold.pre_commit_hook(Installation(f"distcheck=={VERSION}")))
    (hook,) = config[0]["hooks"]
    assert hook.pop("additional_dependencies") == [f"distcheck=={VERSION}"]
    hook.update(language="system", entry=f"env PYTHONPATH={ROOT} {sys.executable} -m {hook['entry']}")
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": config}))
    (project / "train.py").write_text(BAD)
    git(project, "add", "-A")
    result = run("distcheck-lint")
    assert result.returncode == 1 and "DC709" in result.stdout, result.stdout + result.stderr


# scripts of the other systems


def run_lines(lines: Sequence[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Lines of a job one after another, as a runner runs them; pip has installed this very package."""
    tools = folder / ".bin"
    tools.mkdir(exist_ok=True)
    for name, text in (
        ("distcheck", f"#!{sys.executable}\nfrom distcheck.cli.fast_path import main\nmain()\n"),
        ("python", f'#!/bin/sh\n[ "$1 $2 $3" = "-m pip install" ] || exec "{sys.executable}" "$@"\n'),
        ("python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    given = {**variables, "PATH": f"{tools}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder, env=environment(**given), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@posix
def test_the_job_for_gitlab_leaves_a_report_that_gitlab_reads(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BAD)
    whole = read(EXAMPLES / "gitlab.yml")
    # in place of the file that the repository keeps: this very package
    (tmp_path / ".distcheck").mkdir()
    (tmp_path / ".distcheck" / "distcheck.pyz").write_text(
        f"import sys\nsys.path[:0] = {sys.path!r}\nfrom distcheck.cli.fast_path import main\nmain()\n"
    )
    result = run_lines(
        whole["distcheck"]["script"], tmp_path, **whole["variables"], DISTCHECK_CI_PARTS="lint", GITLAB_CI="true"
    )
    assert result.returncode == 1 and "DC709" in result.stdout, result.stderr
    (issue,) = json.loads((tmp_path / whole["distcheck"]["artifacts"]["reports"]["codequality"]).read_text())
    assert issue["location"]["path"] == "train.py" and issue["fingerprint"]
    assert "DC709" in (tmp_path / whole["distcheck"]["artifacts"]["reports"]["junit"]).read_text()


@posix
@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_the_lines_that_init_writes_run(tmp_path: Path, system: str) -> None:
    (tmp_path / "train.py").write_text(BAD)
    job = read(written(system, tmp_path))
    if system == "gitlab":
        lines = job["distcheck"]["script"]
    else:
        lines = [step["run"] for step in job["jobs"]["distcheck"]["steps"] if "run" in step]
    summary = tmp_path / "summary"
    result = run_lines(lines, tmp_path, DISTCHECK_CI_PARTS="lint", GITHUB_STEP_SUMMARY=str(summary))
    assert result.returncode == 1, result.stderr
    made = summary if system == "github" else tmp_path / "gl-code-quality-report.json"
    assert "DC709" in made.read_text()
