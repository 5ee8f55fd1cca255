"""Everything that computes, and everything that reads model files.

core.py          opens a model on a device; behind it stepper.py, the interface of every core
reference*.py    the NumPy reference of the ragged step: the definition of the model maths
cpu/             the C++ core; builds without Python
cuda/            the CUDA core; builds when asked. Its Python side: cuda_core.py, open_device.py, device_memory.py,
                 cupy_memory.py (a GPU's memory, through CuPy) and arena.py
emulate/         the device that the CUDA core runs on in tests, made of fibers
bindings/        the only place that knows pybind11

weights.py       finds, fetches and opens model files (plain Python; the clients' tokenizer uses it too)
files/           each kind of them, read into one form: GGUF, safetensors, Hugging Face folders, the demo model
arrange.py       tensors in the one form that the cores read; quantize.py makes smaller ones
model.py         what a supported model is, and the check that a file holds one: families.py and what these share,
                 family_bases.py (each a family.py), metadata_keys.py, model_*.py, sizes.py, tensors.py, drafting.py,
                 rope_scaling.py and yarn.py give shape.py, its sizes and constants
rope.py          the tables of what depends on a position alone, made once at load
machine.py       what a result was measured on; fingerprint.py: which model a page belongs to; lost.py, terminal.py
"""
