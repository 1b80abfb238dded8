// SPDX-License-Identifier: Apache-2.0
//
// Flags that a switch sets in the Ebb header, and the checksum of the header with them.

#ifndef EBB_FLAGS_P4
#define EBB_FLAGS_P4

#include "headers.p4"

// RFC 1624: adding to a word of the header subtracts from its checksum (one's complement). The checksum is
// not computed anew, so that a header that was damaged on its way here stays recognisable as such.
action set_ebb_flags(inout ebb_t ebb, in bit<8> flags) {
    bit<8> added = flags & ~ebb.flags;
    bit<17> sum = (bit<17>)(~ebb.checksum) + (bit<17>)added;
    ebb.checksum = ~(sum[15:0] + (bit<16>)sum[16:16]);
    ebb.flags = ebb.flags | flags;
}

#endif
