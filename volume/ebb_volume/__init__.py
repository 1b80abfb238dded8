"""Traffic volume per time bin: read from captures, tables or a switch, fitted to laws, and used to
provision links, to predict bills and to find anomalies (docs/traffic-volume.md)."""
