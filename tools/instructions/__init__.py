"""Instructions per packet of what is built, by function, against recorded counts."""
