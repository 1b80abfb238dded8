// SPDX-License-Identifier: Apache-2.0
//
// One hash per flow: the same bytes and the same CRC as ../../include/flow_hash.p4, so the same number. Used by route
// (path) and mlfq (slot of the flow's bytes). Applied in ingress to IPv4.

#ifndef TNA_FLOW_HASH_P4
#define TNA_FLOW_HASH_P4

#include "headers.p4"

control FlowHash(in headers_t hdr, inout metadata_t meta) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) crc32;

    apply {
        meta.flow_hash = crc32.get({ hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol,
                                     meta.flow.src_port, meta.flow.dst_port, meta.flow.session });
    }
}

#endif
