"""The live view in the browser: what is shown of a fabric or of results, and what serves it."""
