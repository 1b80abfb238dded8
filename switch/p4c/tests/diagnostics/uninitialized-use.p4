#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t g; }
struct metadata { bit<8> x; bit<8> y; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); p.extract(hdr.g); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply {} }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    bit<8> x;
    bit<8> y;
    bit<8> z;
    h_t other;
    metadata both;
    action set() { x = 1; }
    table t { key = { hdr.h.a : exact; } actions = { set; NoAction; } }
    apply {
        if (t.apply().hit) { meta.x = 1; }
        meta.x = x;
        if (hdr.h.a == 1) { y = 1; } else if (hdr.h.a == 2) { y = 2; }
        meta.x = y;
        other.setValid();
        other.a = 1;
        hdr.h.b = other.b;
        both.x = 1;
        meta = both;
        for (bit<8> i = 0; i < 3; i = i + 1) {
            if (i == 2) { meta.y = z; }
            if (i == 1) { break; }
        }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply {} }
control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
