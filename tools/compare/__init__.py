"""Compares BMv2 JSON files by meaning: what two compilers made of one program."""
