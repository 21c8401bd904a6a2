"""What all tests share. FERRY_TEST_DRIVER=cuda runs them on the NVIDIA driver. FERRY_TEST_PROFILE is a file with the
profile of a GPU for the software driver, so that copies take the routes that they take on a GPU."""
import os
from pathlib import Path

import pytest

import ferry


@pytest.fixture(scope="session")
def on_gpu():
    return os.environ.get("FERRY_TEST_DRIVER") == "cuda"


@pytest.fixture
def gpu(on_gpu):
    with ferry.open(software=not on_gpu, checks=ferry.native.FERRY_CHECKS_FULL) as opened:
        profile = os.environ.get("FERRY_TEST_PROFILE")
        if profile and not on_gpu:
            opened.load_profile(Path(profile).read_text())
        yield opened


class WithDLPack:
    """An array that only has the DLPack interface."""
    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __dlpack__(self, **given):
        return self.wrapped.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.wrapped.__dlpack_device__()
