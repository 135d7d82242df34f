"""Whether a file with commands concerns training: it names a launcher, Python, or a variable of a library."""

from __future__ import annotations

import re
from functools import cache

#: Words that a file with commands must contain to concern training, besides the prefixes of variables.
_TRAINING = (
    rb"torch|accelerate|deepspeed|srun|mpirun|mpiexec|mpirun_rsh|sbatch|aprun|jsrun|flux run|colossalai|horovodrun"
    rb"|axolotl|#(?:SBATCH|PBS|BSUB)\b|\.py\b|python[^\n]{0,300} -m|RANK\b|WORLD_SIZE|LD_PRELOAD|LD_LIBRARY_PATH"
    # a script in the background may start ranks
    rb"|\.(?:sh|bash)\b[^\n]{0,200}[^&>\n]&[ \t]*(?:#[^\n]*)?\n"
)


def mentions_training(data: bytes) -> bool:
    """Return whether a file names a launcher, Python, or a variable that a library reads."""
    return _training_pattern().search(data) is not None


@cache
def _training_pattern() -> re.Pattern[bytes]:
    from distcheck.core.variable_table import TRAINING_PREFIXES

    prefixes = b"|".join(re.escape(prefix.encode()) for prefix in TRAINING_PREFIXES)
    return re.compile(rb"%s|(?:%s)[A-Z0-9]" % (_TRAINING, prefixes))
