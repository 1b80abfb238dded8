// SPDX-License-Identifier: Apache-2.0
//
// Counters of ports, drops and sent packets; other counters are in the file of their mechanism. All are indirect
// and count packets and bytes, and have a @brief, as tables have, for the page that lists them. The index is the port;
// that of `dropped` is the drop reason.

#ifndef COUNTERS_P4
#define COUNTERS_P4

#include "headers.p4"

@brief("packets that came in")
counter(PORTS, CounterType.packets_and_bytes) port_in;
@brief("packets that went onto the link")
counter(PORTS, CounterType.packets_and_bytes) port_out;
@brief("packets dropped by the program, by the numbers of drop_reason.p4")
counter(256, CounterType.packets_and_bytes) dropped;

// Counts packets that go onto the link. Applied in egress to packets that are not dropped.
control EgressCounters(in metadata_t meta, in standard_metadata_t standard_metadata) {
    @brief("packets that went onto the link by the trim queue: TX_TRIM of SAI")
    counter(PORTS, CounterType.packets_and_bytes) trim_sent;
    @brief("packets that went onto the link with a level other than 0 of in-switch demotion")
    counter(PORTS, CounterType.packets_and_bytes) mlfq_demoted;

    apply {
        port_out.count((bit<32>)standard_metadata.egress_port);
        if (meta.trimmed == 1) {
            trim_sent.count((bit<32>)standard_metadata.egress_port);
        }
        if (meta.demoted == 1) {
            mlfq_demoted.count((bit<32>)standard_metadata.egress_port);
        }
    }
}

// Drops and counts the packets to which a block before has given a drop reason. Applied last in ingress and in egress.
control DropAndCount(in metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (meta.drop_reason != DropReason.NONE) {
            mark_to_drop(standard_metadata);
            dropped.count((bit<32>)(bit<8>)meta.drop_reason);
        }
    }
}

#endif
