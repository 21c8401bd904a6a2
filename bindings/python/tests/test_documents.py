"""The Python of docs/languages.md runs unchanged. The Python of both README.md runs in the test of the wheel."""
import re
import types
from pathlib import Path

import numpy as np

import ferry

PAGE = Path(__file__).resolve().parents[3] / "docs/languages.md"


def test_the_example_of_the_languages_page_runs(gpu, monkeypatch):
    example, = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    image = np.arange(320, dtype="float32").reshape(20, 16)
    array = np.arange(80, dtype="float32").reshape(10, 8)
    tensors = [gpu.empty((10, 8), "float32") for _ in range(4)]
    # Only the names that the example takes from its reader. A GPU, and PyTorch for it, are not needed.
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=gpu.stream))
    monkeypatch.setattr(ferry, "open", lambda: gpu)
    names = {"array": array, "image": image, "tensor": tensors[0], "arrays": [array + k for k in range(3)],
             "tensors": tensors[1:], "torch": torch}
    exec(example, names)
    names["ticket"].wait()
    got = np.zeros((10, 8), "float32")
    for tensor, expected in zip(tensors, [image[10:20, ::2], *names["arrays"]]):
        gpu.copy(tensor, got)
        assert np.array_equal(got, expected)
