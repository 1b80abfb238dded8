// SPDX-License-Identifier: Apache-2.0
//
// One hash per flow: addresses, protocol, ports, and the session of a receiver-driven transport. Used by route
// (path) and mlfq (slot of the flow's bytes). Applied in ingress to IPv4.

#ifndef FLOW_HASH_P4
#define FLOW_HASH_P4

#include "headers.p4"

control FlowHash(in headers_t hdr, inout metadata_t meta) {
    apply {
        hash(meta.flow_hash, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol,
               meta.flow.src_port, meta.flow.dst_port, meta.flow.session },
             64w0x100000000);
    }
}

#endif
