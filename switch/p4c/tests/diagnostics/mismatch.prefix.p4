#include <v1model.p4>

header h_t { bit<32> dst; }
struct headers { h_t h; }
struct metadata { }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action send(bit<9> port) { sm.egress_spec = port; }
    table route {
        key = { hdr.h.dst: lpm; }
        actions = { send; NoAction; }
        const entries = {
            0x0a000000/8: send(1);
            0x0b000000 &&& 0xff000000: send(2);
        }
    }
    apply { route.apply(); }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
