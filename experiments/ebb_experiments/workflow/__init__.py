"""Effect of the tail of round-trip times on a page that needs many requests (Zats, chapter 4)."""
