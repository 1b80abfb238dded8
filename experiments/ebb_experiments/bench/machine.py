"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Class of the machine, not its name."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    hypervisor = "hypervisor" in Path("/proc/cpuinfo").read_text()
    return {
        "processors": os.cpu_count(),
        "model": model,
        "virtual": hypervisor,
        "kernel": platform.release(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }
