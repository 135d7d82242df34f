"""Keys in the evidence of findings whose severity depends on more than the line: on several ranks, or on a release.

Source code, launch files and documents each add theirs. This module imports nothing: each run of ``lint`` needs it.
"""

from __future__ import annotations

#: The scripts that reach the line; absent once it is known that they run as several ranks.
SCRIPTS = "scripts"
#: What shows that they run as several ranks.
SIGN = "several_ranks"
#: That sign is only an API of a launcher, in scripts that no other file names, so that launches of other scripts count.
#: Holds the scripts of the project that start ranks themselves; true once a launch of another script is known.
LAUNCHER_API = "launcher_api"
#: The launch line that starts them as one process.
ONE_PROCESS = "one_process"
#: The scripts that may reach the line, and the options that each needs, see :mod:`.checks.source.option_paths`; absent
#: once the launch lines are known.
NEEDS = "needs"
#: A launch line that takes the path of the finding.
LAUNCH = "launch"
#: A finding only concerns torch from this release on, such as ``"2.0"``.
SINCE = "torch_since"
#: The oldest release of accelerate that is known to refuse what a finding is about.
ACCELERATE_SINCE = "accelerate_since"
#: The release of transformers that refuses what a finding is about.
TRANSFORMERS_SINCE = "transformers_since"
#: The function or module of a package for users that nothing of its repository reaches.
UNREACHED = "unreached"
#: The script that creates a folder with the value of an option, and the spellings of the option; in place of these the
#: line that creates the folder before each launch.
FOLDER_OPTION = "folder_option"
#: The finding is dropped unless a launch line, or the script itself, is known to start several ranks.
ONLY_LAUNCHED = "only_launched"
#: The scripts whose option for the local rank it is, and whether their parser refuses other options; absent once the
#: launch lines are known.
OPTION_OF = "option_of"
#: What the known launch lines give to that option, if that is what it expects.
AS_EXPECTED = "as_expected"
#: A variable switches peer access between GPUs off, which documents may give a reason for; absent once they are known.
PEER_ACCESS = "peer_access"
#: The script that reads a variable which no launch file sets, and words. The variable is set if another file names the
#: script and has one of the words. Absent once these files are read.
SET_BY_CALLERS = "set_by_callers"
#: What ``lint`` resolves with the launch lines and documents of a project, and drops then.
OF_DOCUMENTS = frozenset(
    [NEEDS, ONLY_LAUNCHED, UNREACHED, FOLDER_OPTION, OPTION_OF, AS_EXPECTED, LAUNCHER_API, PEER_ACCESS, SET_BY_CALLERS]
)
