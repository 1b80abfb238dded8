"""`make install`: programs, manual pages and completions, put in place and taken away again.

Only Python's standard library is used, since the P4 tools are installed without any environment.
"""
