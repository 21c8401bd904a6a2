"""What the package calls safe does not crash the interpreter: wrong types, closed objects, threads that close."""
import gc
import itertools
import sys
import threading

import numpy as np
import pytest
from opening import run_program

import ferry

CLOSING = """
import random, sys, threading
import numpy as np
import ferry, opening

staged = ferry.CopyOptions(ferry.Route.STAGED)  # these copies are small
dice = random.Random(int(sys.argv[1]))

def run(gpu, stop, failures, seed):
    dice = random.Random(seed)
    host, got = np.arange(1 << 16, dtype="uint8"), np.zeros(1 << 16, "uint8")
    try:
        device, pinned, stream, event = gpu.empty(1 << 16), gpu.pinned(1 << 16), gpu.stream(), gpu.event()
        shared.append((device, pinned, stream, event))
        prepared = gpu.prepare([(pinned, device)], stream)
        shared_prepared.append(prepared)
        while not stop.is_set():
            device, pinned, stream, event = dice.choice(shared)
            dice.choice([
                lambda: gpu.copy(host, device), lambda: gpu.copy(device, got), lambda: gpu.copy_async(pinned, device, stream),
                lambda: gpu.copy(host, device, staged), lambda: gpu.copy_async(host, device, stream, staged),
                lambda: gpu.copy_async(device, got, stream, staged).wait(), lambda: gpu.enqueue(pinned, device, stream),
                lambda: gpu.copy_async(host[::2], device[::2], stream).progress, lambda: stream.record(event),
                lambda: event.synchronize(), lambda: stream.synchronize(), lambda: gpu.fill(device, 1, stream),
                lambda: gpu.explain(host, device, stream), lambda: gpu.fill_async(device, 2, stream),
                lambda: dice.choice(shared_prepared).launch_ticket(stream).done, lambda: dice.choice(shared_prepared).launch(stream),
                lambda: gpu.empty(64), lambda: gpu.pinned(64), lambda: np.asarray(pinned).sum(), lambda: gpu.devices,
                lambda: gpu.copy_async(device, pinned, stream).future().result(60), lambda: gpu.synchronize(),
            ])()
    except ferry.ClosedError:
        pass
    except BaseException as why:
        failures.append(why)

for _ in range(int(sys.argv[3])):
    gpu = opening.open_instance(sys.argv[2] == "software")
    assert gpu.explain(bytearray(64), gpu.empty(64), options=staged).route == "staged"
    shared, shared_prepared, failures, stop = [], [], [], threading.Event()
    threads = [threading.Thread(target=run, args=(gpu, stop, failures, dice.random())) for _ in range(4)]
    for thread in threads:
        thread.start()
    stop.wait(dice.random() / 20)
    for one in (shared[0] if dice.random() < 0.5 and shared else ()):
        one.close()
        stop.wait(dice.random() / 500)
    if shared_prepared and dice.random() < 0.5:
        shared_prepared[0].close()
    gpu.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures, failures
"""


def test_threads_may_close_what_others_use(on_gpu):
    for seed in range(4):
        done = run_program(CLOSING, seed, "cuda" if on_gpu else "software", 10)
        assert done.returncode == 0 and done.stderr == "", (seed, done.returncode, done.stderr[-4000:])


# ---- Wrong types

def recursive():
    made = []
    made.append(made)
    return made


class Raises:
    def __getattr__(self, name):
        raise RuntimeError(name)


class Lies:
    """Has every protocol, and each returns something else."""
    __array_interface__ = __cuda_array_interface__ = "text"
    handle = ptr = cuda_stream = "text"

    def __dlpack__(self, *_, **__):
        return self

    def __dlpack_device__(self):
        return self

    def __index__(self):
        return "text"

    def __cuda_stream__(self):
        return None


class InterfaceOfItself:
    @property
    def __array_interface__(self):
        made = {"version": 3, "shape": (2,), "typestr": "|u1", "data": self}
        made["descr"] = [("a", made)]
        return made


def wrong_things(gpu):
    closed_stream, closed_event, closed_array = gpu.stream(), gpu.event(), gpu.empty(4)
    for one in (closed_stream, closed_event, closed_array):
        one.close()
    other = ferry.open(software=True)
    other.close()
    recursive_descr = recursive()

    class Recursive:
        __array_interface__ = {"version": 3, "shape": (2,), "typestr": "|V8", "data": (8, False), "descr": recursive_descr}

    return [None, 3.5, "text", recursive(), {}, set(), object(), object, int, np.ndarray, Raises(), Lies(), Lies,
            InterfaceOfItself(), Recursive(), gpu, gpu.library, other, gpu.event(), closed_event, closed_stream, closed_array,
            gpu.batch(), gpu.prepare([]), gpu.devices[0], np.zeros(3, object), np.float64(3), np.zeros((2, 0)), b"", bytearray(),
            memoryview(b""), range(4), slice(4), lambda: None, ferry.view(bytearray(4)), iter([]), 1 << 70, -1, 1 << 40, True,
            ferry.View(0, (), (), None, 1, ferry.HOST), ferry.memory(0, 0), ferry.Status.OVERLAP, np.dtype("f4"), (), (-1,),
            ((1,),), float("nan"), complex(1), Exception("x"), sys, gc, ferry.native.ferry_copy_desc()]


def calls_with(gpu, one):
    """Every call with a wrong argument at each place. Addresses are the caller's business, so no number is one."""
    host, device, stream, event = bytearray(4), gpu.empty(4), gpu.stream(), gpu.event()
    yield lambda: gpu.copy(one, host)
    yield lambda: gpu.copy(host, one)
    yield lambda: gpu.copy(one, one)
    yield lambda: gpu.copy(host, device, one)
    yield lambda: gpu.copy_async(one, device, stream).wait()
    yield lambda: gpu.copy_async(device, one, stream).wait()
    yield lambda: gpu.copy_async(host, device, stream, one).wait()
    yield lambda: gpu.enqueue(one, device, stream)
    yield lambda: gpu.explain(one, device)
    yield lambda: gpu.explain(device, one)
    yield lambda: gpu.explain(device, host, options=one)
    yield lambda: gpu.fill(one)
    yield lambda: gpu.fill(device, one)
    yield lambda: gpu.fill(device, options=one)
    yield lambda: gpu.fill_async(one).wait()
    yield lambda: gpu.fill_async(device, one).wait()
    yield lambda: gpu.fill_async(device, 0, stream, one).wait()
    yield lambda: gpu.explain_fill(device, one)
    yield lambda: gpu.explain_fill(device, options=one)
    none = np.zeros(0, "uint64")
    yield lambda: gpu.copy_pieces(sources=one, destinations=[], sizes=[])
    yield lambda: gpu.copy_pieces(sources=one, destinations=one, sizes=one)
    yield lambda: gpu.copy_pieces(stream, one, sources=none, destinations=none, sizes=none)
    yield lambda: gpu.copy_pieces(one, sources=none, destinations=none, sizes=none)
    yield lambda: gpu.copy_pieces_ticket(sources=one, destinations=one, sizes=one).wait()
    yield lambda: gpu.copy_pieces(sources=none, destinations=none, sizes=one)
    yield lambda: gpu.prepare(one)
    yield lambda: gpu.prepare([one])
    yield lambda: gpu.prepare([(one, device)])
    yield lambda: gpu.batch().copy(one, device)
    yield lambda: gpu.batch(None, one).__exit__(None, None, None)
    yield lambda: gpu.prepare([], stream, one)
    yield lambda: gpu.prepare([], stream).launch(stream, one)
    yield lambda: gpu.prepare([], stream).launch_ticket(stream, one).wait()
    yield lambda: gpu.empty(one)
    yield lambda: gpu.empty(4, one)
    yield lambda: gpu.empty(4, device=one)
    yield lambda: gpu.pinned(one if type(one) is not int or one < 1 << 30 else None)
    yield lambda: gpu.pinned(4, one)
    yield lambda: gpu.pinned(4, flags=one)
    yield lambda: gpu.stream(one)
    yield lambda: gpu.stream(0, one)
    yield lambda: gpu.event(one)
    yield lambda: gpu.synchronize(one)
    yield lambda: gpu.save_profile(one)
    yield lambda: gpu.load_profile(one)
    yield lambda: gpu.enable_peer(0, one)
    yield lambda: gpu.prepare_staging(one)
    yield lambda: stream.wait(one)
    yield lambda: stream.record(one)
    yield lambda: event.elapsed_since(one)
    yield lambda: device[one]
    yield lambda: device[one:one]
    yield lambda: device[one, ...]
    yield lambda: ferry.view(one)
    yield lambda: ferry.memory(one, 4)
    yield lambda: ferry.memory(4, one)
    yield lambda: ferry.memory(4, 4, one)
    yield lambda: ferry.open(software=True, software_devices=one).close()
    yield lambda: ferry.open(software=True, copy_options=one).close()
    for field in ("route", "priority", "source_order", "flags", "max_sms", "tag"):
        yield lambda: ferry.CopyOptions(**{field: one})
    yield lambda: ferry.open(software=True, log=one).close()
    yield lambda: ferry.register(one, one)
    if type(one) is not int:
        yield lambda: gpu.copy_async(host, device, one).wait()
        yield lambda: gpu.fill(device, 0, one)
        yield lambda: gpu.prepare([(host, device)], one)
        yield lambda: gpu.prepare([(host, device)]).launch(one)
        yield lambda: gpu.explain(host, device, one)


def test_wrong_arguments_raise_and_nothing_else(gpu, monkeypatch):
    monkeypatch.setattr(ferry.views, "_readers", dict(ferry.views._readers))
    seen = 0
    for one in wrong_things(gpu):
        for number, call in enumerate(calls_with(gpu, one)):
            try:
                call()
            except (ferry.Error, TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError, RecursionError,
                    OverflowError, UnicodeError):
                seen += 1
            except BaseException as why:
                raise AssertionError(f"call {number} with {type(one).__name__}: {why!r}") from why
    assert seen > 1000
    got = bytearray(4)
    device = gpu.empty(4)
    gpu.copy(b"abcd", device)
    gpu.copy(device, got)
    assert got == b"abcd"


def test_what_is_no_stream_is_not_taken_for_one(gpu):
    """Events, memory and instances have handles and addresses too."""
    class Memory:
        ptr = handle = 64

    class MemoryPointer(Memory):
        pass

    device = gpu.empty(4)
    for wrong in (gpu.event(), gpu, Memory(), MemoryPointer(), np.array(3.5), np.zeros(3), 3.5, "stream", [1]):
        for enqueue in (lambda: gpu.copy_async(bytes(4), device, wrong), lambda: gpu.enqueue(bytes(4), device, wrong),
                        lambda: gpu.fill(device, 0, wrong), lambda: gpu.prepare([(bytes(4), device)], wrong)):
            with pytest.raises(TypeError):
                enqueue()
    for wrong in (gpu.stream(), gpu, 64, None):
        for use in (gpu.stream().wait, gpu.stream().record, gpu.event().elapsed_since):
            with pytest.raises(TypeError, match="is not an event of ferry"):
                use(wrong)


# ---- Shapes without elements, and read-only destinations

def test_negative_lengths_are_refused(gpu):
    class Negative:
        __array_interface__ = {"version": 3, "shape": (-4,), "typestr": "|u1", "data": (4096, False)}

    for one in (Negative(), ferry.View(4096, (2, -2), None, None, 1, ferry.HOST), ferry.View(4096, (4,), (1,), None, -1, 0)):
        for use in (lambda: gpu.copy(one, one), lambda: gpu.copy(one, bytearray(4)), lambda: gpu.copy(bytes(4), one),
                    lambda: gpu.fill(one)):
            with pytest.raises(ferry.ArgumentError, match="no length may be negative") as raised:
                use()
            assert raised.value.field == "shape"


def test_nothing_is_copied_of_nothing(gpu):
    def empty(shape):
        yield np.zeros(shape, "uint8")
        yield gpu.empty(shape)
        yield gpu.pinned(shape)
        yield np.zeros((4,) * len(shape), "uint8")[tuple(slice(length) for length in shape)]

    for shape in ((0,), (0, 3), (3, 0), (0, 0), (2, 0, 2)):
        for source, destination in itertools.product(empty(shape), repeat=2):
            gpu.copy(source, destination)
            gpu.copy_async(source, destination).wait()
            gpu.fill(destination, 1)
            gpu.prepare([(source, destination)]).launch()
            with gpu.batch() as batch:
                batch.copy(source, destination)
    for one, other in ((b"", bytearray()), (memoryview(b""), bytearray()), (np.zeros(0, "f4"), bytearray()),
                       (ferry.memory(0, 0), ferry.memory(0, 0)), (b"", np.zeros((0, 7), "f8"))):
        gpu.copy(one, other)
    with gpu.batch() as batch:
        pass
    with gpu.batch(gpu.stream()) as batch:
        pass
    batch.ticket.wait()
    gpu.copy_pieces(**dict.fromkeys(("sources", "destinations", "sizes"), np.zeros(0, "uint64")))
    with pytest.raises(ferry.ArgumentError):
        gpu.copy(b"a", bytearray())


def read_only(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(16))
    frozen = np.zeros(16, "uint8")
    frozen.flags.writeable = False
    mapped = np.memmap(file, mode="r", dtype="uint8")
    return [bytes(16), memoryview(bytes(16)), memoryview(bytearray(16)).toreadonly(), frozen, frozen[::1], mapped,
            np.frombuffer(bytes(16), "uint8"), np.broadcast_to(np.uint8(0), 16), memoryview(mapped)]


def test_nothing_is_written_to_what_is_read_only(gpu, tmp_path):
    device, stream = gpu.empty(16), gpu.stream()
    gpu.fill(device, 7)
    for one in read_only(tmp_path):
        for write in (lambda: gpu.copy(device, one), lambda: gpu.copy_async(device, one, stream), lambda: gpu.fill(one, 1),
                      lambda: gpu.enqueue(device, one, stream), lambda: gpu.prepare([(device, one)]),
                      lambda: gpu.batch().copy(device, one), lambda: gpu.explain(device, one),
                      lambda: gpu.copy(device[:8], ferry.view(one)[4:12])):
            with pytest.raises(ferry.ArgumentError, match="the destination is read-only") as raised:
                write()
            assert (raised.value.side, raised.value.field) == ("destination", "address")
        assert not memoryview(one).tobytes().strip(b"\0")
        gpu.copy(one, device)


@pytest.mark.parametrize("part", [np.s_[::2], np.s_[::-1], np.s_[3:1], np.s_[5:2:-1], np.s_[::7]], ids=str)
def test_memoryviews_of_every_stride(gpu, part):
    held, device = bytearray(range(16)), gpu.empty(16)
    view, wanted = memoryview(held)[part], bytes(range(16))[part]
    gpu.copy(view, device[:len(wanted)])
    got = bytearray(16)
    gpu.copy(device[:len(wanted)], memoryview(got)[part])
    assert bytes(memoryview(got)[part]) == wanted
