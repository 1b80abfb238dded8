"""What the tail of round-trip times does to a page that needs many requests (Zats, chapter 4)."""
