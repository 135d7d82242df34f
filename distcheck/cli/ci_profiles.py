"""The profiles of ``distcheck ci``, as data: their parts, the rules that are off, and the rules that must be checked.

A profile states what differs between a CI runner, a login node, a GPU node and a container, and why. ``--show-profile``
prints it, and the documentation shows the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: What ``distcheck ci`` can do, by the name that a finding carries.
PARTS: Mapping[str, str] = {
    "lint": "read training scripts and launch files",
    "env": "check this process and this host",
    "smoke": "start ranks and verify all collectives; needs torch",
    "pickle": "check the checkpoints and pickles of the repository; only with --pickle",
}
#: Rules of ``env`` about GPUs, their driver and what belongs to them.
GPU_RULES = (
    "DC203", "DC204", "DC205", "DC221", "DC30", "DC310", "DC311", "DC312", "DC313", "DC314", "DC326", "DC333", "DC335",
    "DC336", "DC337",
)  # fmt: skip
#: Rules of ``env`` about the network between nodes.
FABRIC_RULES = ("DC406", "DC413", "DC414", "DC415", "DC416", "DC417", "DC418", "DC420")
#: What can be checked on each working GPU node. (DC312, DC335 and DC336 are not included: older GPUs, some builds of
#: torch and some containers do not report them.)
REQUIRED_RULES = (
    "DC301", "DC304", "DC305", "DC307", "DC309", "DC310", "DC313", "DC314", "DC320", "DC321", "DC322", "DC323", "DC324",
    "DC325", "DC327", "DC406", "DC413", "DC414", "DC415", "DC416",
)  # fmt: skip


class SilencedRules(NamedTuple):
    """Rules of ``env`` that are off, and why."""

    codes: tuple[str, ...]
    why: str
    #: only if no GPU is usable
    without_gpus: bool = False


class Profile(NamedTuple):
    """The settings of one kind of host."""

    name: str
    #: what it is for, in one sentence
    text: str
    #: the parts, most important first: if time is short, the last ones are not checked
    parts: tuple[str, ...]
    #: ranks of the launch that ``env`` checks: "" no launch, ``gpu`` one per GPU, ``any`` also 2 without GPUs
    ranks: str = ""
    #: the smoke test uses NCCL if two or more GPUs are usable, else 2 ranks with gloo on the CPU
    nccl: bool = False
    silent: tuple[SilencedRules, ...] = ()
    #: rules without which the status is 3
    must_check: tuple[str, ...] = ()

    def ignored(self, gpus: int) -> tuple[str, ...]:
        """Return the rules of ``env`` that are off.

        :param gpus: usable GPUs
        """
        return tuple(code for item in self.silent if not (item.without_gpus and gpus) for code in item.codes)


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "ci",
            "a pull request on a runner without GPUs",
            ("lint", "env", "smoke"),
            silent=(
                SilencedRules(GPU_RULES, "no GPU is expected"),
                SilencedRules(FABRIC_RULES, "a runner is not on the training network"),
            ),
        ),
        Profile(
            "login-node",
            "before a job is submitted: the code, the launch files, and the variables that the job inherits",
            ("lint", "env"),
            silent=(SilencedRules(("DC2", "DC3", "DC4", "DC5"), "the job does not run on this host"),),
        ),
        Profile(
            "gpu-node",
            "a node before it takes jobs, or the first step of one",
            ("env", "smoke"),
            ranks="gpu",
            nccl=True,
            must_check=(*REQUIRED_RULES, "DC510"),
        ),
        Profile(
            "container",
            "an image, as a job will use it",
            ("env", "smoke"),
            ranks="any",
            nccl=True,
            silent=(
                SilencedRules((*GPU_RULES, *FABRIC_RULES), "the image is checked without GPUs", without_gpus=True),
                SilencedRules(("DC330",), "the smoke test reports a missing torch"),
            ),
        ),
    )
}

#: Variables that a CI system sets in each of its jobs; the one that most systems set is last.
CI_VARIABLES = (
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "JENKINS_URL",
    "TF_BUILD",
    "BUILDKITE",
    "CIRCLECI",
    "TEAMCITY_VERSION",
    "CI",
)
#: Commands that submit a job to other nodes.
SUBMITTERS = ("sbatch", "qsub", "bsub")


class CiEnvironment(NamedTuple):
    """The facts that the choice of a profile depends on."""

    #: the variable that a CI system sets
    ci_variable: str | None = None
    #: usable GPUs
    gpus: int = 0
    #: a scheduler's command for submission, outside of its jobs
    submitter: str | None = None
    container: str | None = None
    #: the working folder belongs to a repository or a project
    repository: bool = False


class ProfileChoice(NamedTuple):
    """A profile, and why it was chosen."""

    profile: Profile
    why: str


def choose(seen: CiEnvironment) -> ProfileChoice:
    """Return the profile that fits this environment."""
    if seen.ci_variable is not None:
        return ProfileChoice(PROFILES["ci"], f"{seen.ci_variable} is set")
    if seen.gpus:
        return ProfileChoice(PROFILES["gpu-node"], f"{seen.gpus} GPU{'s' * (seen.gpus != 1)} can be used")
    if seen.submitter is not None:
        return ProfileChoice(PROFILES["login-node"], f"{seen.submitter} is here, and this is no job of it")
    if seen.container is not None and not seen.repository:
        return ProfileChoice(PROFILES["container"], f"in a {seen.container} container")
    return ProfileChoice(PROFILES["ci"], "no other profile fits")


def rows(profile: Profile) -> list[tuple[str, str]]:
    """Return what a profile runs, as rows of a table."""
    table = [("for", profile.text), ("parts", ", ".join(profile.parts))]
    table.append(
        (
            "env checks",
            {
                "": "this host; no launch is planned",
                "gpu": "a launch of one rank per GPU",
                "any": "a launch of one rank per GPU, or of 2 ranks with gloo",
            }[profile.ranks],
        )
    )
    if "smoke" in profile.parts:
        table.append(
            ("smoke", "NCCL on all GPUs; 2 ranks with gloo below two GPUs" if profile.nccl else "2 ranks with gloo")
        )
    for item in profile.silent:
        where = ", if no GPU is usable" if item.without_gpus else ""
        table.append((f"off in env{where}", f"{', '.join(item.codes)}: {item.why}"))
    if profile.must_check:
        table.append(("exit 3 if not checked", ", ".join(profile.must_check)))
    return table
