"""The Python of docs/languages.md and docs/layouts.md, and the example that uses the package, run unchanged. The Python
of both README.md runs in the test of the wheel."""
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


# ---- The layouts of KV caches

SIZES = {"B": 5, "T": 3, "H": 2, "L": 4, "W": 8, "2": 2}
COUNTS = {"block": "B", "layer": "L", "kv": "2", "token": "T", "head": "H", "width": "W"}


def product(factors):
    return int(np.prod([SIZES[factor] for factor in factors]))


def rows_of_the_table():
    """The strides of each layout in docs/layouts.md."""
    table = re.findall(r"^\| (\d) \|.*?\|.*?\| (.*) \|$", (ROOT / "docs/layouts.md").read_text(), re.M)
    for number, cells in table:
        axes = zip(("block", "layer", "kv", "token", "head"), cells.split(" | "))
        yield int(number), {axis: cell for axis, cell in axes if cell != "-"}


def rows_of_the_picture():
    """The axes, and the strides of each axis but the run, in docs/layouts.svg."""
    rows = re.findall(r'class="title">(\d) .*?\[(.*?)\].*?class="note" y="88">(.*?)<',
                      (ROOT / "docs/layouts.svg").read_text(), re.S)
    for number, axes, strides in rows:
        yield int(number), axes.split(", "), dict(one.split(" ") for one in strides.split(", "))


def test_the_picture_and_the_table_of_layouts_have_the_same_strides():
    table, picture = dict(rows_of_the_table()), list(rows_of_the_picture())
    assert list(table) == [number for number, *_ in picture] == list(range(1, 7))
    for number, axes, strides in picture:
        assert strides == table[number], number
        assert list(strides) == axes[:-1], number
        tight = np.zeros([SIZES[COUNTS[axis]] for axis in axes], "uint8").strides
        assert [product(strides[axis]) for axis in axes[:-1]] == list(tight[:-1]), number


def test_blocks_move_between_all_pairs_of_layouts(gpu):
    """With ferry.blocks at both ends. A layout without an axis for layers or kv is one of several allocations."""
    for number, axes, _ in rows_of_the_picture():
        for other_number, others, _ in rows_of_the_picture():
            if set(axes) != set(others):
                continue
            shapes = [[SIZES[COUNTS[axis]] for axis in one] for one in (axes, others)]
            before = (np.arange(np.prod(shapes[0])) % 251).astype("uint8").reshape(shapes[0])
            source, target, got = gpu.empty(shapes[0]), gpu.empty(shapes[1]), np.zeros(shapes[1], "uint8")
            gpu.copy(before, source)
            gpu.fill(target)
            order = [axes.index(axis) for axis in others]
            gpu.copy(ferry.blocks(source, [4, 0, 2], axis=axes.index("block")).transpose(order),
                     ferry.blocks(target, [1, 3, 0], axis=others.index("block")))
            gpu.copy(target, got)
            expected = np.zeros_like(got)
            at = others.index("block")
            np.moveaxis(expected, at, 0)[[1, 3, 0]] = np.moveaxis(before.transpose(order), at, 0)[[4, 0, 2]]
            assert np.array_equal(got, expected), (number, other_number)
