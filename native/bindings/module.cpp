// The extension module paceline.native._cpu. Each class is registered in a file of its own.
#include <pybind11/pybind11.h>

#include "register.h"

PYBIND11_MODULE(_cpu, m) {
  m.doc() = "The CPU core of Paceline: the ragged step in C++. See _cpu.pyi.";
  register_attention(m);
  register_core(m);
  register_passes(m);
  register_probes(m);
}
