// SPDX-License-Identifier: Apache-2.0
//
// Payload trimming: a data packet that does not fit into its queue loses its payload instead of being dropped
// (Cut Payload, NSDI 2014; NDP, SIGCOMM 2017, section 3; names of SAI and SONiC SWITCH_TRIMMING; rules in
// docs/wire-format.md, "Trimming"). Applied in ingress to packets with meta.refused set, by either trigger:
//
//   deflected by the traffic manager (instance_type 7) ─┐              ┌─ class not trimmable: drop
//   over the limit of occupancy.p4 ─────────────────────┴─► trimming ──┼─ longer than size: cut
//                                                                      └─ else: whole and unchanged
//                                                              cut or whole, out in queue `queue_index`
//
// SAI's TRIM counts packets sent to the trim queue (`trimmed`), TX_TRIM those that leave it (`trim_sent`, in egress);
// the difference is DROPPED_TRIM, which the target counts.

#ifndef TRIMMING_P4
#define TRIMMING_P4

#include "ebb_flags.p4"
#include "headers.p4"

control Trimming(inout headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {

    @brief("packets sent to the trim queue: TRIM of SAI")
    counter(PORTS, CounterType.packets_and_bytes) trimmed;

    bit<16> keep_bytes = 0;
    bit<6>  keep_dscp = 0;

    action set_trimming(bit<16> size, bit<6> dscp_value, queue_t queue_index) {
        keep_bytes = size;
        keep_dscp = dscp_value;
        standard_metadata.priority = queue_index;
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

    action cut() {
        truncate((bit<32>)keep_bytes);
        meta.frame_bytes = (bit<32>)keep_bytes;
        hdr.ipv4.total_length = keep_bytes - ETHERNET_BYTES;
        hdr.ipv4.dscp = keep_dscp;
    }

    apply {
        if (meta.trimmable == 1) {
            trimming.apply();
        }
        if (keep_bytes == 0) {                               // the class is not eligible, or nothing is to be kept
            meta.drop_reason = DropReason.NOT_TRIMMABLE;
        } else {
            standard_metadata.egress_spec = meta.refused_port;
            meta.trimmed = 1;
            trimmed.count((bit<32>)meta.refused_port);
            if (hdr.ipv4.total_length > keep_bytes - ETHERNET_BYTES) {
                cut();
                if (hdr.ebb.isValid()) {
                    set_ebb_flags(hdr.ebb, EBB_TRIMMED);
                }
            }
        }
    }
}

#endif
