"""Model files of each kind, read into one form: metadata under GGUF's keys, tensors by GGUF's names.

model_file.py           what every kind gives: metadata, and tensors that are read when they are asked for
gguf_*.py               GGUF, also in parts
safetensors_file.py     one file of tensors; safetensors_folder.py: a Hugging Face folder of them
folder_*.py             what a folder's config.json and names of tensors mean; text_ends.py: which tokens end a text
pieces.py               the bytes that token ids stand for; folder_tokens.py: those of a folder, from its tokenizer.json
nvfp4.py, mxfp4.py      4-bit floats as ggml lays them out; float8.py: 8-bit ones as BF16
rearrange.py            weights put in another order
demo_model.py           the model that is fetched where none is named
"""
