"""Copies on streams, batches, fills, lifetimes, errors and the closing of instances."""
import array
import asyncio
import concurrent.futures
import copy
import gc
import mmap
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from opening import open_instance

import ferry

BINDING = Path(__file__).resolve().parent.parent
BY_DRIVER, BY_KERNEL = ferry.CopyOptions(ferry.Route.DRIVER), ferry.CopyOptions(ferry.Route.KERNEL)
CHECK_OVERLAP = ferry.CopyOptions(flags=ferry.CopyFlags.CHECK_OVERLAP)


def numbers(count=1 << 20):
    return np.random.default_rng(3).integers(0, 255, count, dtype="uint8")


class Kept(np.ndarray):
    """An array that weak references can watch."""


class MaskedSubclass(np.ma.MaskedArray):
    pass


# ---- Streams and tickets

def test_tickets_tell_when_a_copy_is_done(gpu):
    stream = gpu.stream()
    sent, device, got = numbers(), gpu.empty(1 << 20), np.zeros(1 << 20, "uint8")
    there = gpu.copy_async(sent, device, stream)
    back = gpu.copy_async(device, got, stream)
    back.wait()
    assert there.done and back.done and np.array_equal(sent, got)
    assert there.progress == (1 << 20, 1 << 20) and there.route in ("driver", "staged")


def test_a_copy_in_flight_keeps_its_arrays_alive(gpu):
    stream, event = gpu.stream(), gpu.event()
    sent = numbers().view(Kept)
    device = gpu.empty(1 << 20)
    watched, kept = weakref.ref(sent), sent.copy()
    gpu.copy_async(sent, device, stream)  # the ticket is dropped immediately
    del sent
    gc.collect()
    stream.record(event)
    got = np.zeros(1 << 20, "uint8")
    gpu.copy_async(device, got, stream).wait()
    assert np.array_equal(got, kept)
    for _ in range(4):  # later copies notice that the first has ended
        gpu.copy_async(device, got, stream).wait()
    gc.collect()
    assert watched() is None
    assert event.query()


def test_arrays_are_let_go_when_a_later_copy_asks_whether_theirs_have_ended(gpu, monkeypatch):
    stream, event, device, large = gpu.stream(), gpu.event(), gpu.empty(64), gpu.empty(1 << 20)

    def copy_new_arrays(count):
        watched = []
        for _ in range(count):
            sent = numbers(64).view(Kept)
            watched.append(weakref.ref(sent))
            gpu.copy_async(sent, device, stream)
        stream.record(event).synchronize()  # which does not ask
        gc.collect()
        return watched

    def are_alive(watched):
        gc.collect()
        return {one() is not None for one in watched}

    monkeypatch.setattr(ferry.tickets, "_NS_BETWEEN", 1 << 62)
    gpu.copy_async(device, numbers(64), stream).wait()
    few = copy_new_arrays(8)
    assert are_alive(few) == {True}
    many = copy_new_arrays(40)
    assert are_alive(few) == {False}
    gpu.copy_async(large, numbers(1 << 20), stream).wait()
    assert are_alive(many) == {False}
    few = copy_new_arrays(8)
    monkeypatch.setattr(ferry.tickets, "_NS_BETWEEN", 0)
    gpu.copy_async(device, numbers(64), stream).wait()
    assert are_alive(few) == {False}


def test_tickets_of_a_forgotten_instance_are_waited_for_and_released_once():
    calls = []

    class Library:
        def ferry_ticket_get_info(self, handle, info, error):
            return 0

        def ferry_ticket_wait(self, handle, timeout_ns, error):
            calls.append(("wait", handle))
            return 0

        def ferry_ticket_release(self, handle, error):
            calls.append(("release", handle))

    class Instance:
        def __init__(self):
            self.library, self._tickets = Library(), ferry.tickets.Tickets()

        def __del__(self):
            self._tickets.close(self.library)

    made = Instance()
    for handle in (1, 2):
        made._tickets.add(ferry.Ticket(made, handle, (bytes(8),)), 1)
    del made
    gc.collect()
    assert sorted(calls) == [("release", 1), ("release", 2), ("wait", 1), ("wait", 2)]
    assert all(calls.index(("wait", handle)) < calls.index(("release", handle)) for handle in (1, 2))


class Listened:
    """A library that notes the functions that are called."""

    def __init__(self, library):
        self._library, self.called = library, []

    def __getattr__(self, name):
        function = getattr(self._library, name)

        def call(*arguments):
            self.called.append(name)
            return function(*arguments)

        return call


def test_closing_frees_the_arrays_that_only_tickets_keep(on_gpu):
    gpu = ferry.open(software=not on_gpu)
    stream = gpu.stream()
    gpu.library = gpu._handle.library = Listened(gpu.library)
    gpu.copy_async(bytes(64), gpu.empty(64), stream)
    gpu.close()
    called = gpu.library.called
    freed = [at for at, name in enumerate(called) if "free" in name]
    assert freed and freed[-1] < called.index("ferry_close"), called


def test_a_copy_that_the_driver_refuses_in_part_is_waited_for(gpu):
    """The driver may refuse the last part of a copy while the others are in flight."""
    class Refusing(Listened):
        def __getattr__(self, name):
            call = super().__getattr__(name)
            if not name.startswith("ferry_copy"):
                return call
            return lambda *arguments: call(*arguments) or status

    stream, device = gpu.stream(), gpu.empty((8, 8))
    gappy = np.zeros((8, 16), "uint8")[:, ::2][:, ::-1]  # many descriptors
    calls = {"copy_async": lambda: gpu.copy_async(np.zeros((8, 8), "uint8"), device, stream),
             "batch": lambda: gpu.copy_async(gappy, device, stream),
             "copy": lambda: gpu.copy(np.zeros((8, 8), "uint8"), device)}
    gpu.library = Refusing(gpu.library)
    for status, waiting in ((ferry.native.FERRY_STATUS_DRIVER_BASE - 801, list(calls)),
                            (ferry.Status.OUT_OF_MEMORY, list(calls)), (ferry.Status.LIMIT, ["batch"]),
                            (ferry.Status.OUT_OF_BOUNDS, [])):
        for name, call in calls.items():
            gpu.library.called.clear()
            with pytest.raises(ferry.Error) as why:
                call()
            assert why.value.status == status
            called = [each for each in gpu.library.called if each.startswith(("ferry_copy", "ferry_stream"))]
            assert (called[-1] == "ferry_stream_synchronize") == (name in waiting), (status, name, called)
    gpu.library = gpu.library._library


def test_an_interrupt_after_the_enqueuing_waits_for_the_copy(gpu, monkeypatch):
    stream, device = gpu.stream(), gpu.empty(64)
    gpu.library = Listened(gpu.library)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ferry.instance, "Ticket", interrupt)
    for enqueue in (lambda: gpu.copy_async(bytes(64), device, stream),
                    lambda: gpu.copy_async(np.zeros((8, 8), "uint8")[:, ::2][:, ::-1], gpu.empty((8, 4)), stream)):
        gpu.library.called.clear()
        with pytest.raises(KeyboardInterrupt):
            enqueue()
        assert [name for name in gpu.library.called if "ticket" in name][-2:] == ["ferry_ticket_wait",
                                                                                  "ferry_ticket_release"]
    gpu.library = gpu.library._library


def test_a_batch_on_the_default_stream_of_another_device_has_its_ticket_there(gpu):
    if len(gpu.devices) < 2:
        pytest.skip("needs two devices")
    sent, device = numbers(64).reshape(8, 8)[:, ::2][:, ::-1], gpu.empty((8, 4), device=1)
    got, called, failures = np.zeros((8, 4), "uint8"), [], []

    def work():
        try:
            gpu.copy_async(sent, device).wait()
            called.extend(gpu.library.called)
            gpu.copy(device, got)
        except BaseException as why:
            failures.append(why)

    gpu.library = Listened(gpu.library)
    thread = threading.Thread(target=work)  # which has no current context
    thread.start()
    thread.join()
    gpu.library = gpu.library._library
    assert not failures and np.array_equal(sent, got)
    assert "ferry_copy_batch_async" in called and "ferry_ticket_create" not in called, called


def test_tickets_end_in_a_forked_child(gpu):
    stream, device = gpu.stream(), gpu.empty(64)
    ended = gpu.copy_async(bytes(64), device, stream)
    ended.wait()
    is_over = threading.Event()

    def copy():
        while not is_over.is_set():
            gpu.copy_async(bytes(64), device, stream)

    thread = threading.Thread(target=copy)
    thread.start()
    for _ in range(8):
        kept = [gpu.copy_async(bytes(64), device, stream) for _ in range(4)]
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends a child that hangs
            kept.clear()
            del ended
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    is_over.set()
    thread.join()


def test_a_forked_child_closes_although_another_thread_was_releasing_a_ticket():
    tickets = ferry.tickets.Tickets()
    tickets._busy.append(7)  # as that thread left it
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        tickets.close(None)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def in_child(work):
    """Runs `work` in the child of a fork. It fails if that returns anything but None, raises or crashes."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os._exit(0 if work() is None else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_what_belongs_to_the_parent_says_so_in_the_child_of_a_fork(gpu, monkeypatch):
    monkeypatch.setattr(ferry.tickets, "_NS_BETWEEN", 1 << 62)  # so that no call has seen the copy end
    stream, event, device, pinned = gpu.stream(), gpu.event(), gpu.empty(64), gpu.pinned(64)
    ticket = gpu.copy_async(device, pinned, stream)
    prepared, batch = gpu.prepare([(pinned, device)], stream), gpu.batch(stream)
    uses = {"copy": lambda: gpu.copy(bytes(4), bytearray(4)), "device": lambda: gpu.copy(device, pinned),
            "copy_async": lambda: gpu.copy_async(bytes(4), bytearray(4)), "enqueue": lambda: gpu.enqueue(device, pinned),
            "fill": lambda: gpu.fill(ferry.memory(64, 4)), "empty": lambda: gpu.empty(4), "pinned": lambda: gpu.pinned(4),
            "stream": stream.synchronize, "handle": lambda: stream.handle, "event": event.query, "ticket": ticket.wait,
            "progress": lambda: ticket.progress, "launch": lambda: prepared.launch(stream),
            "address": lambda: device.address, "shown": lambda: np.asarray(pinned), "part": lambda: pinned[1:],
            "buffer": lambda: pinned.buffer, "devices": lambda: gpu.devices, "waiters": lambda: ticket.future(),
            "instance": lambda: gpu.handle, "prepare": lambda: gpu.prepare([(bytes(4), bytearray(4))]),
            "batch": lambda: (batch.copy(bytes(4), bytearray(4)), batch.__exit__(None, None, None))}

    def work():
        wrong = []
        for name, use in uses.items():
            try:
                use()
                wrong.append(name)
            except ferry.ClosedError as why:
                if "belongs to the parent process" not in str(why):
                    wrong.append((name, str(why)))
        if wrong:
            print(wrong, flush=True)
            return wrong
        for one in (ticket, prepared, batch, stream, event, device, pinned, gpu):
            if hasattr(one, "close"):
                one.close()

    in_child(work)
    gpu.copy(bytes(range(64)), device)  # the parent's goes on
    gpu.copy(device, pinned)
    assert bytes(pinned.buffer) == bytes(range(64))
    ticket.wait()


def test_a_child_of_a_fork_shares_pinned_memory_if_asked_for(gpu):
    shared = gpu.pinned(4096, shared=True)
    shown = np.asarray(shared)
    shown[:] = 5

    def work():
        if (shown != 5).any():
            return "not shared"
        shown[7] = 9
        del shared._view  # and nothing is freed

    in_child(work)
    device, got = gpu.empty(4096), bytearray(4096)
    gpu.copy(shared, device)
    gpu.copy(device, got)
    assert got[6:9] == b"\5\x09\5"


def test_a_child_of_a_fork_opens_its_own_if_its_parent_has_none(on_gpu):
    program = f"""if True:
        import ferry, os
        child = os.fork()
        with ferry.open(software={not on_gpu}) as gpu:
            got = bytearray(4)
            device = gpu.empty(4)
            gpu.copy(b"abcd", device)
            gpu.copy(device, got)
            assert got == b"abcd"
        assert not child or os.waitpid(child, 0)[1] == 0
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done


def test_copies_end_before_a_batch_whose_ticket_cannot_be_made_raises(gpu, monkeypatch):
    sent, device, got = numbers(), gpu.empty(1 << 20), np.zeros(1 << 20, "uint8")
    stream = gpu.stream()

    def make(*_):
        raise MemoryError

    monkeypatch.setattr(ferry.instance, "Ticket", make)
    with pytest.raises(MemoryError):
        with gpu.batch(stream) as batch:
            batch.copy(sent, device)
    monkeypatch.undo()
    assert stream.query()
    gpu.copy(device, got)
    assert np.array_equal(sent, got)


def test_a_copy_again_follows_what_the_array_has_become(gpu):
    sent, got, device = np.arange(12, dtype="int32"), np.zeros(12, "int32"), gpu.empty(12, "int32")
    for _ in range(2):
        gpu.copy(sent, device)
        gpu.copy(device, got)
    assert np.array_equal(sent, got)
    gpu.copy(device[::2], got[1::2])
    assert np.array_equal(got[1::2], sent[::2])
    with pytest.raises(ferry.ArgumentError, match="float32"):
        gpu.copy(sent.view("float32"), device)
    with pytest.raises(ferry.ArgumentError, match="mask"):
        gpu.copy(np.ma.array(sent, mask=sent > 5), device)
    with pytest.raises(ferry.ArgumentError, match="mask"):
        gpu.copy(MaskedSubclass(sent, mask=sent > 5), device)
    gpu.copy(np.ma.array(sent), device)
    sent.shape = 3, 4
    with pytest.raises(ferry.ArgumentError, match="shape"):
        gpu.copy(sent, device)
    got.flags.writeable = False
    with pytest.raises(ferry.ArgumentError, match="read-only"):
        gpu.copy(device, got)
    gpu.copy(got, device)
    nothing = np.zeros(0, "int32")
    gpu.copy(nothing, nothing.copy())
    device.close()
    with pytest.raises(ferry.ClosedError):
        gpu.copy(got, device)


def test_elements_that_no_buffer_knows_are_copied(gpu):
    sent = np.zeros(4, [("when", "M8[s]"), ("what", "f8")])
    sent["what"] = range(4)
    for _ in range(2):
        got = np.zeros_like(sent)
        gpu.copy(sent, got)
        assert (sent == got).all()
    times, later = np.arange(5).astype("M8[s]"), np.zeros(5, "M8[s]")
    gpu.copy(times, later)
    assert (times == later).all()
    with pytest.raises(ferry.ArgumentError, match="dtype|elements"):
        gpu.copy(times, np.zeros(5, "M8[ms]"))


def test_pieces_hold_their_arrays_during_the_call(gpu):
    sent, got, device = numbers(1 << 12), np.zeros(1 << 12, "uint8"), gpu.empty(1 << 12)
    seen = []

    def library_call(*arguments, **options):
        with pytest.raises(BufferError):
            at.append(1)
        seen.append(arguments[0])

    at = array.array("Q", [device.address])
    real, gpu.call = gpu.call, library_call
    gpu.copy_pieces(sources=array.array("Q", [sent.ctypes.data]), destinations=at, sizes=array.array("Q", [1 << 12]))
    gpu.call = real
    assert seen == ["ferry_copy_pieces_async"]
    gpu.copy_pieces(sources=array.array("Q", [sent.ctypes.data]), destinations=at, sizes=array.array("Q", [1 << 12]))
    gpu.copy(device, got)
    assert np.array_equal(sent, got)


def test_futures_and_asyncio(gpu):
    stream, device, got = gpu.stream(), gpu.empty(1 << 20), np.zeros(1 << 20, "uint8")
    sent = numbers()

    async def there_and_back():
        await gpu.copy_async(sent, device, stream)
        await asyncio.gather(*(wait(gpu.copy_async(device, got, stream)) for _ in range(5)))

    async def wait(ticket):
        await ticket

    asyncio.run(there_and_back())
    assert np.array_equal(sent, got)
    futures = [gpu.copy_async(device, got, stream).future() for _ in range(5)]
    assert not concurrent.futures.wait(futures, timeout=30).not_done
    assert all(future.result() is None for future in futures)


class TorchStream:
    def __init__(self, handle):
        self.cuda_stream = handle


class CupyStream:
    def __init__(self, handle):
        self.ptr = handle


class NumbaStream:
    def __init__(self, handle):
        import ctypes
        self.handle = ctypes.c_void_p(handle)


class CudaPythonStream:
    def __init__(self, handle):
        self._handle = handle

    def __cuda_stream__(self):
        return 0, self._handle


class NumberedStream:
    def __init__(self, handle):
        self._handle = handle

    def __int__(self):
        return self._handle


@pytest.mark.parametrize("kind", [int, TorchStream, CupyStream, NumbaStream, CudaPythonStream, NumberedStream])
def test_streams_of_other_libraries(gpu, kind):
    own = gpu.stream()
    sent, device, got = numbers(4096), gpu.empty(4096), np.zeros(4096, "uint8")
    gpu.copy_async(sent, device, kind(own.handle))
    gpu.copy_async(device, got, kind(own.handle))
    own.synchronize()
    assert np.array_equal(sent, got)


def test_default_streams(gpu):
    device = gpu.empty(16)
    for stream in (None, 0, ferry.LEGACY, ferry.PER_THREAD):
        gpu.copy_async(bytes(16), device, stream).wait()


def test_what_is_no_stream(gpu):
    for wrong in (object(), "stream", 3.5):
        with pytest.raises(TypeError, match=f"{type(wrong).__name__} is not a stream"):
            gpu.copy_async(bytes(4), bytearray(4), wrong)


def test_a_stream_of_another_library_that_is_dead(gpu, on_gpu):
    if on_gpu:
        pytest.skip("the NVIDIA driver may crash with a handle that it no longer knows")
    own, device = gpu.stream(), gpu.empty(16)
    number = own.handle
    own.close()
    with pytest.raises(ferry.Error, match="a stream, event, array or other handle is invalid"):
        gpu.copy_async(bytes(16), device, number)


def test_events_order_streams_and_measure(gpu):
    one, other, start, end = gpu.stream(), gpu.stream(), gpu.event(), gpu.event()
    one.record(start)
    device, got = gpu.empty(1 << 20), np.zeros(1 << 20, "uint8")
    sent = numbers()
    gpu.enqueue(sent, device, one)
    one.record(end)
    other.wait(end)
    gpu.copy_async(device, got, other).wait()
    assert np.array_equal(sent, got) and end.elapsed_since(start) >= 0


# ---- What keeps arrays

class Refuses:
    """An array whose interface raises."""
    @property
    def __array_interface__(self):
        raise RuntimeError("no")


def failing_calls(gpu, stream):
    """Calls that fail after they have made a view of `one`, by name."""
    small = gpu.empty(7)

    def batch(one):
        with gpu.batch(stream) as batch:
            batch.copy(one, small)

    def late_batch(one):
        device = gpu.empty(len(one))
        with gpu.batch(stream, options=CHECK_OVERLAP) as batch:
            batch.copy(one, device)
            batch.copy(one, device)

    def broken_batch(one):
        with gpu.batch(stream) as batch:
            batch.copy(one, gpu.empty(len(one)))
            raise RuntimeError

    return {"copy": lambda one: gpu.copy(one, small), "destination": lambda one: gpu.copy(small, one),
            "second": lambda one: gpu.copy(one, Refuses()), "copy_async": lambda one: gpu.copy_async(one, small, stream),
            "stream": lambda one: gpu.copy_async(one, gpu.empty(len(one)), "no stream"),
            "enqueue": lambda one: gpu.enqueue(one, small, stream), "explain": lambda one: gpu.explain(one, small),
            "forced": lambda one: gpu.copy(one, bytearray(len(one)), BY_KERNEL),
            "forced_async": lambda one: gpu.copy_async(one, bytearray(len(one)), stream, BY_KERNEL),
            "fill": lambda one: gpu.fill(one, 1), "explain_fill": lambda one: gpu.explain_fill(one, b"123"),
            "prepare": lambda one: gpu.prepare([(one, gpu.empty(len(one))), (one, small)], stream),
            "prepare_forced": lambda one: gpu.prepare([(one, gpu.empty(len(one))), (Refuses(), small)], stream),
            "pieces": lambda one: gpu.copy_pieces(sources=one, destinations=one, sizes=one),
            "more_pieces": lambda one: gpu.copy_pieces(sources=memoryview(one).cast("Q"),
                                                       destinations=memoryview(one).cast("Q")[:1], sizes=one),
            "batch": batch, "late_batch": late_batch, "broken_batch": broken_batch}


def test_a_call_that_fails_leaves_buffers_free_although_its_exception_is_kept(gpu):
    for name, call in failing_calls(gpu, gpu.stream()).items():
        pages, kept = mmap.mmap(-1, 4096), None
        try:
            call(pages)
        except (ferry.Error, TypeError, RuntimeError) as why:
            kept = why
        assert kept is not None, name
        if name not in ("more_pieces",):  # whose memoryviews are the test's
            pages.close()


def test_what_ends_lets_its_buffers_go(gpu):
    device, stream = gpu.empty(4096), gpu.stream()

    def pages():
        made = mmap.mmap(-1, 4096)
        gpu.copy(made, device)
        return made

    for wait in ("ticket", "stream", "instance", "done"):
        one = pages()
        ticket = gpu.copy_async(one, device, stream)
        {"ticket": ticket.wait, "stream": stream.synchronize, "instance": gpu.synchronize,
         "done": lambda: (stream.synchronize(), ticket.done)}[wait]()
        one.close()
    one = pages()
    with gpu.batch(stream) as batch:
        batch.copy(one, device)
    batch.ticket.wait()
    one.close()
    one = pages()
    with gpu.batch() as batch:
        batch.copy(one, device)
    one.close()
    for launches in range(3):
        one = pages()
        prepared = gpu.prepare([(one, device)], stream)
        for _ in range(launches):
            prepared.launch(stream)
        with pytest.raises(BufferError):
            one.close()
        stream.synchronize()
        prepared.close()
        one.close()
        prepared.close()


def test_a_prepared_batch_that_closes_keeps_its_arrays_until_its_launches_have_passed(gpu, monkeypatch):
    monkeypatch.setattr(ferry.tickets, "_NS_BETWEEN", 1 << 62)  # so that no call queries before
    device, stream, got = gpu.empty(1 << 20), gpu.stream(), np.zeros(1 << 20, "uint8")
    sent = numbers().view(Kept)
    watched, kept = weakref.ref(sent), sent.copy()
    prepared = gpu.prepare([(sent, device)], stream)
    asked = gpu.library

    class Busy(Listened):
        def ferry_stream_query(self, instance, handle, done, error):
            return 0  # and not done

    prepared.launch(stream)
    gpu.library = Busy(asked)
    del sent
    prepared.close()
    gpu.library = asked
    gc.collect()
    assert watched() is not None
    stream.synchronize()
    gc.collect()
    assert watched() is None
    gpu.copy(device, got)
    assert np.array_equal(kept, got)


def test_a_prepared_batch_may_close_after_its_streams(gpu):
    device = gpu.empty(64)
    for make in (gpu.stream, lambda: None, lambda: ferry.LEGACY, lambda: ferry.PER_THREAD):
        stream = make()
        prepared = gpu.prepare([(bytes(64), device)], stream)
        prepared.launch(stream)
        if hasattr(stream, "close"):
            stream.close()
        prepared.close()
    prepared = gpu.prepare([(bytes(64), device)])
    prepared.launch()
    gpu.close()
    prepared.close()
    with pytest.raises(ferry.ClosedError):
        prepared.launch()


def test_memory_stays_while_it_is_shown_or_copied(gpu):
    pinned = gpu.pinned(1 << 16)
    shown, raw, view = np.asarray(pinned), pinned.buffer, pinned[1:]
    shown[:] = 7
    ticket = gpu.copy_async(pinned, gpu.empty(1 << 16), gpu.stream())
    pinned.close()
    for use in (lambda: pinned.address, lambda: pinned.view, lambda: pinned.buffer, lambda: np.asarray(pinned),
                lambda: gpu.copy(pinned, bytearray(1 << 16)), lambda: pinned[0]):
        with pytest.raises(ferry.ClosedError, match="this PinnedArray is closed"):
            use()
    got = bytearray(1 << 16)
    gpu.copy(view, memoryview(got)[1:])
    assert set(got[1:]) == {7} and raw[5] == 7
    shown[:] = 8
    assert raw[5] == 8
    ticket.wait()
    device = gpu.empty(1 << 16)
    part = device[:16]
    gpu.copy(bytes(range(16)), part)
    device.close()
    gpu.copy(part, memoryview(got)[:16])
    assert bytes(got[:16]) == bytes(range(16))


def test_memory_is_freed_with_the_last_that_shows_it(gpu):
    gpu._handle.library = heard = Listened(gpu.library)
    for show in (np.asarray, lambda pinned: np.asarray(pinned)[3:].reshape(1, -1), lambda pinned: pinned.buffer,
                 lambda pinned: pinned.view, lambda pinned: pinned[2:3]):
        pinned = gpu.pinned(64)
        shown = show(pinned)
        pinned.close()
        gc.collect()
        assert heard.called == []
        del shown
        gc.collect()
        assert heard.called == ["ferry_host_free"]
        heard.called.clear()
    gpu.empty(64).close()
    assert heard.called == ["ferry_device_free"]
    heard.called.clear()
    device = gpu.empty(64)

    class Tensor:  # as PyTorch, CuPy and Numba have it
        def __init__(self, array):
            self.array, self.interface = array, array.__cuda_array_interface__

    shown = Tensor(device)
    device.close()
    with pytest.raises(ferry.ClosedError):
        device.__cuda_array_interface__
    del device
    assert heard.called == []
    del shown
    assert heard.called == ["ferry_device_free"]
    gpu._handle.library = gpu.library


@pytest.mark.parametrize("flags", [0, ferry.native.FERRY_HOST_BY_DRIVER])
def test_arrays_of_numpy_outlive_the_instance(on_gpu, flags):
    gpu = ferry.open(software=not on_gpu)
    shown = np.asarray(gpu.pinned(1 << 16, flags=flags))
    heard = gpu._handle.library = Listened(gpu.library)
    gpu.close()
    assert not gpu.is_open and "ferry_close" not in heard.called
    shown[:] = 3
    assert shown.sum() == 3 << 16
    del shown
    assert heard.called[-2:] == ["ferry_host_free", "ferry_close"]


def test_closing_ends_everything_of_the_instance_first(on_gpu):
    gpu = ferry.open(software=not on_gpu)
    heard = gpu._handle.library = Listened(gpu.library)
    kept = [gpu.empty(64), gpu.pinned(64), gpu.stream(), gpu.event(), gpu.prepare([(bytes(64), gpu.empty(64))])]
    gpu.close()
    assert sorted(heard.called[:-1]) == ["ferry_device_free"] * 2 + ["ferry_event_destroy", "ferry_host_free",
                                                                     "ferry_prepared_destroy", "ferry_stream_destroy"]
    assert heard.called[-1] == "ferry_close" and len(kept) == 5


def test_an_exception_that_is_kept_does_not_keep_the_instance_open(on_gpu):
    gpu = ferry.open(software=not on_gpu)
    heard, kept, rows, there = Listened(gpu.library), [], np.zeros((4, 4, 4), "uint8")[:, ::2, ::2], gpu.empty(4)
    gpu._handle.library = heard

    def overlapping(stream):
        with gpu.batch(stream, options=CHECK_OVERLAP) as batch:
            batch.copy(bytes(4), there)
            batch.copy(bytes(4), there)

    for fail in (lambda: gpu.empty(1 << 50), lambda: gpu.copy(bytes(4), bytearray(4), BY_KERNEL),
                 lambda: gpu.copy_async(bytes(4), bytearray(4), None, BY_KERNEL), lambda: gpu.load_profile("?"),
                 lambda: gpu.enqueue(bytes(4), bytearray(4), None, BY_KERNEL), lambda: gpu.stream(99),
                 lambda: gpu.copy_async(rows, rows[::-1].copy(), None, BY_KERNEL), lambda: overlapping(None),
                 lambda: overlapping(ferry.LEGACY), lambda: gpu.prepare([(ferry.memory(64, 4, 0), there)])):
        with pytest.raises(ferry.Error) as raised:
            fail()
        kept.append(raised)
    gpu.close()
    assert heard.called[-2:] == ["ferry_device_free", "ferry_close"] and len(kept) == 10


# ---- Batches, pieces, fills

def test_a_batch_of_thousands(gpu):
    sent = numbers(4096 * 64).reshape(4096, 64)
    device, got = gpu.empty((4096, 64)), np.zeros((4096, 64), "uint8")
    order = np.random.default_rng(4).permutation(4096)
    with gpu.batch() as batch:
        for one, other in enumerate(order):
            batch.copy(sent[one], device[int(other)])
    assert len(batch) == 0
    gpu.copy(device, got)
    assert np.array_equal(got[order], sent)
    with gpu.batch(gpu.stream()) as batch:
        for one in range(4096):
            batch.copy(device[one], got[4095 - one])
        assert len(batch) == 4096
    batch.ticket.wait()
    assert np.array_equal(got[::-1][order], sent)


def test_a_batch_whose_block_raises_copies_nothing(gpu):
    got = bytearray(4)
    with pytest.raises(RuntimeError):
        with gpu.batch() as batch:
            batch.copy(b"abcd", got)
            raise RuntimeError
    assert got == bytes(4)


def test_overlap_in_a_batch_is_named(gpu):
    device = gpu.empty(64)
    with pytest.raises(ferry.Error, match="OVERLAP") as raised:
        with gpu.batch(options=CHECK_OVERLAP) as batch:
            batch.copy(bytes(32), device[:32])
            batch.copy(bytes(32), device[16:48])
    assert raised.value.index == 1 and raised.value.field == "address"


def test_a_prepared_batch_runs_again_and_again(gpu):
    sent, device, got = numbers(4096).reshape(64, 64), gpu.empty((64, 64)), np.zeros((64, 64), "uint8")
    stream = gpu.stream()
    pinned = gpu.pinned((64, 64))
    there = gpu.prepare(((pinned[row, 8:56], device[row, 8:56]) for row in range(64)), stream)
    for turn in range(3):
        np.asarray(pinned)[:] = sent + np.uint8(turn)
        there.launch(stream)
        stream.synchronize()
        gpu.copy(device[:, 8:56], got[:, 8:56])
        assert np.array_equal(got[:, 8:56], (sent + np.uint8(turn))[:, 8:56])
    there.close()
    with pytest.raises(ferry.ClosedError, match="this Prepared is closed"):
        there.launch(stream)


def test_pieces_by_address(gpu):
    sent, device, got = numbers(4096 * 32), gpu.empty(4096 * 32), np.zeros(4096 * 32, "uint8")
    at = np.arange(4096, dtype="uint64") * 32
    sizes = np.full(4096, 32, "uint64")
    gpu.copy_pieces(sources=at + sent.ctypes.data, destinations=at + device.address, sizes=sizes)
    gpu.copy_pieces(sources=at + device.address, destinations=at[::-1].copy() + got.ctypes.data, sizes=sizes)
    gpu.synchronize()
    assert np.array_equal(got.reshape(4096, 32)[::-1], sent.reshape(4096, 32))
    with pytest.raises(ferry.ArgumentError, match="contiguous array of uint64"):
        gpu.copy_pieces(sources=at[::2], destinations=at[::2], sizes=sizes[::2])
    with pytest.raises(ferry.ArgumentError, match="has 3 elements"):
        gpu.copy_pieces(sources=at[:4], destinations=at[:3], sizes=sizes[:4])
    with pytest.raises(ferry.Error, match="pieces.sources: 0x[0-9a-f]+, must not be the same as destinations"):
        gpu.copy_pieces(sources=at, destinations=at, sizes=sizes)
    with pytest.raises(TypeError):
        gpu.copy_pieces(at, at, sizes)


@pytest.mark.parametrize("pattern", [7, b"\x01\x02", b"abcd", b"01234567"])
def test_fills_of_every_pattern(gpu, pattern):
    given = bytes([pattern]) if isinstance(pattern, int) else pattern
    device, got = gpu.empty((8, 64)), np.zeros((8, 64), "uint8")
    gpu.copy(got, device)
    gpu.fill(device[2:6, 16:48], pattern)
    gpu.copy(device, got)
    wanted = np.zeros((8, 64), "uint8")
    wanted[2:6, 16:48] = np.frombuffer(given * (32 // len(given)), "uint8")
    assert np.array_equal(got, wanted)


def test_a_fill_of_pageable_memory_is_refused(gpu):
    with pytest.raises(ferry.Error) as raised:
        gpu.fill(np.zeros(16, "uint8"), 1)
    assert (raised.value.side, raised.value.field, raised.value.numbers) == ("destination", "address", "value")


# ---- Errors

def test_errors_tell_side_and_field(gpu):
    device = gpu.empty(64)
    with pytest.raises(ferry.Error) as raised:
        gpu.copy(bytearray(65), ferry.memory(device.address, 65, device=0))
    assert raised.value.status is ferry.Status.OUT_OF_BOUNDS
    assert raised.value.side == "destination" and "FERRY_ERROR_OUT_OF_BOUNDS" in str(raised.value)
    assert not isinstance(raised.value, ferry.ArgumentError)


def test_every_call_has_the_details_of_its_error(gpu):
    for call in (lambda: gpu.synchronize(99), lambda: gpu.save_profile(99), lambda: gpu.prepare_staging(99),
                 lambda: gpu.enable_peer(99, 0)):
        with pytest.raises(ferry.Error) as raised:
            call()
        why = raised.value
        assert (why.field, why.value, why.limit, why.numbers) == ("device", 99, len(gpu.devices), "count")
    with pytest.raises(ferry.Error, match="CUDA_ERROR_INVALID_HANDLE from cuEventElapsedTime") as raised:
        gpu.event().elapsed_since(gpu.event())  # neither was recorded
    assert raised.value.driver_function == "cuEventElapsedTime"


def test_a_copy_that_fails_later_has_the_details_of_its_error(gpu, monkeypatch):
    monkeypatch.setattr(ferry.tickets, "_NS_BETWEEN", 1 << 62)  # so that no copy queries the copies before
    status, ends = ferry.native.FERRY_STATUS_DRIVER_BASE - 719, []

    class Failing(Listened):
        def ferry_ticket_get_info(self, handle, info, error):
            info._obj.done, info._obj.status = 1, status
            return 0

        def ferry_ticket_wait(self, handle, timeout_ns, error):
            ends.append(self._library.ferry_ticket_wait(handle, timeout_ns, None))
            if error is not None:
                error._obj.status, error._obj.driver_function = status, b"cuEventQuery"
            return status

    stream, device = gpu.stream(), gpu.empty(64)
    gpu.library = Failing(gpu.library)
    waited, queried, closed = (gpu.copy_async(bytes(64), device, stream) for _ in range(3))
    assert queried.done
    for ticket in (waited, queried, queried):
        with pytest.raises(ferry.Error) as raised:
            ticket.wait()
        assert (raised.value.status, raised.value.driver_function) == (status, "cuEventQuery")
    gpu._tickets.close(gpu.library)
    gpu.library = gpu.library._library
    with pytest.raises(ferry.Error) as raised:
        closed.wait()
    assert (raised.value.status, raised.value.driver_function) == (status, "cuEventQuery")
    assert ends and set(ends) == {0}


def test_device_numbers_and_options_are_checked(gpu):
    with pytest.raises(ferry.Error) as raised:
        gpu.empty(16, device=99)
    assert raised.value.status == ferry.native.FERRY_ERROR_DEVICE
    with pytest.raises(TypeError, match="no option 'sofware_devices'"):
        ferry.open(software=True, sofware_devices=2)
    with pytest.raises(ValueError, match="negative"):
        gpu.empty(-1)


def test_a_status_of_the_driver_is_a_plain_number(gpu):
    with pytest.raises(ferry.Error) as raised:
        gpu.empty(1 << 50)
    assert raised.value.status == ferry.native.FERRY_STATUS_DRIVER_BASE - 2  # out of memory
    assert not isinstance(raised.value.status, ferry.Status)


def test_the_tag_of_every_call_arrives_in_its_ticket(gpu):
    stream, device, sent = gpu.stream(), gpu.empty((8, 4)), numbers(64).reshape(8, 8)[:, ::2]
    pinned, nothing, got = gpu.pinned((8, 4)), gpu.empty(0), np.zeros((8, 4), "uint8")
    tagged = ferry.CopyOptions(tag=(1 << 64) - 1)
    prepared = gpu.prepare([(device, pinned)], stream, tagged)
    at = {name: np.array([number], "uint64") for name, number in
          (("destinations", device.address), ("sources", pinned.address), ("sizes", 32))}
    tickets = {"copy": gpu.copy_async(sent, device, stream, tagged),
               "several": gpu.copy_async(sent[:, ::-1], device, stream, tagged),
               "nothing": gpu.copy_async(np.zeros(0, "uint8"), nothing, stream, tagged),
               "pieces": gpu.copy_pieces_ticket(stream, tagged, **at), "fill": gpu.fill_async(device, 7, stream, tagged),
               "several fills": gpu.fill_async(device[:, ::2], 9, stream, tagged),
               "no fill": gpu.fill_async(nothing, 7, stream, tagged), "launch": prepared.launch_ticket(stream)}
    with gpu.batch(stream, tagged) as batch:
        batch.copy(device, got)
    tickets["batch"] = batch.ticket
    for name, ticket in tickets.items():
        ticket.wait()
        assert ticket.tag == (1 << 64) - 1, name
    assert tickets["copy"].progress == tickets["several"].progress == tickets["batch"].progress == (32, 32)
    assert tickets["fill"].progress == (32, 32)
    assert set(got[:, ::2].flat) == {9} and set(got[:, 1::2].flat) == {7} and np.array_equal(np.asarray(pinned), got)
    launched = prepared.launch_ticket(stream, ferry.CopyOptions(tag=5))
    untagged = gpu.copy_async(sent, device, stream), prepared.launch_ticket(stream, ferry.CopyOptions())
    launched.wait()
    assert launched.tag == 5 and [ticket.tag for ticket in untagged] == [0, 0]


def test_a_fill_in_flight_keeps_its_array_alive(gpu, monkeypatch):
    monkeypatch.setattr(ferry.tickets, "_NS_BETWEEN", 1 << 62)  # so that no call queries before
    stream, pinned = gpu.stream(), gpu.pinned(64)
    heard = gpu._handle.library = Listened(gpu.library)
    ticket = gpu.fill_async(pinned, 3, stream)
    pinned.close()
    assert "ferry_host_free" not in heard.called
    ticket.wait()
    gc.collect()
    assert "ferry_host_free" in heard.called
    gpu._handle.library = gpu.library


def every_call(gpu, options, stream):
    """Calls that take options, by name."""
    host, device = bytearray(64), gpu.empty(64)

    def batch(stream):
        with gpu.batch(stream, options) as batch:
            batch.copy(host, device)

    at = {name: np.zeros(1, "uint64") for name in ("sources", "destinations", "sizes")}
    prepared = gpu.prepare([(host, device)], stream)
    return {"copy": lambda: gpu.copy(host, device, options), "explain": lambda: gpu.explain(host, device, None, options),
            "copy_async": lambda: gpu.copy_async(host, device, stream, options),
            "enqueue": lambda: gpu.enqueue(host, device, stream, options), "batch": lambda: batch(stream),
            "batch now": lambda: batch(None), "pieces": lambda: gpu.copy_pieces(stream, options, **at),
            "pieces' ticket": lambda: gpu.copy_pieces_ticket(stream, options, **at),
            "prepare": lambda: gpu.prepare([(host, device)], stream, options),
            "launch": lambda: prepared.launch(stream, options),
            "launch's ticket": lambda: prepared.launch_ticket(stream, options),
            "fill": lambda: gpu.fill(device, 7, None, options), "fill on stream": lambda: gpu.fill(device, 7, stream, options),
            "fill_async": lambda: gpu.fill_async(device, 7, stream, options),
            "explain_fill": lambda: gpu.explain_fill(device, 7, None, options)}


def test_every_call_names_the_field_of_the_options_that_it_refuses(gpu):
    stream = gpu.stream()
    for field, value, status in (("route", 99, "INVALID_ARGUMENT"), ("route", ferry.Route.BUFFERED, "UNSUPPORTED"),
                                 ("priority", -1, "INVALID_ARGUMENT"), ("source_order", 3, "INVALID_ARGUMENT"),
                                 ("priority", ferry.Priority.BACKGROUND, "UNSUPPORTED"), ("flags", 1 << 20, "FLAGS"),
                                 ("max_sms", 1 << 16, "INVALID_ARGUMENT")):
        for name, call in every_call(gpu, ferry.CopyOptions(**{field: value}), stream).items():
            with pytest.raises(ferry.Error) as raised:
                call()
            why = raised.value
            assert (why.status, why.side, why.field) == (ferry.Status[status], "options", field), (name, why)
    for wrong in (0, 4, "driver", ferry.Route.DRIVER, b"ab"):
        for name, call in every_call(gpu, wrong, stream).items():
            with pytest.raises(TypeError, match="options must be ferry.CopyOptions"):
                call()


def test_options_of_the_instance_apply_to_calls_that_have_none(on_gpu):
    staged = ferry.CopyOptions(ferry.Route.STAGED, tag=7)
    with open_instance(not on_gpu, copy_options=staged) as gpu:
        stream, host, device = gpu.stream(), bytearray(64), gpu.empty(64)
        own, other = gpu.copy_async(host, device, stream), gpu.copy_async(host, device, stream, BY_DRIVER)
        assert (own.route, own.tag, other.route, other.tag) == ("staged", 7, "driver", 0)
        assert gpu.explain(host, device).route == "staged"
        assert gpu.explain(host, device, None, ferry.CopyOptions()).route == "driver"
    with pytest.raises(ferry.Error) as raised:
        ferry.open(software=not on_gpu, copy_options=ferry.CopyOptions(max_sms=1 << 16))
    assert (raised.value.side, raised.value.field) == ("options", "max_sms")


def test_options_can_be_compared_copied_and_pickled(gpu):
    options = ferry.CopyOptions(ferry.Route.DRIVER, tag=7)
    host, device = bytearray(64), gpu.empty(64)
    for one in (copy.copy(options), copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        assert one == options and hash(one) == hash(options)
        assert gpu.copy_async(host, device, None, one).tag == 7
    assert options != ferry.CopyOptions(ferry.Route.DRIVER)
    with pytest.raises(AttributeError):
        options.tag = 8


def test_forced_routes_and_explanations(gpu):
    device, host = gpu.empty(1 << 20), bytearray(1 << 20)
    told = gpu.explain(host, device, options=BY_DRIVER)
    assert told.route == "driver" and "pageable to device 0" in str(told) and told.blocks
    assert gpu.explain(host, device, gpu.stream()).driver_ns > 0
    with pytest.raises(ferry.Error, match="ROUTE"):
        gpu.copy(bytearray(64), bytearray(64), BY_KERNEL)
    with pytest.raises(ferry.ArgumentError, match="nothing to copy"):
        gpu.explain(bytearray(0), bytearray(0))
    filled = gpu.explain_fill(device, b"\x01\x02")
    assert filled.route == "driver" and "cuMemsetD16Async" in str(filled) and filled.blocks
    assert not gpu.explain_fill(device, 7, gpu.stream()).blocks
    assert str(gpu.explain_fill(gpu.empty((2, 3, 4, 5), "float32"), bytes(range(16)))).startswith("kernel route")
    with pytest.raises(ferry.ArgumentError, match="nothing to fill"):
        gpu.explain_fill(gpu.empty(0))
    with pytest.raises(ferry.Error, match="PATTERN|pattern"):
        gpu.explain_fill(device, b"123")


# ---- Life

def test_a_closed_instance_says_so(on_gpu):
    gpu = ferry.open(software=not on_gpu)
    device, stream = gpu.empty(64), gpu.stream()
    ticket = gpu.copy_async(bytes(64), device, stream)
    gpu.close()
    gpu.close()
    for use in (lambda: gpu.copy(bytes(4), bytearray(4)), lambda: gpu.copy_async(bytes(4), bytearray(4)),
                lambda: stream.synchronize(), lambda: gpu.copy(bytes(64), device), lambda: gpu.empty(4),
                lambda: ticket.progress, lambda: gpu.devices, lambda: gpu.enqueue(bytes(4), bytearray(4))):
        with pytest.raises(ferry.ClosedError, match="closed"):
            use()
    ticket.wait()
    assert ticket.done and ticket.future().result(0) is None
    del ticket, device, stream
    gc.collect()


def test_closing_waits_for_copies_in_flight(on_gpu):
    sent, got = numbers(1 << 24), np.zeros(1 << 24, "uint8")
    with ferry.open(software=not on_gpu) as gpu:
        device, stream = gpu.empty(1 << 24), gpu.stream()
        gpu.copy_async(sent, device, stream)
        gpu.copy_async(device, got, stream)
    assert np.array_equal(sent, got)


def test_freed_memory_is_given_back(gpu):
    for _ in range(20):
        gpu.empty(1 << 30)  # twenty of them would not fit the software driver's device
    gc.collect()


def test_many_threads(gpu):
    failures = []

    def work(seed):
        try:
            sent = np.random.default_rng(seed).integers(0, 255, 1 << 16, dtype="uint8")
            device, got, stream = gpu.empty(1 << 16), np.zeros(1 << 16, "uint8"), gpu.stream()
            for _ in range(20):
                got[:] = 0
                gpu.copy_async(sent, device, stream)
                gpu.copy_async(device, got, stream).wait()
                assert np.array_equal(sent, got)
        except BaseException as why:
            failures.append(why)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_program_may_end_without_closing(on_gpu):
    program = f"import ferry; gpu = ferry.open(software={not on_gpu}); device = gpu.empty(64); stream = gpu.stream(); " \
              "ticket = gpu.copy_async(bytes(64), device, stream)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done


def test_profiles_and_facts(gpu):
    text = gpu.save_profile()
    gpu.load_profile(text)
    with pytest.raises(ferry.Error, match="PROFILE"):
        gpu.load_profile("nonsense")
    device = gpu.devices[0]
    assert device.name and device.memory > 0 and device.sm_count > 0
    gpu.prepare_staging(0)


def test_the_module_as_a_program():
    told = subprocess.run([sys.executable, "-m", "ferry", "info", "--software"], capture_output=True, text=True)
    assert told.returncode == 0 and "the software driver" in told.stdout and "device 1:" in told.stdout
    wrong = subprocess.run([sys.executable, "-m", "ferry", "fly"], capture_output=True, text=True)
    assert wrong.returncode == 2


# ---- Arguments

HANDLES = {"Instance": lambda gpu: gpu, "DeviceArray": lambda gpu: gpu.empty(16), "PinnedArray": lambda gpu: gpu.pinned(16),
           "Stream": lambda gpu: gpu.stream(), "Event": lambda gpu: gpu.event(), "Batch": lambda gpu: gpu.batch(),
           "Ticket": lambda gpu: gpu.copy_async(bytes(16), gpu.empty(16)), "View": lambda gpu: gpu.empty(16)[1:],
           "Prepared": lambda gpu: gpu.prepare([(bytes(16), gpu.empty(16))])}


@pytest.mark.parametrize("name", HANDLES)
def test_handles_are_neither_copied_nor_pickled(gpu, name):
    one = HANDLES[name](gpu)
    assert type(one).__name__ == name
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps, lambda one: pickle.dumps(one, 0),
                      lambda one: copy.deepcopy([one])):
        with pytest.raises(TypeError, match=f"{name} objects cannot be copied or pickled"):
            duplicate(one)
    numbers = {"handle": one.handle} if name in ("Stream", "Event", "Instance") else {}
    assert pickle.loads(pickle.dumps(numbers)) == copy.deepcopy(numbers) == numbers


def too_large(gpu):
    """Calls with a number that does not fit, and the argument that the error names."""
    host, device = bytearray(16), gpu.empty(16)
    for number in (1 << 31, 1 << 32, (1 << 64) + 1, -(1 << 40)):
        yield "device", lambda number=number: gpu.empty(4, device=number)
        yield "device", lambda number=number: gpu.stream(number)
        yield "device", lambda number=number: gpu.event(number)
        yield "device", lambda number=number: gpu.synchronize(number)
        yield "device", lambda number=number: gpu.calibrate(number)
        yield "device", lambda number=number: gpu.save_profile(number)
        yield "device", lambda number=number: gpu.prepare_staging(number)
        yield "device", lambda number=number: ferry.memory(0, 4, device=number)
        yield "priority", lambda number=number: gpu.stream(0, number)
        yield "peer", lambda number=number: gpu.enable_peer(0, number)
        yield "software_devices", lambda number=number << 1: ferry.open(software=True, software_devices=number)
    for number in (1 << 32, (1 << 64) + 1, -1):
        yield "flags", lambda number=number: ferry.CopyOptions(flags=number)
        yield "max_sms", lambda number=number: ferry.CopyOptions(max_sms=number)
        yield "flags", lambda number=number: gpu.pinned(4, flags=number)
    for number in (1 << 31, -(1 << 40)):
        for field in ("route", "priority", "source_order"):
            yield field, lambda field=field, number=number: ferry.CopyOptions(**{field: number})
    for number in (1 << 64, -1):
        yield "tag", lambda number=number: ferry.CopyOptions(tag=number)
        yield "stream", lambda number=number: gpu.copy_async(host, device, number)
        yield "stream", lambda number=number: gpu.fill(device, 0, number)
        yield "nbytes", lambda number=number: ferry.memory(0, number)
        yield "address", lambda number=number: ferry.memory(number, 0)
    yield "nbytes", lambda: ferry.memory(1 << 63, (1 << 63) + 1)
    for number in (256, -1, 1 << 70):
        yield "pattern", lambda number=number: gpu.fill(device, number)
    for shape in ((65536, (1 << 48) + 1), 1 << 63, 1 << 64, (1 << 33, 1 << 33), (1 << 70, 0)):
        yield "shape", lambda shape=shape: gpu.empty(shape)
        yield "shape", lambda shape=shape: gpu.pinned(shape)
    yield "address", lambda: gpu.copy(ferry.View((1 << 64) - 8, (16,), (1,), None, 1, ferry.HOST), host)
    yield "address", lambda: gpu.copy(host, ferry.View(4, (16,), (-1,), None, 1, ferry.HOST))
    yield "address", lambda: gpu.fill(ferry.View(1 << 64, (16,), (1,), None, 1, ferry.HOST))


def test_numbers_that_do_not_fit_are_refused_by_name(gpu):
    for name, call in too_large(gpu):
        with pytest.raises(ferry.ArgumentError) as raised:
            call()
        assert name in raised.value.field, (name, raised.value)
        assert name in str(raised.value), (name, raised.value)


def test_numbers_of_every_kind_are_taken(gpu):
    for kind in (np.int64, np.uint8, np.array, int):
        assert gpu.empty(kind(4)).shape == (4,) and gpu.pinned((kind(2), kind(3))).shape == (2, 3)
        gpu.copy(bytes(4), gpu.empty(4, device=kind(0)), ferry.CopyOptions(tag=kind(3)))
        gpu.copy_async(bytes(4), gpu.empty(4), kind(0)).wait()
        ferry.memory(kind(0), kind(4), device=kind(1))
        got = bytearray(4)
        device = gpu.empty(4)
        gpu.fill(device, kind(7))
        gpu.copy(device, got)
        assert got == b"\7\7\7\7"
    assert gpu.empty(np.array([3, 4])).shape == gpu.empty([3, 4]).shape == (3, 4)
    for wrong in (1.5, "4", None, (1.5,), [[1]]):
        with pytest.raises(TypeError):
            gpu.empty(wrong)
        with pytest.raises(TypeError):
            ferry.CopyOptions(tag=wrong)
    with pytest.raises(TypeError, match="option software_devices"):
        ferry.open(software=True, software_devices="two")


def test_pinned_memory_may_be_smaller_than_asked_for(on_gpu):
    """Where the system has less, the array has as many rows as there is memory for."""
    program = f"""if True:
        import ferry, numpy as np, resource
        gpu = ferry.open(software={not on_gpu})
        gpu.pinned(1)
        used = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20), -1))
        pinned = gpu.pinned((1 << 20, 3, 340), flags=ferry.native.FERRY_HOST_ALLOW_SMALLER)
        shown = np.asarray(pinned)
        shown[:] = 1
        print(pinned.shape == shown.shape, pinned.shape[1:], 1 << 10 < pinned.shape[0] < 1 << 20, pinned.nbytes == shown.nbytes)
        try:
            gpu.pinned(1 << 30)
        except ferry.Error as why:
            print("refused")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    if on_gpu and done.returncode:
        pytest.skip("the driver needs address space of its own")
    assert done.stdout.split("\n")[:2] == ["True (3, 340) True True", "refused"], done


# ---- The whole interface

def test_every_function_is_used_or_left_out_for_a_reason():
    described = set(ferry.native.FUNCTIONS)
    used = set()
    for file in (BINDING / "src/ferry").glob("*.py"):
        if file.name != "native.py":
            used |= set(re.findall(r"\bferry_\w+", file.read_text())) & described
    left_out = set()
    for line in (BINDING / "left-out.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            left_out |= set(line.split())
    assert left_out - described == set(), "left-out.txt names functions that do not exist"
    assert described - used - left_out == set(), "functions that are neither used nor listed"
    assert used & left_out == set(), "left-out.txt names functions that are used"
