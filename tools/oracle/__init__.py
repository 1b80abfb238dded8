"""Compiler and switch against p4c and BMv2: P4Testgen's tests, and random packets and entries.

thrift     the few messages of BMv2's control plane
bmv2       one run of simple_switch: commands, batches of packets, what leaves
ebb        the same with ebb-stf
commands   what a run is told, for either switch; as STF text
stf        STF text to commands, for tests that others wrote
compilers  ebb-p4c and p4c-bm2-ss to BMv2 JSON and P4Info
p4info     P4Info in text form
model      what BMv2 JSON says of headers, tables, actions and the parser
flow       which fields have their values from each other
states     random entries and other state, from the P4Info
packets    random packets that the parser accepts, and damaged ones
fourway    the runner: two compilers, two switches, the same frames
testgen    the runner of P4Testgen's tests
"""
