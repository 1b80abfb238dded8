"""A lab: switches with programs of their own and hosts that Python plays, in virtual time
(docs/lab.md)."""
