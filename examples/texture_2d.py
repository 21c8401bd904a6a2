#!/usr/bin/env python3
"""A box of a host image into a 2D array (a texture) and back, by descriptors in ctypes: texture_2d.py [libferry.so]"""
import ctypes
import sys
from ctypes import byref, c_int32, c_uint32, c_uint64, c_void_p, sizeof

ferry = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libferry.so.0.7")


class Place(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("device", c_int32), ("address", c_uint64), ("array", c_void_p),
                ("row_pitch", c_uint64), ("slice_height", c_uint64), ("x", c_uint64), ("y", c_uint64), ("z", c_uint64),
                ("reserved", c_uint64 * 4)]


class CopyDesc(ctypes.Structure):
    _fields_ = [("destination", Place), ("source", Place), ("width", c_uint64), ("height", c_uint64),
                ("depth", c_uint64), ("reserved", c_uint64 * 5)]


class ArrayDesc(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("format", c_int32), ("channels", c_uint32), ("flags", c_uint32),
                ("width", c_uint64), ("height", c_uint64), ("depth", c_uint64)]


FERRY_KIND_HOST, FERRY_KIND_ARRAY, FERRY_FORMAT_UINT8 = 1, 3, 0x01
ferry.ferry_array_create.argtypes = [c_void_p, c_int32, c_void_p, c_void_p, c_void_p]
ferry.ferry_array_destroy.argtypes = [c_void_p, c_void_p]
ferry.ferry_copy.argtypes = [c_void_p, c_void_p, c_void_p, c_void_p]
ferry.ferry_close.argtypes = [c_void_p]
ferry.ferry_close.restype = None
ferry.ferry_status_name.restype = ctypes.c_char_p


def check(status):
    if status:
        raise RuntimeError(ferry.ferry_status_name(status).decode())


texel, pitch, height = 4, 640 * 4, 480
image = (ctypes.c_ubyte * (pitch * height))(*(i % 251 for i in range(pitch * height)))
back = (ctypes.c_ubyte * len(image))()
at = {"row_pitch": pitch, "x": 100 * texel, "y": 50}  # x and widths are in bytes
instance, array = c_void_p(), c_void_p()
FERRY_DRIVER_AUTO = 1  # the software driver where there is no GPU
options = (c_uint32 * 2)(8, FERRY_DRIVER_AUTO)  # the first fields of ferry_options: struct_size, driver
check(ferry.ferry_open(byref(options), byref(instance), None))
rgba = ArrayDesc(sizeof(ArrayDesc), FERRY_FORMAT_UINT8, 4, 0, 256, 256, 0)
check(ferry.ferry_array_create(instance, 0, byref(rgba), byref(array), None))
texture = Place(FERRY_KIND_ARRAY, 0, array=array, x=16 * texel, y=8)
for source, destination in [(Place(FERRY_KIND_HOST, address=ctypes.addressof(image), **at), texture),
                            (texture, Place(FERRY_KIND_HOST, address=ctypes.addressof(back), **at))]:
    copy = CopyDesc(source=source, destination=destination, width=64 * texel, height=32, depth=1)
    check(ferry.ferry_copy(instance, byref(copy), None, None))
rows = [slice(y * pitch + 100 * texel, y * pitch + 164 * texel) for y in range(50, 82)]
ferry.ferry_array_destroy(instance, array, None)
ferry.ferry_close(instance)
if any(image[row] != back[row] for row in rows):
    sys.exit("the texels came back changed")
print("a box of 64 by 32 texels went through the array")
