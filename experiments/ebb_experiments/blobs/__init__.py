"""Runs of the blob store on a fabric of Mininet, with faults, and whether what clients saw is
linearizable (docs/blob-store.md)."""
