"""The Python of docs/languages.md and docs/layouts.md, and the example that uses the package, run unchanged. The Python of
both README.md runs in the test of the wheel."""
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np

import ferry

ROOT = Path(__file__).resolve().parents[3]


def example_of(page):
    example, = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    return example


def test_the_example_of_the_languages_page_runs(gpu, monkeypatch):
    image = np.arange(320, dtype="float32").reshape(20, 16)
    array = np.arange(80, dtype="float32").reshape(10, 8)
    tensors = [gpu.empty((10, 8), "float32") for _ in range(4)]
    # Only the names that the example takes from its reader. A GPU, and PyTorch for it, are not needed.
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=gpu.stream))
    monkeypatch.setattr(ferry, "open", lambda: gpu)
    names = {"array": array, "image": image, "tensor": tensors[0], "arrays": [array + k for k in range(3)],
             "tensors": tensors[1:], "torch": torch}
    exec(example_of("docs/languages.md"), names)
    names["ticket"].wait()
    got = np.zeros((10, 8), "float32")
    for tensor, expected in zip(tensors, [image[10:20, ::2], *names["arrays"]]):
        gpu.copy(tensor, got)
        assert np.array_equal(got, expected)


def test_the_example_of_the_layouts_page_runs(gpu, monkeypatch):
    monkeypatch.setattr(ferry, "open", lambda software: gpu)
    setup, stored, restored = re.split(r"\n\n(?=chosen|ids)", example_of("docs/layouts.md"))
    names, noise = {}, np.random.default_rng(1)
    exec(setup, names)
    before, after = noise.random(names["pool"].shape).astype("float16"), np.zeros(names["pool"].shape, "float16")
    gpu.copy(before, names["pool"])
    exec(stored, names)
    store = np.asarray(names["store"])
    assert np.array_equal(store, before[:, [7, 40, 3]].transpose(1, 0, 3, 2, 4))
    store[:] = noise.random(store.shape)
    exec(restored, names)
    gpu.copy(names["pool"], after)
    expected = before.copy()
    expected[:, [9, 5]] = store[[0, 2]].transpose(1, 0, 3, 2, 4)
    assert np.array_equal(after, expected)


def test_the_example_of_blocks_runs():
    done = subprocess.run([sys.executable, ROOT / "examples/kv_blocks.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "3 blocks stored, 2 restored, 1 skipped" in done.stdout, done.stderr
