"""Scenarios, their runner and their report."""
