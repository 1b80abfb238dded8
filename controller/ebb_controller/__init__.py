"""The P4Runtime controller: from a topology and mechanism parameters to table entries."""
