#!/usr/bin/env python3
"""Bytes to a GPU and back from Python, with only ctypes: upload.py [path of libferry.so]"""
import ctypes
import sys
from ctypes import byref, c_char_p, c_int32, c_uint32, c_uint64, c_void_p, create_string_buffer, sizeof

ferry = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libferry.so.0.7")


class ErrorInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("status", c_int32), ("side", c_int32), ("field", c_int32),
                ("index", c_uint64), ("limit", c_uint64), ("value", c_uint64)]


ferry.ferry_open.argtypes = [c_void_p, c_void_p, c_void_p]
ferry.ferry_close.argtypes = [c_void_p]
ferry.ferry_close.restype = None
ferry.ferry_device_alloc.argtypes = [c_void_p, c_int32, c_uint64, c_void_p, c_void_p]
ferry.ferry_device_free.argtypes = [c_void_p, c_uint64]
ferry.ferry_copy_bytes.argtypes = [c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, c_void_p]
ferry.ferry_error_format.argtypes = [c_void_p, c_char_p, c_uint64]
ferry.ferry_error_format.restype = c_uint64

error = ErrorInfo(struct_size=sizeof(ErrorInfo))


def check(status):
    if status:
        error.status = status  # calls without an error parameter report only a status
        line = create_string_buffer(256)
        ferry.ferry_error_format(byref(error), line, sizeof(line))
        raise RuntimeError(line.value.decode())


instance, device_memory = c_void_p(), c_uint64()
FERRY_DRIVER_AUTO = 1  # the software driver where there is no GPU
options = (c_uint32 * 2)(8, FERRY_DRIVER_AUTO)  # the first fields of ferry_options: struct_size, driver
check(ferry.ferry_open(byref(options), byref(instance), byref(error)))
try:
    sent = create_string_buffer(bytes(range(256)) * 4096, 256 * 4096)
    received = create_string_buffer(len(sent))
    check(ferry.ferry_device_alloc(instance, 0, len(sent), byref(device_memory), None))
    check(ferry.ferry_copy_bytes(instance, device_memory, ctypes.addressof(sent), len(sent), None, byref(error)))
    check(ferry.ferry_copy_bytes(instance, ctypes.addressof(received), device_memory, len(sent), None,
                                 byref(error)))
    if received.raw != sent.raw:
        sys.exit("the bytes came back changed")
    print(len(sent), "bytes went there and back")
    check(ferry.ferry_device_free(instance, device_memory, None))
finally:
    ferry.ferry_close(instance)
