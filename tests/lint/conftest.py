"""The cases below DC… are read as texts, never imported: some are named like tests."""

collect_ignore_glob = ["DC*"]
