"""The command `ebb-sim`: scenarios in virtual time."""
