"""Rules, findings, facts and reports: the types and the checker that all packages share."""
