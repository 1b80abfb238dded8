"""Results of runs: tables of flows, queues and counters, in nominal units."""
