"""The subcommands, one module each: options → given facts → report → reporter."""
