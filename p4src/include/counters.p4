// SPDX-License-Identifier: Apache-2.0
//
// Counters of ports, of drops and of what leaves; other counters are in the file of their mechanism. All are indirect
// and count packets and bytes. The index is the port; that of `dropped` is the drop reason.

#ifndef COUNTERS_P4
#define COUNTERS_P4

#include "headers.p4"

counter(PORTS, CounterType.packets_and_bytes) port_in;
counter(PORTS, CounterType.packets_and_bytes) port_out;
counter(256, CounterType.packets_and_bytes) dropped;

// In egress, for what goes onto the link.
control EgressCounters(in metadata_t meta, in standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) trim_sent;     // TX_TRIM of SAI, see trimming.p4
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

// Last in ingress and in egress: drops what any block before gave a reason for.
control DropAndCount(in metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (meta.drop_reason != DropReason.NONE) {
            mark_to_drop(standard_metadata);
            dropped.count((bit<32>)(bit<8>)meta.drop_reason);
        }
    }
}

#endif
