// The emulated device's memory, and how its threads take turns.
#include <pybind11/pybind11.h>

#include "../emulate/grid.h"
#ifndef PACELINE_TRANSLATED  // whether kernels are nvcc's, translated from PTX (scripts/ptx_check)
#define PACELINE_TRANSLATED 0
#endif
#if !PACELINE_TRANSLATED
#include "../emulate/misuse.h"
#endif
#include "../emulate/recording.h"
#include "../emulate/room.h"
#include "../emulate/traffic.h"
#include "../emulate/watch.h"
#include "register.h"

namespace py = pybind11;
namespace emulate = paceline::emulate;

void register_emulator(py::module_& m) {
  py::class_<emulate::Room>(m, "Room", py::buffer_protocol())
      .def(py::init([](size_t bytes) {
             auto room = std::make_unique<emulate::Room>(bytes);
             emulate::forget_accesses(room->data(), bytes);
             return room;
           }),
           py::arg("bytes"))
      .def_property_readonly("place", [](const emulate::Room& room) { return reinterpret_cast<uintptr_t>(room.data()); })
      .def_buffer([](emulate::Room& room) {
        return py::buffer_info(room.data(), 1, py::format_descriptor<uint8_t>::format(), static_cast<py::ssize_t>(room.bytes()));
      });
  py::class_<emulate::Recording, std::shared_ptr<emulate::Recording>>(m, "Recording")
      .def("launch", &emulate::Recording::launch, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("launches", &emulate::Recording::launches);
  m.def("begin_capture", &emulate::begin_capture);
  m.def("end_capture", &emulate::end_capture);
  m.def(
      "set_order",
      [](const std::string& order, uint64_t seed) {
        if (order == "forward") return emulate::set_order(emulate::Order::Forward, seed);
        if (order == "reversed") return emulate::set_order(emulate::Order::Reversed, seed);
        if (order == "shuffled") return emulate::set_order(emulate::Order::Shuffled, seed);
        throw std::invalid_argument("order '" + order + "': expected forward, reversed or shuffled");
      },
      py::arg("order"), py::arg("seed") = 0);
  m.attr("translated") = PACELINE_TRANSLATED != 0;
#if !PACELINE_TRANSLATED  // these are written for the kernels of device.h
  m.def("misuse", &emulate::misuse, py::arg("name"));
#endif
  m.def("watch", &emulate::watch, py::arg("on"));
  m.def("measure", &emulate::measure, py::arg("on"));
  m.def("measured", [] {
    py::list all;
    const char* const names[] = {"load", "read-only load", "strong load", "store", "copy"};  // of Use
    for (const emulate::Traffic& t : emulate::measured())
      all.append(py::make_tuple(t.kernel, t.file, t.line, t.shared, names[static_cast<int>(t.use)], t.requests, t.bytes, t.transfers, t.least));
    return all;
  });
  m.def(
      "note_host_write", [](uintptr_t place, size_t bytes) { emulate::note_host_write(reinterpret_cast<const void*>(place), bytes); }, py::arg("place"), py::arg("bytes"));
  m.def("counted_weights", &emulate::counted_weights);
  m.def("set_multiprocessors", &emulate::set_multiprocessors, py::arg("count"));
}
