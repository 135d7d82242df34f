"""The user's own script, seen from all ranks at once: rehearsed on one machine, watched in the job, or found stuck."""
