"""`make bench`: what the agent and its parts achieve on this machine (docs/bench.md)."""
