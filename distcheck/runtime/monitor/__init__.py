"""The summary at the end of ``watch``; its side thread is :mod:`distcheck.runtime.coordination.rank_monitor`."""
