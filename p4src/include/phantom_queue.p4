// SPDX-License-Identifier: Apache-2.0
//
// Phantom queue (HULL, NSDI 2012, section 2.1): a counter of the bytes that would be queued if the link ran at
// a drain rate a little below its real speed. It grows by the length of every packet that leaves the port, drains with
// time, and stores nothing. Above the threshold packets get a CE mark (ECT only), so senders back off before the real
// queue grows. Applied in egress, last before the link.
//
//   backlog := max(0, backlog - drain rate * (now - last)) + length;   mark if backlog > threshold
//
// count_self: 1 compares the backlog including this packet's own length, as the NetFPGA does (a packet of 1500 bytes
// alone then exceeds the paper's 1 KB); 0 the backlog before it.

#ifndef PHANTOM_QUEUE_P4
#define PHANTOM_QUEUE_P4

#include "headers.p4"

control PhantomQueue(inout headers_t hdr, in metadata_t meta, in standard_metadata_t standard_metadata) {

    register<bit<64>>(PORTS) phantom_backlog;                // in 2^-16 bytes, so that nothing is lost in rounding
    register<bit<48>>(PORTS) phantom_updated;                // time of the last packet that left, in us
    @brief("packets marked CE for the backlog of the phantom queue")
    counter(PORTS, CounterType.packets_and_bytes) phantom_marked;

    bool congested = false;

    action set_phantom_queue(bit<32> drain_bytes_per_65536_us,  // per 2^16 us, so that no division is needed
                             bit<32> threshold_bytes,
                             bit<1> count_self) {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        bit<48> now = standard_metadata.egress_global_timestamp;
        bit<64> backlog;
        bit<48> last;
        phantom_backlog.read(backlog, port);
        phantom_updated.read(last, port);

        bit<64> drained = (bit<64>)(now - last) * (bit<64>)drain_bytes_per_65536_us;
        bit<64> before = backlog > drained ? backlog - drained : 0;
        bit<64> after = before + ((bit<64>)meta.frame_bytes << 16);
        congested = (count_self == 1 ? after : before) > (bit<64>)threshold_bytes << 16;

        phantom_backlog.write(port, after);
        phantom_updated.write(port, now);
    }

    @brief("drain rate in bytes per 2^16 us, and the backlog above which packets are marked")
    table phantom_queue {
        key = {
            standard_metadata.egress_port : exact @name("egress_port");   // 9 bits
        }
        actions = {
            set_phantom_queue;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        phantom_queue.apply();
        if (congested && hdr.ipv4.isValid() && (hdr.ipv4.ecn == ECN_ECT0 || hdr.ipv4.ecn == ECN_ECT1)) {
            hdr.ipv4.ecn = ECN_CE;
            phantom_marked.count((bit<32>)standard_metadata.egress_port);
        }
    }
}

#endif
