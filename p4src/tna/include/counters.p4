// SPDX-License-Identifier: Apache-2.0
//
// Counters of ports, drops and sent packets, by the names of ../../include/counters.p4. Bytes are those of the wire,
// with FCS. Drops of TNA's queues are counted by the traffic manager alone; no block of egress drops packets.

#ifndef TNA_COUNTERS_P4
#define TNA_COUNTERS_P4

#include "headers.p4"

// Counts packets that go onto the link. Applied last in egress, to packets that were routed.
control EgressCounters(in egress_headers_t hdr, in egress_intrinsic_metadata_t eg_intr_md) {
    @brief("packets that went onto the link")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) port_out;
    @brief("packets that went onto the link by the trim queue: TX_TRIM of SAI")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) trim_sent;
    @brief("packets that went onto the link with a level other than 0 of in-switch demotion")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) mlfq_demoted;

    apply {
        port_out.count(eg_intr_md.egress_port);
        if (hdr.routed.trimmed == 1) {
            trim_sent.count(eg_intr_md.egress_port);
        }
        if (hdr.routed.demoted == 1) {
            mlfq_demoted.count(eg_intr_md.egress_port);
        }
    }
}

// Drops and counts the packets to which a block before has given a drop reason. Applied last in ingress.
control DropAndCount(in metadata_t meta, inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    @brief("packets dropped by the program, by the numbers of drop_reason.p4")
    Counter<bit<64>, bit<8>>(256, CounterType_t.PACKETS_AND_BYTES) dropped;

    apply {
        if (meta.drop_reason != DropReason.NONE) {
            ig_dprsr_md.drop_ctl = 1;
            dropped.count((bit<8>)meta.drop_reason);
        }
    }
}

#endif
