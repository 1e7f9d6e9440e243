"""Registers the device with Lightning. Importing this module registers

- the accelerator, under the device's name, with ``lightning.pytorch`` and ``lightning.fabric``;
- a strategy, ``single_<name>``: Lightning's default strategy for an unknown accelerator uses the CPU.

``mixed_precision`` creates the mixed-precision plugin: Lightning's default would use CUDA's autocast.

    import torch_openreg.integrations.lightning as device

    Trainer(accelerator=device.NAME, strategy=device.STRATEGY, plugins=device.mixed_precision("bf16-mixed"))
"""

from typing import Any

import lightning.fabric.accelerators as fabric_accelerators
import lightning.fabric.plugins as fabric_plugins
import lightning.fabric.strategies as fabric_strategies
import lightning.pytorch.accelerators as accelerators
import lightning.pytorch.plugins as plugins
import lightning.pytorch.strategies as strategies
import torch

from torch_openreg._name import DEVICE_NAME as NAME

STRATEGY = f"single_{NAME}"


class _Device:
    """Common methods of both accelerators."""

    def setup_device(self, device: torch.device) -> None:
        if device.type != NAME:
            raise ValueError(
                f"the accelerator {NAME!r} got the device {str(device)!r}: pass strategy={STRATEGY!r} too"
            )
        torch.accelerator.set_device_index(device.index or 0)

    def teardown(self) -> None:
        torch.accelerator.empty_cache()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return torch.accelerator.memory_stats(device)

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """``2``, ``"2"`` and ``-1`` (all) are counts, ``[1]`` and ``"1,"`` are indices."""
        count = torch.accelerator.device_count()
        if isinstance(devices, str):
            devices = [int(i) for i in devices.split(",") if i] if "," in devices else int(devices)
        chosen = list(range(count if devices == -1 else devices)) if isinstance(devices, int) else devices
        missing = [i for i in chosen if not 0 <= i < count]
        if missing:
            raise ValueError(f"invalid {NAME} device index {missing[0]}: there are {count} devices")
        return chosen

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device(NAME, i) for i in devices]

    @staticmethod
    def auto_device_count() -> int:
        return torch.accelerator.device_count()

    @staticmethod
    def is_available() -> bool:
        found = torch.accelerator.current_accelerator()
        return found is not None and found.type == NAME and torch.accelerator.is_available()

    @staticmethod
    def name() -> str:
        return NAME


class Accelerator(_Device, accelerators.Accelerator):
    """For ``lightning.pytorch.Trainer``."""


class FabricAccelerator(_Device, fabric_accelerators.Accelerator):
    """For ``lightning.fabric.Fabric``."""


class SingleDevice(strategies.SingleDeviceStrategy):
    """Trains on one device, by default the first; ``strategy=SingleDevice("...:1")`` selects another."""

    strategy_name = STRATEGY

    def __init__(self, device: str | torch.device = f"{NAME}:0", **options: Any) -> None:
        super().__init__(device=torch.device(device), **options)


class FabricSingleDevice(fabric_strategies.SingleDeviceStrategy):
    def __init__(self, device: str | torch.device = f"{NAME}:0", **options: Any) -> None:
        super().__init__(device=torch.device(device), **options)


def mixed_precision(precision: str) -> plugins.MixedPrecision:
    """The plugin of a ``Trainer`` for "bf16-mixed" or "16-mixed"."""
    return plugins.MixedPrecision(precision, NAME)


def fabric_mixed_precision(precision: str) -> fabric_plugins.MixedPrecision:
    """The plugin of a ``Fabric`` for "bf16-mixed" or "16-mixed"."""
    return fabric_plugins.MixedPrecision(precision, NAME)


def _register() -> None:
    description = f"the {NAME} device"
    accelerators.AcceleratorRegistry.register(NAME, Accelerator, description=description, override=True)
    strategies.StrategyRegistry.register(STRATEGY, SingleDevice, description=description, override=True)
    fabric_accelerators.ACCELERATOR_REGISTRY.register(
        NAME, FabricAccelerator, description=description, override=True
    )
    fabric_strategies.STRATEGY_REGISTRY.register(
        STRATEGY, FabricSingleDevice, description=description, override=True
    )


_register()
