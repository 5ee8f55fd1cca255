// Small windows into the core for its tests: conversions, products and draws that have an answer known elsewhere.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "half.h"
#include "register.h"
#include "sampling.h"

namespace py = pybind11;

void register_probes(py::module_& m) {
  m.def("instruction_sets", [] {
    py::list names;
    for (const char* name : {"plain", "avx2", "avx512"}) {
      try {
        paceline::choose_kernels(name);
        names.append(name);
      } catch (const std::invalid_argument&) {  // this processor lacks it
      }
    }
    return names;
  });
  m.def("half_to_float", [](uint16_t h) { return paceline::half_to_float(h); }, py::arg("bits"));
  m.def("float_to_half", [](float f) { return paceline::float_to_half(f); }, py::arg("value"));
  m.def("uniform", &paceline::uniform, py::arg("seed"), py::arg("position"));
  m.def(
      "sample",
      [](const py::array_t<float, py::array::c_style | py::array::forcecast>& logits, const std::vector<int32_t>& history, int prompt, float temp, int top_k, float top_p,
         float min_p, float rep_penalty, float freq_penalty, float pres_penalty, uint64_t seed, const std::string& isa) {
        const int size = static_cast<int>(logits.size());
        std::vector<float> padded((size + 15) / 16 * 16);
        std::copy(logits.data(), logits.data() + size, padded.begin());
        for (const int32_t id : history)
          if (id < 0 || id >= size) throw std::invalid_argument("history holds an id outside the vocabulary");
        const paceline::Sampling sampling{temp, top_k, top_p, min_p, rep_penalty, freq_penalty, pres_penalty, seed};
        return paceline::Sampler().sample(paceline::choose_kernels(isa.c_str()), sampling, padded.data(), size, history.data(), static_cast<int>(history.size()), prompt);
      },
      py::arg("logits"), py::arg("history"), py::arg("prompt"), py::kw_only(), py::arg("temp"), py::arg("top_k") = 0, py::arg("top_p") = 1.0f, py::arg("min_p") = 0.0f,
      py::arg("rep_penalty") = 1.0f, py::arg("freq_penalty") = 0.0f, py::arg("pres_penalty") = 0.0f, py::arg("seed") = 0, py::arg("isa") = "auto");
}
