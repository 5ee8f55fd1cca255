"""Everything that computes.

weights.py       find, fetch and open model files (plain Python; the clients' tokenizer uses it too)
gguf_file.py     the gguf package's reader, bounded and quick
shape.py         ModelShape: the sizes and constants of one model
model.py         what a supported model is, and the check that a file holds one
rope.py          the rotation tables, made once at load
machine.py       what a result was measured on
reference.py     the NumPy reference of the ragged step: the definition of the model maths
core.py          the Python face of the C++ core: load, repack, step
cpu/             the C++ core; builds without Python
cuda/            the CUDA core; builds when asked
emulate/         the device that the CUDA core runs on in tests, made of fibers
cuda_core.py     the Python face of the CUDA core
device_memory.py memory of a device: what the CUDA core asks for
cupy_memory.py   that of a GPU, through CuPy: an arena, a stream, graphs
open_device.py   a GPU for the CUDA core, and how much of its memory
bindings/        the only place that knows pybind11
"""
