#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<48> b }
typedef mac_t bit<48>;
struct headers { h_t h; }
struct metadata { bit<8> x;
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        p.extract(hdr.h);
        if (hdr.h.a == 1) transition other;
        hdr.h.a == 1;
        transition other;
    }
    state other { transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    table of_commas { key = { hdr.h.a: exact, hdr.h.b: exact } actions = { NoAction, drop } }
    table of_keys { key = { hdr.h.a: exact; } actions = { NoAction; } const entries = { 10, 1: NoAction(); } }
    apply {
        hdr.h.b = 00:11:22:33:44:55;
        hdr.h.b = 10.0.0.1;
        if (meta.x == 1 and hdr.h.isValid()) { meta.x++; } elif (meta.x == 2) { meta.x = 3; }
        while (meta.x < 3) { meta.x = meta.x + 1; }
        switch (meta.x) { case 1: { } }
        switch (meta.x) { 1: meta.x = 2; }
        register<bit<8>>(16) r;
        r.write(0, 1);
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
