#!/bin/bash
torchrun_bin=$HOME/venv/bin/torchrun
ssh $SSH_OPTS -tt "$host" \
  "bash -lc 'set -euo pipefail; \
  echo \"[preflight] HOST=\$(hostname)\"; \
  if [[ -x \"$torchrun_bin\" ]]; then echo \"[preflight] torchrun OK: $torchrun_bin\"; \
  else echo \"torchrun NOT FOUND at: $torchrun_bin\"; command -v torchrun || true; exit 43; fi; \
  echo \"OK\"'"
