"""Finds and loads the shared library."""
from __future__ import annotations

import ctypes.util
import os
import threading
from ctypes import CDLL
from pathlib import Path

from . import native

_NAME = "libferry.so.0.7"
_lock = threading.Lock()
_loaded: CDLL | None = None


def file() -> str:
    """$FERRY_LIBRARY, or else the library in this package, or else the library of the system."""
    own = Path(__file__).with_name("lib") / _NAME
    return os.environ.get("FERRY_LIBRARY") or (str(own) if own.exists() else _NAME)


def load() -> CDLL:
    global _loaded
    with _lock:
        if _loaded is None:
            try:
                _loaded = native.load(file())
            except OSError as why:
                raise ImportError(f"{file()} cannot be loaded ({why}). Install a wheel of ferry, or name the library in "
                                  "FERRY_LIBRARY") from None
            except AttributeError as why:
                raise ImportError(f"{file()} is older than this package: {why}") from None
        return _loaded
