// The extension modules paceline.native._cuda and, of the same sources compiled for the host, paceline.native._emulator.
#include <pybind11/pybind11.h>

#include "register.h"

#if PACELINE_EMULATE
PYBIND11_MODULE(_emulator, m) {
  m.doc() = "The CUDA core on an emulated device. See _emulator.pyi.";
  register_device(m);
  register_emulator(m);
}
#else
PYBIND11_MODULE(_cuda, m) {
  m.doc() = "The CUDA core of Paceline. Its interface is that in _emulator.pyi.";
  register_device(m);
}
#endif
