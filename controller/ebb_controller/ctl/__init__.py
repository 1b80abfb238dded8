"""`ebb-ctl`: a switch by hand and from scripts, over P4Runtime and the services beside it."""
