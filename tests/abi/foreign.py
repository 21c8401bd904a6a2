#!/usr/bin/env python3
"""Calls ferry from another language, with only the shared library: foreign.py SHARED_LIBRARY"""
import ctypes
import random
import sys
from ctypes import addressof, byref, c_char_p, c_int32, c_uint32, c_uint64, c_void_p, create_string_buffer, sizeof

DRIVER_SOFTWARE, KIND_HOST, KIND_DEVICE = 2, 1, 2
ERROR_PITCH, SIDE_DESTINATION, FIELD_ROW_PITCH = -9, 2, 5
ERROR_INVALID_ARGUMENT, ERROR_FLAGS, SIDE_OPTIONS = -1, -5, 5
FIELD_FLAGS, FIELD_REGISTER_CHUNK, FIELD_KERNELS, FIELD_ROUTE, FIELD_PRIORITY = 13, 32, 35, 59, 60
FIELD_SOURCE_ORDER, FIELD_MAX_SMS = 61, 62
COPY_NO_KERNELS, PRIORITY_URGENT, SOURCE_ORDER_CALL, KERNELS_NONE = 0x1, 1, 2, 2


class ErrorInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("status", c_int32), ("side", c_int32), ("field", c_int32),
                ("index", c_uint64), ("limit", c_uint64), ("value", c_uint64), ("driver_function", c_char_p),
                ("item", c_int32), ("numbers", c_int32)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("driver", c_int32), ("checks", c_int32), ("kernels", c_int32),
                ("driver_options", c_void_p), ("get_proc", c_void_p), ("get_proc_user", c_void_p), ("log", c_void_p),
                ("log_user", c_void_p), ("allocate", c_void_p), ("deallocate", c_void_p), ("allocate_user", c_void_p),
                ("register_chunk", c_uint64), ("deferred_bytes", c_uint64), ("copy_options", c_void_p),
                ("staging", c_int32), ("staging_threads", c_uint32)]


class CopyOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("route", c_int32), ("priority", c_int32),
                ("source_order", c_int32), ("max_sms", c_uint32), ("tag", c_uint64)]


class Place(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("device", c_int32), ("address", c_uint64), ("array", c_void_p),
                ("row_pitch", c_uint64), ("slice_height", c_uint64), ("x", c_uint64), ("y", c_uint64), ("z", c_uint64),
                ("file", c_void_p), ("reserved", c_uint64 * 3)]


class CopyDesc(ctypes.Structure):
    _fields_ = [("destination", Place), ("source", Place), ("width", c_uint64), ("height", c_uint64),
                ("depth", c_uint64), ("reserved", c_uint64 * 5)]


SIGNATURES = {
    "ferry_open": [c_void_p, c_void_p, c_void_p],
    "ferry_close": [c_void_p],
    "ferry_device_alloc": [c_void_p, c_int32, c_uint64, c_void_p, c_void_p],
    "ferry_device_alloc_pitched": [c_void_p, c_int32, c_uint64, c_uint64, c_uint32, c_void_p, c_void_p, c_void_p],
    "ferry_device_free": [c_void_p, c_uint64, c_void_p],
    "ferry_copy": [c_void_p, c_void_p, c_void_p, c_void_p],
    "ferry_copy_bytes": [c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, c_void_p],
    "ferry_error_format": [c_void_p, c_char_p, c_uint64],
}
ferry = ctypes.CDLL(sys.argv[1])
for name, arguments in SIGNATURES.items():
    getattr(ferry, name).argtypes = arguments
    getattr(ferry, name).restype = c_int32
ferry.ferry_close.restype = None
ferry.ferry_error_format.restype = c_uint64

error = ErrorInfo(struct_size=sizeof(ErrorInfo))


def check(status):
    assert status == 0, f"status {status}, {error_line()}"


def error_line():
    line = create_string_buffer(ferry.ferry_error_format(byref(error), None, 0) + 1)
    ferry.ferry_error_format(byref(error), line, sizeof(line))
    return line.value.decode()


def copies_1d(instance, sent):
    size, memory = len(sent), c_uint64()
    received = create_string_buffer(size)
    check(ferry.ferry_device_alloc(instance, 0, size, byref(memory), None))
    check(ferry.ferry_copy_bytes(instance, memory, addressof(sent), size, None, byref(error)))
    check(ferry.ferry_copy_bytes(instance, addressof(received), memory, size, byref(copy_options(tag=7)), byref(error)))
    check(ferry.ferry_device_free(instance, memory, byref(error)))
    assert received.raw == sent.raw


def copies_2d(instance, sent):
    """Copies a box of `width` by `height` bytes out of a pitched host image. Bytes beside the box must not change."""
    width, height, pitch, x, y = 100, 20, 128, 13, 3
    memory, device_pitch = c_uint64(), c_uint64()
    check(ferry.ferry_device_alloc_pitched(instance, 0, width, height, 4, byref(memory), byref(device_pitch), None))
    device = Place(kind=KIND_DEVICE, address=memory.value, row_pitch=device_pitch.value)
    received = create_string_buffer(b"\xee" * len(sent), len(sent))

    def box_of(image):
        return Place(kind=KIND_HOST, address=addressof(image), row_pitch=pitch, x=x, y=y)

    def copy(source, destination):
        desc = CopyDesc(source=source, destination=destination, width=width, height=height)
        return ferry.ferry_copy(instance, byref(desc), None, byref(error))

    check(copy(box_of(sent), device))
    check(copy(device, box_of(received)))
    for at in range(len(sent)):
        in_box = x <= at % pitch < x + width and y <= at // pitch < y + height
        expected = sent.raw[at] if in_box else 0xEE
        assert received.raw[at] == expected, f"byte {at} is {received.raw[at]}, not {expected}"

    device.row_pitch = width - 1
    assert copy(box_of(sent), device) == ERROR_PITCH
    assert (error.status, error.side, error.field) == (ERROR_PITCH, SIDE_DESTINATION, FIELD_ROW_PITCH), error_line()
    assert (error.value, error.limit) == (width - 1, width), error_line()
    assert error_line() == "destination.row_pitch: 99, must be at least 100 (FERRY_ERROR_PITCH)", error_line()
    check(ferry.ferry_device_free(instance, memory, byref(error)))


def options(**given):
    return byref(Options(struct_size=sizeof(Options), driver=DRIVER_SOFTWARE, **given))


def copy_options(**given):
    return CopyOptions(struct_size=sizeof(CopyOptions), **given)


def names_options_that_are_wrong(instance):
    """Provokes one error for each field, to check the offsets of the fields."""
    for given, status, field in [({"flags": 1 << 31}, ERROR_FLAGS, FIELD_FLAGS),
                                 ({"route": 99}, ERROR_INVALID_ARGUMENT, FIELD_ROUTE),
                                 ({"priority": 99}, ERROR_INVALID_ARGUMENT, FIELD_PRIORITY),
                                 ({"source_order": 99}, ERROR_INVALID_ARGUMENT, FIELD_SOURCE_ORDER),
                                 ({"max_sms": 1 << 16}, ERROR_INVALID_ARGUMENT, FIELD_MAX_SMS)]:
        wrong = copy_options(**given)
        of_instance = options(copy_options=addressof(wrong))
        assert ferry.ferry_open(of_instance, byref(instance), byref(error)) == status, given
        assert (error.side, error.field) == (SIDE_OPTIONS, field), error_line()
    for given, status, field in [({"register_chunk": 4095}, ERROR_INVALID_ARGUMENT, FIELD_REGISTER_CHUNK),
                                 ({"kernels": 99}, ERROR_INVALID_ARGUMENT, FIELD_KERNELS)]:
        assert ferry.ferry_open(options(**given), byref(instance), byref(error)) == status, given
        assert (error.side, error.field) == (SIDE_OPTIONS, field), error_line()


handle = c_void_p()
names_options_that_are_wrong(handle)
of_copies = copy_options(flags=COPY_NO_KERNELS, priority=PRIORITY_URGENT, source_order=SOURCE_ORDER_CALL, max_sms=8)
every_option = options(register_chunk=1 << 20, copy_options=addressof(of_copies), kernels=KERNELS_NONE)
check(ferry.ferry_open(every_option, byref(handle), byref(error)))
noise = create_string_buffer(random.Random(1).randbytes(128 * 40), 128 * 40)
copies_1d(handle, noise)
copies_2d(handle, noise)
ferry.ferry_close(handle)
print("ok")
