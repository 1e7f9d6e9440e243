"""The PrivateUse1 hooks: queries of PyTorch that do not involve a tensor of the device."""

import torch
from interpreter import execute


def test_the_device_is_the_accelerator():
    assert torch._C._accelerator_getAccelerator() == torch.device("openreg")
    assert torch.accelerator.is_available()


def test_a_device_has_a_context_once_it_was_used():
    import subprocess
    import sys

    program = (
        "import torch, torch_openreg._C as C\n"
        "assert not C.is_open(0) and not C.is_open(1)\n"
        "torch.ones(1, device='openreg:1')\n"
        "assert C.is_open(1) and not C.is_open(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_is_pinned_is_true_only_for_pinned_memory():
    assert torch.ones(3).pin_memory().is_pinned()
    assert not torch.ones(3).is_pinned()
    assert not torch.ones(3, device="openreg").is_pinned()


def test_is_pinned_is_false_in_a_forked_child():
    execute(
        """
        import os, torch
        pinned = torch.ones(3).pin_memory()
        child = os.fork()
        if child == 0:
            os._exit(pinned.is_pinned() or torch.ones(3).is_pinned())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )


def test_storage_resize_uses_the_hooks():
    storage = torch.ones(4, device="openreg").untyped_storage()
    storage.resize_(64)
    assert storage.nbytes() == 64


def test_generators_come_from_the_hooks():
    assert torch.Generator(device="openreg:1").device == torch.device("openreg:1")
