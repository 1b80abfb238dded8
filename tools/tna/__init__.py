"""Checks of the programs of p4src/tna; `tools/check_tna` runs them."""
