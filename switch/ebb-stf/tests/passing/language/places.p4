// Tables that are applied at several places which go on differently: by hit, by action, and just on.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> way;
    bit<8> key;
    bit<8> done;
}
struct headers { request_t r; }
struct metadata { }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.r); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action one() { hdr.r.done = hdr.r.done + 1; }
    action two() { hdr.r.done = hdr.r.done + 2; }
    table hits {
        key = { hdr.r.key : exact; }
        actions = { one; two; NoAction; }
        const entries = { 1 : one(); 2 : two(); }
        const default_action = NoAction;
    }
    table acts {
        key = { hdr.r.key + 1 : exact @name("next"); }
        actions = { one; two; NoAction; }
        const entries = { 2 : one(); 3 : two(); }
        const default_action = NoAction;
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.r.way == 0) {
            if (hits.apply().hit) { hdr.r.done = hdr.r.done + 0x10; }
        } else if (hdr.r.way == 1) {
            if (hits.apply().miss) { hdr.r.done = hdr.r.done + 0x20; } else { hdr.r.done = hdr.r.done + 0x40; }
        } else if (hdr.r.way == 2) {
            hits.apply();
            hdr.r.done = hdr.r.done + 0x80;
        } else if (hdr.r.way == 3) {
            switch (acts.apply().action_run) {
                one: { hdr.r.done = hdr.r.done + 0x10; }
                two: { hdr.r.done = hdr.r.done + 0x20; }
            }
        } else {
            switch (acts.apply().action_run) {
                one: { hdr.r.done = hdr.r.done + 0x40; }
                default: { hdr.r.done = hdr.r.done + 0x80; }
            }
        }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
