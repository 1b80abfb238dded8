"""Topologies: one model, used by Mininet, the controller and the simulator."""
