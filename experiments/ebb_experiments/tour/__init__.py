"""The tour of `make run`: its checks, its report, and how slow it has to be."""
