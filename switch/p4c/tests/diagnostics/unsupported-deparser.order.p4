#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) {
    h_t mine;
    h_t[2] stack;
    table t { key = { hdr.h.a : exact; } actions = { NoAction; } }
    apply {
        mine = hdr.h;
        mine.a = 1;
        p.emit(mine);
        mine.a = 2;
        random(mine.b, 0, 9);
        p.emit(stack);
        stack.push_front(1);
        mine.setInvalid();
        t.apply();
        for (bit<8> i = 0; i < hdr.h.a; i = i + 1) { log_msg("again"); }
        clone(CloneType.E2E, 1);
    }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
