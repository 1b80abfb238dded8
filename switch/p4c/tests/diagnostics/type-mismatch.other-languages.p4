#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        p.extract(hdr.h);
        next();
    }
    state next { transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    register<bit<8>>(16) values;
    bit<8> twice(in bit<8> x) { return x + x; }
    action result() { return 3; }
    table t { key = { hdr.h.a: exact; } actions = { NoAction; } }
    table wild { key = { hdr.h.a: wildcard; } actions = { NoAction; } }
    apply {
        bool hit = t.apply();
        hdr.h.valid = true;
        meta.x = values[0];
        meta.x = twice(2);
        uint8_t y = 1;
        bit[8] z = 1;
        if (meta.x) { drop(); }
        hdr.h.a = "64";
        hdr.h.a = hdr.h.b;
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P, V(), I(), E(), C(), D()) main;
