// Each suggestion is a name that can stand there; a typing error of an action's name is no type's.
#include <core.p4>
#include <v1model.p4>

header ipv4_t { bit<8> ttl; bit<8> tos; bit<32> dst; }
struct headers { ipv4_t ipv4; }
struct metadata { bit<8> x; }

parser P(packet_in p, inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.ipv4); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action ipv4_forward(bit<9> port) { sm.egress_spec = port; }
    action mark() { hdr.ipv4.tos = (bit<8>) (hdr.ipv4.ttl > 1); }
    table by_address {
        key = { hdr.ipv4.destination: lpm; }
        actions = { ipv4_fwd; NoAction; }
    }
    table by_prefix {
        key = { hdr.ipv4.dst: lpm; }
        actions = { ipv4_forward; NoAction; }
        const entries = { 0x0a000000/8: ipv4_forward(1); }
    }
    apply {
        if (hdr.ipv4.valid()) {
            printf("seen");
            switch (by_prefix.apply().action_run) { send_to: { } }
        }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
