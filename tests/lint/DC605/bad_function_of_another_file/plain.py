"""Nothing here is about ranks, so that this file is not linked with the others."""

APPLY = {"threads": None, "processes": "parallel_apply"}
