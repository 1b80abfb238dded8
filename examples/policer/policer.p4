// A policer: each customer (a port) may send at a rate. What is beyond it goes on with a lower class (yellow), what is
// far beyond it is dropped (red): RFC 2698's two rates, in a meter.

#include <core.p4>
#include <v1model.p4>

struct metadata_t {
    bit<2> colour;
}

#include "../include/ipv4.p4"

const bit<2> GREEN = 0;
const bit<2> YELLOW = 1;
const bit<6> LOWER_CLASS = 8;
const bit<9> UPLINK = 510;

control PolicerIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(512, MeterType.bytes) rate_of_port;
    counter(512, CounterType.packets_and_bytes) policed;

    apply {
        rate_of_port.execute_meter((bit<32>)std.ingress_port, meta.colour);
        std.egress_spec = UPLINK;
        if (meta.colour != GREEN && meta.colour != YELLOW) {
            policed.count((bit<32>)std.ingress_port);
            mark_to_drop(std);
        } else if (meta.colour == YELLOW && hdr.ipv4.isValid()) {
            hdr.ipv4.dscp = LOWER_CLASS;
        }
    }
}

V1Switch(Parse(), Verify(), PolicerIngress(), NoEgress(), Update(), Deparse()) main;
