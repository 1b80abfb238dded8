"""Choices on the command line of experiments."""

from __future__ import annotations

from typing import Literal, get_args

SIZES = ("quick", "full")
Fabric = Literal["virtual", "mininet"]
"""In virtual time, or under the wall clock with Mininet."""
FABRICS = get_args(Fabric)
Scalar = bool | float | int | str
"""Values that an axis may have."""
