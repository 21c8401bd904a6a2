"""What all tests share. FERRY_TEST_DRIVER=cuda runs them on the NVIDIA driver."""
import os

import pytest
from opening import open_instance

import ferry


@pytest.fixture(scope="session")
def on_gpu():
    return os.environ.get("FERRY_TEST_DRIVER") == "cuda"


@pytest.fixture
def gpu(on_gpu):
    with open_instance(not on_gpu, checks=ferry.native.FERRY_CHECKS_FULL) as opened:
        yield opened


class WithDLPack:
    """An array that only has the DLPack interface."""
    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __dlpack__(self, **given):
        return self.wrapped.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.wrapped.__dlpack_device__()
