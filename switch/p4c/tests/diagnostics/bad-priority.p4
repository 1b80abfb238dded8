#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t[2] s; }
struct metadata { bit<8> x; bool flag; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    table no_order {
        key = { meta.x: exact; }
        actions = { NoAction; }
        entries = { const priority = 10: 1: NoAction(); }
    }
    table no_first {
        key = { meta.x: ternary; }
        actions = { NoAction; }
        const entries = {
            1: NoAction();
            priority = 10: 2: NoAction();
        }
    }
    table too_low {
        key = { meta.x: ternary; }
        actions = { NoAction; }
        priority_delta = 10;
        const entries = {
            priority = 12: 1: NoAction();
            2: NoAction();
            3: NoAction();
        }
    }
    table no_number {
        key = { meta.x: ternary; }
        actions = { NoAction; }
        entries = {
            priority = -3: 1: NoAction();
            priority = 1 << 31: 2: NoAction();
        }
    }
    table no_way_down {
        key = { meta.x: ternary; }
        actions = { NoAction; }
        priority_delta = 0;
    }
    apply {
        no_way_down.apply();
        no_number.apply();
        too_low.apply();
        no_order.apply();
        no_first.apply();
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
