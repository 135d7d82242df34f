"""``rehearse``: the user's script, run on this machine as all ranks of a job with simulated GPUs."""
