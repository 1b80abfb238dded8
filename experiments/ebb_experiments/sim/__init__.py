"""Scenarios in virtual time: compiled P4, traffic managers and transports, simulated."""
