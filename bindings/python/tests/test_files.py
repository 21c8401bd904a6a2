"""Files: gpu.file()."""
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import ferry


@pytest.fixture
def contents():
    return np.random.default_rng(1).integers(0, 256, 300_000, dtype="uint8")


@pytest.fixture
def path(contents):
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "fähre.bin"
        made.write_bytes(contents.tobytes())
        yield made


def test_arrays_are_read_and_written_in_their_shape(gpu, path, contents):
    image = gpu.empty((40, 50), "float32")
    with gpu.file(path, "r+") as file:
        assert file.size == 300_000
        file.read(1000, image)
        here = np.empty((40, 50), "float32")
        gpu.copy(image, here)
        assert here.tobytes() == contents[1000:9000].tobytes()
        # A part of the array: its rows follow each other in the file.
        file.read(7, image[10:20, 5:15])
        gpu.copy(image, here)
        assert here[10:20, 5:15].tobytes() == contents[7:407].tobytes()
        file.read(7, here[10:20, 5:15])
        assert here[10:20, 5:15].tobytes() == contents[7:407].tobytes()
        gpu.copy(image, here)
        file.write(image[:, 3], 100)
        assert path.read_bytes()[100:260] == here[:, 3].tobytes()
        file.write(here[3:5], 400)
        assert path.read_bytes()[400:800] == here[3:5].tobytes()
        file.write(image, 299_000)
        assert file.size == 307_000


def test_a_stream_and_its_tickets(gpu, path, contents):
    stream = gpu.stream()
    array = gpu.empty(300_000)
    with gpu.file(str(path)) as file:
        ticket = file.read_async(0, array, stream)
    ticket.wait()  # the file may be closed before
    with gpu.file(path.with_name("other"), "w") as other:
        other.write_async(array, 5, stream).wait()
    assert path.with_name("other").read_bytes() == bytes(5) + contents.tobytes()


def test_many_arrays_are_one_copy(gpu, path, contents):
    arrays = [gpu.empty((size,), "uint8") for size in (1, 1000, 7, 65536, 0, 12345)]
    offsets = [299_999, 0, 1000, 1007, 5, 100_000]
    with gpu.file(path) as file:
        ticket = file.read_many(zip(offsets, arrays), gpu.stream())
        ticket.wait()
    for offset, array in zip(offsets, arrays):
        here = np.empty(array.shape, "uint8")
        gpu.copy(array, here)
        assert np.array_equal(here, contents[offset:offset + here.size])


def test_files_of_python_and_descriptors(gpu, path, contents):
    array = gpu.empty(100)
    here = np.empty(100, "uint8")
    with path.open("rb") as opened:
        opened.seek(50)
        with gpu.file(opened) as file:
            file.read(3, array)
        assert opened.tell() == 50
    gpu.copy(array, here)
    assert np.array_equal(here, contents[3:103])
    descriptor = os.open(path, os.O_RDWR)
    file = gpu.file(descriptor)
    os.close(descriptor)
    file.write(array, 200)
    assert path.read_bytes()[200:300] == here.tobytes()


def test_what_cannot_be_copied_is_named(gpu, path):
    array = gpu.empty(1000)
    with pytest.raises(ferry.ArgumentError, match="mode: 'x'"):
        gpu.file(path, "x")
    with pytest.raises(ferry.Error, match="path: No such file or directory") as raised:
        gpu.file("/nonexistent/ferry")
    assert raised.value.status == ferry.Status.FILE and raised.value.field == "path" and raised.value.file_error == 2
    with pytest.raises(ferry.Error, match="path") as raised:
        gpu.file("/dev/null")
    assert raised.value.status == ferry.Status.HANDLE and raised.value.file_error is None
    file = gpu.file(path)
    with pytest.raises(ferry.Error, match="past the end at 300000") as raised:
        file.read(299_001, array)
    assert raised.value.status == ferry.Status.OUT_OF_BOUNDS and raised.value.side == "source"
    with pytest.raises(ferry.Error, match="past the end at 300000") as raised:
        file.read_many([(0, array), (299_001, array)])
    assert raised.value.item == "piece" and raised.value.index == 1
    with pytest.raises(ferry.Error, match="file") as raised:
        file.write(array, 0)
    assert raised.value.status == ferry.Status.HANDLE and raised.value.side == "destination"
    fixed = np.empty(10, "uint8")
    fixed.flags.writeable = False
    with pytest.raises(ferry.ArgumentError, match="read-only"):
        file.read(0, fixed)
    with pytest.raises(ferry.ArgumentError, match="offset: -1"):
        file.read(-1, array)
    with pytest.raises(ferry.ArgumentError, match="array 0 is not contiguous"):
        file.read_many([(0, array[::2])])
    with pytest.raises(ferry.ArgumentError, match="needs"):
        file.read_async(0, gpu.empty((3, 4, 5, 6))[::2, ::2, ::2, ::2])
    file.close()
    with pytest.raises(ferry.ClosedError, match="this File is closed"):
        file.read(0, array)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        __import__("copy").copy(file)


def test_a_copy_is_cancelled(gpu, path):
    array, stream = gpu.empty(300_000), gpu.stream()
    with gpu.file(path) as file:
        ticket = file.read_async(0, array, stream)
        ticket.cancel()
        try:
            ticket.wait()  # it may have been complete before
        except ferry.Error as failed:
            assert failed.file_error == ferry.native.FERRY_FILE_CANCELLED
        ticket.cancel()


# The size of every file in sysfs is 4096 bytes, but this file ends earlier.
def test_a_file_that_ends_early_names_the_part(gpu):
    with gpu.file("/sys/devices/system/cpu/online") as file:
        ticket = file.read_many([(0, gpu.empty(1)), (5, gpu.empty(0)), (1, gpu.empty(1000))])
        with pytest.raises(ferry.Error, match="piece 2: file: the file ends at byte") as raised:
            ticket.wait()
    assert raised.value.item == "piece" and raised.value.index == 2


def test_a_file_that_becomes_shorter_fails_the_ticket(gpu, path):
    array = gpu.empty(300_000)
    file = gpu.file(path)
    gpu.copy(np.zeros(300_000, "uint8"), array)
    os.truncate(path, 100_000)
    with pytest.raises(ferry.Error, match="past the end at 100000"):
        file.read(0, array)


def test_the_options_of_a_file(gpu, path, contents):
    array = gpu.empty(300_000)
    here = np.empty(300_000, "uint8")
    for options in {"direct": "never"}, {"direct": "always"}, {"keep_cache": True}:
        try:
            file = gpu.file(path, **options)
        except ferry.Error as error:  # the file system has no direct I/O
            assert error.status == ferry.Status.UNSUPPORTED and "never" not in options.values()
            continue
        file.read(0, array)
        gpu.copy(array, here)
        assert np.array_equal(here, contents)
    gpu.file(path, "r+", sync=True).write(array, 0)
    with path.open("r+b") as opened:
        gpu.file(opened, sync=True).write(array, 0)
    assert path.read_bytes() == contents.tobytes()
    with path.open("rb") as opened, pytest.raises(ferry.Error, match="flags") as raised:
        gpu.file(opened, sync=True)
    assert raised.value.status == ferry.Status.FLAGS
    with pytest.raises(ferry.ArgumentError, match="direct: 'no', must be 'auto', 'never' or 'always'"):
        gpu.file(path, direct="no")
