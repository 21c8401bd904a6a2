"""Arrays and streams of PyTorch, CuPy and JAX, where they are installed. Those on a device need FERRY_TEST_DRIVER=cuda."""
import gc
import os

import numpy as np
import pytest

import ferry

on_gpu_only = pytest.mark.skipif(os.environ.get("FERRY_TEST_DRIVER") != "cuda", reason="needs a GPU")


# ---- PyTorch

@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int16", "float16", "bfloat16", "float32", "complex64", "float64"])
def test_tensors_on_the_host(gpu, torch, dtype):
    tensor = torch.arange(60).reshape(3, 4, 5).to(getattr(torch, dtype))
    device = gpu.empty((3, 4, 5), dtype)
    gpu.copy(tensor, device)
    got = torch.zeros_like(tensor)
    gpu.copy(device, got)
    assert torch.equal(tensor, got)
    part = torch.zeros_like(tensor)
    gpu.copy(device[1:, ::2, ::3], part[1:, ::2, ::3])
    assert torch.equal(part[1:, ::2, ::3], tensor[1:, ::2, ::3]) and part[0].sum() == 0


def test_transposed_and_expanded_tensors(gpu, torch):
    tensor = torch.arange(12.0).reshape(3, 4)
    got = np.zeros((4, 3), "float32")
    gpu.copy(tensor.T, got)
    assert np.array_equal(got, tensor.numpy().T)
    wide = np.zeros((5, 4), "float32")
    gpu.copy(tensor[1].expand(5, 4), wide)
    assert np.array_equal(wide, np.tile(tensor[1].numpy(), (5, 1)))
    with pytest.raises(ferry.ArgumentError, match="axis 0 of the destination has stride 0"):
        gpu.copy(wide, torch.zeros(4).expand(5, 4))


def test_tensors_without_memory_of_their_own_are_refused(gpu, torch):
    for wrong in (torch.zeros(3, device="meta"), torch.zeros(3, 3).to_sparse(), torch.zeros(3, dtype=torch.complex64).conj()):
        for _ in range(2):
            with pytest.raises(ferry.ArgumentError):
                gpu.copy(wrong, bytearray(100))


def test_a_copy_again_follows_what_the_tensor_has_become(gpu, torch):
    tensor, got = torch.arange(12.0).reshape(3, 4), np.zeros((4, 3), "float32")
    for _ in range(2):
        gpu.copy(tensor, np.zeros((3, 4), "float32"))
    tensor.t_()
    gpu.copy(tensor, got)
    assert np.array_equal(got, tensor.numpy())
    with pytest.raises(ferry.ArgumentError, match="int32"):
        gpu.copy(tensor.view(torch.int32), got)


def test_parameters_are_tensors(gpu, torch):
    parameter = torch.nn.Parameter(torch.arange(4.0))
    got = np.zeros(4, "float32")
    gpu.copy(parameter, got)
    assert np.array_equal(got, np.arange(4, dtype="float32"))


@on_gpu_only
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "complex64"])
def test_tensors_on_the_device(gpu, torch, dtype):
    host = torch.arange(6000).reshape(20, 30, 10).to(getattr(torch, dtype))
    device = torch.zeros_like(host, device="cuda")
    gpu.copy(host, device)
    assert torch.equal(device.cpu(), host)
    got = torch.zeros_like(host)
    gpu.copy(device[2:18, 3:27:2, ::3], got[2:18, 3:27:2, ::3])
    wanted = torch.zeros_like(host)
    wanted[2:18, 3:27:2, ::3] = host[2:18, 3:27:2, ::3]
    assert torch.equal(got, wanted)
    turned = torch.zeros(10, 30, 20, dtype=host.dtype, device="cuda")
    gpu.copy(device.permute(2, 1, 0), turned)
    assert torch.equal(turned.cpu(), host.permute(2, 1, 0))


@on_gpu_only
def test_copies_are_ordered_on_torchs_streams(gpu, torch):
    stream = torch.cuda.Stream()
    host = torch.zeros(1 << 22)
    with torch.cuda.stream(stream):
        device = torch.zeros(1 << 22, device="cuda")
        for turn in range(10):
            device += 1
            ticket = gpu.copy_async(device, host, stream)
            ticket.wait()
            assert (host == turn + 1).all()
    gpu.copy_async(host + 1, device, torch.cuda.current_stream()).wait()
    assert device.sum().item() == 11 * (1 << 22)


@on_gpu_only
def test_a_tensor_that_the_program_drops_lives_until_its_copy_has_ended(gpu, torch):
    stream = torch.cuda.Stream()
    got = torch.zeros(1 << 24)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        device = torch.full((1 << 24,), 3.0, device="cuda")
        ticket = gpu.copy_async(device, got, stream)
        del device
        gc.collect()
        others = [torch.full((1 << 24,), 4.0, device="cuda") for _ in range(4)]
    ticket.wait()
    assert (got == 3).all() and len(others) == 4


@on_gpu_only
def test_a_device_tensor_is_what_a_device_array_was(gpu, torch):
    array = gpu.empty((4, 8), "float32")
    gpu.copy(np.arange(32, dtype="float32").reshape(4, 8), array)
    shown = torch.as_tensor(array, device="cuda")
    assert shown.data_ptr() == array.address and shown.sum().item() == 31 * 16


# ---- CuPy

@pytest.fixture
def cupy():
    found = pytest.importorskip("cupy")
    if os.environ.get("FERRY_TEST_DRIVER") != "cuda":
        pytest.skip("needs a GPU")
    return found


def test_cupy_arrays_and_streams(gpu, cupy):
    host = np.arange(6000, dtype="float32").reshape(20, 300)
    device = cupy.zeros_like(host)
    gpu.copy(host[::2, 5:50], device[::2, 5:50])
    wanted = np.zeros_like(host)
    wanted[::2, 5:50] = host[::2, 5:50]
    assert (cupy.asnumpy(device) == wanted).all()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        device += 1
    got = np.zeros_like(host)
    gpu.copy_async(device.T, got.T, stream).wait()
    assert (got == wanted + 1).all()


# ---- JAX

@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "bfloat16", "float16", "complex64",
                                   "float8_e4m3fn", "float8_e5m2"])
def test_jax_arrays_of_every_type(gpu, dtype):
    jax = pytest.importorskip("jax")
    array = jax.numpy.arange(24).reshape(4, 6).astype(dtype)
    got = np.zeros((4, 6), np.asarray(array).dtype)
    gpu.copy(array, got)
    assert np.array_equal(got, np.asarray(array))


def test_jax_packs_elements_below_a_byte(gpu):
    jax = pytest.importorskip("jax")
    array = jax.numpy.array([[0.5, 1, 1.5, 2], [3, 4, 6, -0.5]], dtype="float4_e2m1fn")
    got, elements = np.zeros((2, 2), "uint8"), np.asarray(array).view("uint8")
    gpu.copy(array, memoryview(got).cast("B"))
    assert np.array_equal(got, elements[:, ::2] | elements[:, 1::2] << 4)
    with pytest.raises(ferry.ArgumentError, match="packed float4_e2m1fn, the destination of float4_e2m1fn"):
        gpu.copy(array, np.asarray(array).copy()[:, :2])
    with pytest.raises(ferry.ArgumentError, match="has no DLPack equivalent") as raised:
        gpu.copy(jax.numpy.ones(8, "int4"), bytearray(8))
    assert raised.value.field == "dtype"


def test_jax_arrays(gpu):
    jax = pytest.importorskip("jax")
    array = jax.numpy.arange(6000, dtype="float32").reshape(20, 300)
    array.block_until_ready()
    got = np.zeros((20, 300), "float32")
    gpu.copy(array, got)
    assert np.array_equal(got, np.arange(6000, dtype="float32").reshape(20, 300))
