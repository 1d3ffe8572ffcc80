"""What a figure was measured on."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ros_nodes.lifecycle.machine_load import usable_cores

LIBRARIES = (
    *("phalanx", "numpy", "mujoco", "torch", "onnxruntime", "daqp", "ros-jazzy-rclpy", "ros-rmw-fastrtps-cpp"),
    *("mujoco-warp", "warp-lang", "mujoco-mjx", "jax", "brax"),
)


def versions() -> dict[str, str]:
    """Python and the libraries that decide about speed, as installed; absent ones are left out."""
    found = {name: found for name in LIBRARIES if (found := installed(name))}
    return {"python": platform.python_version(), **found}


def installed(package: str) -> str | None:
    """Version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, str]:
    """Processor, cores that this process may use, load of the last minute, system; the accelerator that torch sees."""
    return {
        "processor": _processor(),
        "cores": str(usable_cores()),
        "load_1min": f"{os.getloadavg()[0]:.2f}",
        "system": f"{platform.system()} {platform.release()}",
        **_accelerator(),
    }


def _accelerator() -> dict[str, str]:
    torch = sys.modules.get("torch")  # where something was measured on one it is imported
    return {"accelerator": torch.cuda.get_device_name()} if torch and torch.cuda.is_available() else {}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
