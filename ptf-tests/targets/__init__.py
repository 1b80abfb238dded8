# SPDX-License-Identifier: Apache-2.0
"""Targets: how to start and reach a switch. What to check about it is in tests/."""

from __future__ import annotations

from targets.base import Feature, Queue, Target, TargetError, TrafficManager
from targets.bmv2 import Bmv2
from targets.ebb import EbbSwitch

__all__ = ["TARGETS", "Feature", "Queue", "Target", "TargetError", "TrafficManager"]

TARGETS: dict[str, type[Target]] = {"ebb": EbbSwitch, "bmv2": Bmv2}
