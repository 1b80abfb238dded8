// SPDX-License-Identifier: Apache-2.0
//
// A group lists every port of its tree, so one copy would go back to where the packet came from. Replication
// happens after ingress; the copy is stopped here, in egress. Groups have class D addresses, by which a
// copy is recognised even after a deflection.

#ifndef MULTICAST_P4
#define MULTICAST_P4

#include "headers.p4"

control ReplicaPruning(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.dst[31:28] == CLASS_D
                && standard_metadata.egress_port == standard_metadata.ingress_port) {
            meta.drop_reason = DropReason.REPLICA_TO_SOURCE;
        }
    }
}

#endif
