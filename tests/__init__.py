"""What holds in every process of the tests, of which several at a time share few cores."""

import os
import sys

# Read when OpenMP and OpenBLAS are loaded. Threads that have no step to do sleep: by default they look for one for
# milliseconds, on a core that another test needs. What the reference multiplies is too small for two threads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Processes are started by the hundred: what one has compiled, the others only read.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
