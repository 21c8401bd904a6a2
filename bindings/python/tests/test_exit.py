"""Programs that end while daemon threads copy. FERRY_EXITS sets how many: FERRY_EXITS=10000 for a long run."""
import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

from opening import run_program

PROGRAM = """
import os, random, sys, threading, time
import ferry, opening

dice = random.Random(int(sys.argv[1]))
gpu = opening.open_instance(sys.argv[2] == "software")
size = dice.choice([1 << 12, 1 << 16, 1 << 20, 16 << 20])
host, there = bytearray(size), gpu.empty(size)
staged = ferry.CopyOptions(ferry.Route.STAGED)  # small copies too

def keep_copying(kind):
    stream = gpu.stream()
    while True:
        if kind == 0:
            gpu.copy(host, there)
        elif kind == 1:
            gpu.copy(there, bytearray(size), staged)
        elif kind == 2:
            gpu.copy_async(host, there, stream, staged)
            stream.synchronize()
        elif kind == 3:
            gpu.copy_async(there, bytearray(size), stream).wait()
        elif kind == 4:
            gpu.copy_async(gpu.pinned(size), gpu.empty(size), stream).wait()
        else:
            with gpu.batch(stream, staged) as batch:
                batch.copy(host, there)

for _ in range(6):
    threading.Thread(target=keep_copying, args=(dice.randrange(6),), daemon=True).start()
time.sleep(dice.random() / 30)

def is_of_ferry(thread):
    try:
        with open(f"/proc/self/task/{thread}/comm") as name:
            return name.read() == "ferry-staging\\n"
    except OSError:  # it has ended
        return False

print(gpu.explain(host, there, options=staged).route, any(map(is_of_ferry, os.listdir("/proc/self/task"))))
"""


def test_programs_end_while_daemon_threads_copy(on_gpu):
    count = int(os.environ.get("FERRY_EXITS", 30 if on_gpu else 200))

    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as programs:
        ends = list(programs.map(lambda seed: run_program(PROGRAM, seed, "cuda" if on_gpu else "software"), range(count)))
    failures = [f"seed {seed}: {end.returncode}\n{end.stdout}{end.stderr}" for seed, end in enumerate(ends)
                if end.returncode or end.stderr or not end.stdout.startswith("staged ")]
    assert not failures, "\n".join(failures)
    with_threads = sum(end.stdout == "staged True\n" for end in ends)
    assert with_threads > count / 4, f"{with_threads} of {count} programs had threads of ferry when they ended"


class _EndsTheThread:
    """Replaces the library. In each call it frees what belongs to the thread, as the interpreter does at its end
    to daemon threads, and sees whether the memory for the call's error is still there."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.survived = []

    def __getattr__(self, name):
        def called(*arguments):
            details, room = self.gpu._thread.error
            assert room in arguments
            reference = weakref.ref(details)
            del details
            vars(self.gpu._thread).clear()
            gc.collect()
            self.survived.append(reference() is not None)
            return 0

        return called


def test_the_memory_for_a_call_s_error_outlives_the_thread_s_own_objects(gpu):
    host, there = bytearray(64), gpu.empty(64)
    library, gpu.library = gpu.library, _EndsTheThread(gpu)
    try:
        survived = gpu.library.survived
        for call in (lambda: gpu.copy(host, there), lambda: gpu.enqueue(host, there),
                     lambda: gpu.call("ferry_fill", None)):
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
    finally:
        gpu.library = library
    assert survived == [True, True, True]
