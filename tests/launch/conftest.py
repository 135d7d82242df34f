"""The cases below DC… and jobs/ are read as texts, never imported: some are named like tests."""

collect_ignore_glob = ["DC*", "jobs*"]
