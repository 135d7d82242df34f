"""Where ``distcheck ci`` runs, as data: which parts it has there, which rules keep silent, which must be checked.

A profile says what differs between a CI runner, a login node, a GPU node and a container, and why. Everything here is a
value: the command asks it, ``--show-profile`` prints it, and the documentation shows the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: What ``distcheck ci`` can do, by the name that a finding carries.
PARTS: Mapping[str, str] = {
    "lint": "read training scripts and launch files",
    "env": "look at this process and this host",
    "smoke": "start ranks and prove every collective; needs torch",
    "pickle": "judge the checkpoints and pickles of the repository; with --pickle only",
}
#: Rules of ``env`` about GPUs, their driver and what belongs to them.
GPU_RULES = (
    "DC203", "DC204", "DC205", "DC221", "DC30", "DC310", "DC311", "DC312", "DC313", "DC314", "DC326", "DC333", "DC335",
    "DC336", "DC337",
)  # fmt: skip
#: Rules of ``env`` about the network between nodes.
FABRIC_RULES = ("DC406", "DC413", "DC414", "DC415", "DC416", "DC417", "DC418", "DC420")
#: What can be looked at on every sound GPU node; where one of these can't be, it is none. (DC312, DC335 and DC336 are
#: not among them: older GPUs, some builds of torch and some containers do not tell.)
REQUIRED_RULES = (
    "DC301", "DC304", "DC305", "DC307", "DC309", "DC310", "DC313", "DC314", "DC320", "DC321", "DC322", "DC323", "DC324",
    "DC325", "DC327", "DC406", "DC413", "DC414", "DC415", "DC416",
)  # fmt: skip


class SilencedRules(NamedTuple):
    """Rules of ``env`` that keep silent, and why."""

    codes: tuple[str, ...]
    why: str
    #: only where no GPU can be used
    without_gpus: bool = False


class Profile(NamedTuple):
    """One kind of place."""

    name: str
    #: what it is for, in one sentence
    text: str
    #: the parts, in the order of their value: where the time is short, the last ones are not checked
    parts: tuple[str, ...]
    #: ranks of the launch that ``env`` judges: "" none is planned, ``gpu`` one a GPU, ``any`` one a GPU or else 2
    ranks: str = ""
    #: the smoke test takes NCCL where two GPUs or more can be used; else 2 ranks with gloo, on the CPU
    nccl: bool = False
    silent: tuple[SilencedRules, ...] = ()
    #: rules without which the status is 3
    must_check: tuple[str, ...] = ()

    def ignored(self, gpus: int) -> tuple[str, ...]:
        """The rules of ``env`` that keep silent here.

        :param gpus: GPUs that can be used
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
            "an image, as a job will find it",
            ("env", "smoke"),
            ranks="any",
            nccl=True,
            silent=(
                SilencedRules(
                    (*GPU_RULES, *FABRIC_RULES), "the image is looked at without its GPUs", without_gpus=True
                ),
                SilencedRules(("DC330",), "the smoke test says it where torch is missing"),
            ),
        ),
    )
}

#: Variables that a CI system sets in each of its jobs, the systems' own before the one that most set.
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
#: Commands that hand a job over to other nodes.
SUBMITTERS = ("sbatch", "qsub", "bsub")


class CiEnvironment(NamedTuple):
    """What the choice of a profile depends on."""

    #: the variable by which a CI system shows itself
    ci_variable: str | None = None
    #: GPUs that can be used
    gpus: int = 0
    #: the command of a scheduler, outside of its jobs
    submitter: str | None = None
    container: str | None = None
    #: the working folder belongs to a repository, or is a project's
    repository: bool = False


class ProfileChoice(NamedTuple):
    """A profile, and why it was taken."""

    profile: Profile
    why: str


def choose(seen: CiEnvironment) -> ProfileChoice:
    """The profile that fits where nobody named one."""
    if seen.ci_variable is not None:
        return ProfileChoice(PROFILES["ci"], f"{seen.ci_variable} is set")
    if seen.gpus:
        return ProfileChoice(PROFILES["gpu-node"], f"{seen.gpus} GPU{'s' * (seen.gpus != 1)} can be used")
    if seen.submitter is not None:
        return ProfileChoice(PROFILES["login-node"], f"{seen.submitter} is here, and this is no job of it")
    if seen.container is not None and not seen.repository:
        return ProfileChoice(PROFILES["container"], f"in a {seen.container} container")
    return ProfileChoice(PROFILES["ci"], "nothing here says more")


def rows(profile: Profile) -> list[tuple[str, str]]:
    """What a profile means, as lines of a table: what, and how it is there."""
    table = [("for", profile.text), ("parts", ", ".join(profile.parts))]
    table.append(
        (
            "env judges",
            {
                "": "this host; no launch is planned",
                "gpu": "a launch of one rank a GPU",
                "any": "a launch of one rank a GPU, or of 2 ranks with gloo",
            }[profile.ranks],
        )
    )
    if "smoke" in profile.parts:
        table.append(
            ("smoke", "NCCL on all GPUs; 2 ranks with gloo below two GPUs" if profile.nccl else "2 ranks with gloo")
        )
    for item in profile.silent:
        where = ", where no GPU can be used" if item.without_gpus else ""
        table.append((f"silent in env{where}", f"{', '.join(item.codes)}: {item.why}"))
    if profile.must_check:
        table.append(("exit 3 if not checked", ", ".join(profile.must_check)))
    return table
