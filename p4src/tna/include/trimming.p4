// SPDX-License-Identifier: Apache-2.0
//
// Payload trimming, as ../../include/trimming.p4. Applied in ingress to packets that deflection.p4 brought back: the
// mirror session has cut the payload off, this block makes the headers agree and sends the rest to the trim queue.
// Packets not longer than `size` were not cut and stay unchanged. The `size` of all entries is that of the session.

#ifndef TNA_TRIMMING_P4
#define TNA_TRIMMING_P4

#include "ebb_flags.p4"
#include "headers.p4"

control Trimming(inout headers_t hdr,
                 inout metadata_t meta,
                 inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    @brief("packets sent to the trim queue: TRIM of SAI")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) trimmed;

    bit<6>  keep_dscp = 0;
    bit<16> keep_bytes = 0;
    bit<16> excess = 0;                      // bytes that were cut off

    action set_trimming(bit<16> size, bit<6> dscp_value, queue_t queue_index) {
        keep_bytes = size;
        keep_dscp = dscp_value;
        meta.queue = queue_index;
        meta.trimmed = 1;
        ig_tm_md.ucast_egress_port = meta.refused_port;
    }

    @brief("SONiC SWITCH_TRIMMING; an entry of a host port gives DSCP_TRIMMED_LASTHOP, the default is for all others")
    table trimming {
        key = {
            meta.refused_port : exact @name("egress_port");  // 9 bits
        }
        actions = {
            set_trimming;
        }
        default_action = set_trimming(128, 12, 7);           // SAI's default size in bytes, DSCP_TRIMMED, top queue
        size = 512;
    }

    // An action of its own, as the compiler would otherwise substitute the expression for `excess`.
    action compare() {
        excess = meta.frame_bytes |-| keep_bytes;
    }

    action cut() {
        hdr.ipv4.total_length = hdr.ipv4.total_length - excess;
        hdr.ipv4.dscp = keep_dscp;
        meta.ebb_change = EBB_CHANGE_TRIMMED;
    }

    apply {
        if (meta.trimmable == 0) {
            meta.drop_reason = DropReason.NOT_TRIMMABLE;
        } else {
            trimming.apply();
            trimmed.count(meta.refused_port);            // not by the action: a default action cannot index a counter
            compare();
            if (excess != 0) {
                cut();
            }
        }
    }
}

#endif
