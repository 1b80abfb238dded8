//! NDP, SCDP, the TCP family and the pacer as state machines without I/O or clock.
