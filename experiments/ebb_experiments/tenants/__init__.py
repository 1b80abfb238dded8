"""Tenants of a data centre without packets: who is admitted, and how fast their jobs are."""
