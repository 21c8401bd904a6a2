#!/usr/bin/env python3
"""Many copies in one call: pieces, boxes, a bad one named, a prepared batch launched again: batch.py [libferry.so]"""
import ctypes
import sys
from ctypes import addressof, byref, c_int32, c_uint32, c_uint64, c_void_p, sizeof

ferry = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libferry.so.0.7")


def struct(**fields):
    return type("struct", (ctypes.Structure,), {"_fields_": list(fields.items())})


def check(status):
    if status:
        sys.exit(f"status {status}")


ErrorInfo = struct(struct_size=c_uint32, status=c_int32, side=c_int32, field=c_int32,
                   index=c_uint64, limit=c_uint64, value=c_uint64)
Place = struct(kind=c_int32, device=c_int32, address=c_uint64, array=c_void_p, row_pitch=c_uint64,
               slice_height=c_uint64, x=c_uint64, y=c_uint64, z=c_uint64, reserved=c_uint64 * 4)
CopyDesc = struct(destination=Place, source=Place, width=c_uint64, height=c_uint64, depth=c_uint64,
                  reserved=c_uint64 * 5)
PieceList = struct(struct_size=c_uint32, reserved=c_uint32, count=c_uint64, destinations=c_void_p, sources=c_void_p,
                   sizes=c_void_p, stride=c_uint64, source_file=c_void_p)


def pieces(**arrays):  # three arrays, each with as many numbers as there are pieces
    return byref(PieceList(sizeof(PieceList), 0, count, **{name: addressof(array) for name, array in arrays.items()}))


FERRY_KIND_HOST, FERRY_KIND_DEVICE, FERRY_COPY_UPDATABLE = 1, 2, 0x10
count, size = 1000, 256  # two frames of pieces; each piece repeats one byte
frames = ctypes.create_string_buffer(bytes(n // size % 251 for n in range(2 * count * size)), 2 * count * size)
received, numbers = ctypes.create_string_buffer(count * size), c_uint64 * count
# Without argtypes, ctypes does not know the width of an integer, so each number is wrapped in its C type.
instance, prepared, device = c_void_p(), c_void_p(), c_uint64()
FERRY_DRIVER_AUTO = 1  # the software driver where there is no GPU
options = (c_uint32 * 2)(8, FERRY_DRIVER_AUTO)  # the first fields of ferry_options: struct_size, driver
check(ferry.ferry_open(byref(options), byref(instance), None))
check(ferry.ferry_device_alloc(instance, c_int32(0), c_uint64(count * size), byref(device), None))
check(ferry.ferry_host_register(instance, frames, c_uint64(len(frames)), c_uint32(0), None))  # now pinned
slots = numbers(*(device.value + (count - 1 - n) * size for n in range(count)))  # pieces in reverse order
first, second = (numbers(*(addressof(frames) + (n + at) * size for n in range(count))) for at in (0, count))
sizes, wrong = numbers(*[size] * count), numbers(*(1 << 30 if n == 617 else size for n in range(count)))

error = ErrorInfo(sizeof(ErrorInfo))
refused = ferry.ferry_copy_pieces(instance, pieces(destinations=slots, sources=first, sizes=wrong), None, byref(error))
right = pieces(destinations=slots, sources=first, sizes=sizes)
check(ferry.ferry_copy_pieces(instance, right, None, None))
halves = (CopyDesc * 2)(*(CopyDesc(source=Place(FERRY_KIND_DEVICE, address=device.value, row_pitch=size, x=x),
                                   destination=Place(FERRY_KIND_HOST, address=addressof(received), row_pitch=size, x=x),
                                   width=size // 2, height=count) for x in (0, size // 2)))
check(ferry.ferry_copy_batch(instance, halves, c_uint64(2), None, None))
arrived = received.raw[::-1] == frames.raw[:count * size]

updatable = (c_uint32 * 2)(8, FERRY_COPY_UPDATABLE)  # the first fields of ferry_copy_options: struct_size, flags
check(ferry.ferry_prepared_create_pieces(instance, right, byref(updatable), None, byref(prepared), None))
check(ferry.ferry_prepared_launch(prepared, None, None, None, None))  # on the default stream
check(ferry.ferry_prepared_set_addresses(prepared, pieces(sources=second), None, None))  # new sources
check(ferry.ferry_prepared_launch(prepared, None, None, None, None))
check(ferry.ferry_copy_batch(instance, halves, c_uint64(2), None, None))
ferry.ferry_prepared_destroy(prepared, None)
ferry.ferry_host_unregister(instance, frames, None)
ferry.ferry_device_free(instance, device, None)
ferry.ferry_close(instance)
if not arrived or received.raw[::-1] != frames.raw[count * size:] or not refused or error.index != 617:
    sys.exit("the pieces came back changed")
print(count, "pieces arrived, twice; a bad one was number", error.index)
