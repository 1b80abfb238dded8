"""Errors for users of commands; apart, since it is needed before anything is loaded."""

from __future__ import annotations


class InputError(Exception):
    """Something a user wrote is wrong. The message is one line a person can act on."""
