"""Scenario files, and everything that they name."""
