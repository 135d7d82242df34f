"""The checks, one package for each kind of input: a host, many hosts, source files, launch files, logs, pickles."""
