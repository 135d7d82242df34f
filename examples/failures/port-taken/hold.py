"""Runs a command while another process listens on a port: python hold.py PORT COMMAND …"""

import os
import signal
import socket
import subprocess
import sys

with socket.create_server(("", int(sys.argv[1]))):
    holder = os.fork()
    if holder == 0:
        signal.pause()
status = subprocess.run(sys.argv[2:], check=False).returncode
os.kill(holder, signal.SIGTERM)
sys.exit(status)
