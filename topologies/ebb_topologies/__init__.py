"""Topologies: one model, used by Mininet, the controller and (later) the simulator."""
