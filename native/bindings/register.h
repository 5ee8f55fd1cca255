#pragma once

#include <pybind11/pybind11.h>

void register_attention(pybind11::module_& m);
void register_core(pybind11::module_& m);
void register_device(pybind11::module_& m);
void register_emulator(pybind11::module_& m);
void register_passes(pybind11::module_& m);
void register_probes(pybind11::module_& m);
