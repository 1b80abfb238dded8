#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t g; }
struct metadata { bit<8> x; bit<8> y; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); p.extract(hdr.g); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply {} }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action set(bit<8> v) { meta.x = v; }
    table keyless { actions = { set; NoAction; } size = 16; }
    table fixed {
        key = { hdr.h.a : ternary; }
        actions = { set; NoAction; }
        const entries = { 0x1f &&& 0x0f : set(1); 0x20 &&& 0xf0 : set(2); }
        size = 16;
    }
    apply {
        keyless.apply();
        fixed.apply();
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply {} }
control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
