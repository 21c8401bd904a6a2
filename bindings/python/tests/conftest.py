"""What all tests share. FERRY_TEST_DRIVER=cuda runs them on the NVIDIA driver."""
import os

import pytest

import ferry


@pytest.fixture(scope="session")
def on_gpu():
    return os.environ.get("FERRY_TEST_DRIVER") == "cuda"


@pytest.fixture
def gpu(on_gpu):
    with ferry.open(software=not on_gpu, checks=ferry.native.FERRY_CHECKS_FULL) as opened:
        yield opened
