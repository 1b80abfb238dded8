"""What came of it: tables of flows, queues and counters, in nominal units."""
