"""Errors of the controller."""


class ControllerError(Exception):
    """The fabric is not as planned. The message names switch, table, entry and cause."""
