// Default actions of tables with action profiles and selectors, with what follows them.
#include <core.p4>
#include <v1model.p4>

header probe_t { bit<8> key; bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; }
struct headers_t { probe_t probe; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.probe); transition accept; }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action_profile(16) members;
    action_selector(HashAlgorithm.crc16, 16, 8) choice;
    direct_counter(CounterType.packets) profile_hits;
    direct_counter(CounterType.packets) selector_hits;
    action set_a(bit<8> value) { h.probe.a = value; }
    action set_b(bit<8> value, bit<80> wide) { h.probe.b = value + (bit<8>)wide; }
    action set_c(bit<8> value) { h.probe.c = value; }
    table with_profile {
        key = { h.probe.key : exact; }
        actions = { set_a; set_c; }
        implementation = members;
        default_action = set_a(0xaa);
        counters = profile_hits;
        size = 2;
    }
    table with_selector {
        key = { h.probe.key : exact; h.probe.a : selector; }
        actions = { set_b; }
        implementation = choice;
        const default_action = set_b(0xbb, 80w0);
        counters = selector_hits;
    }
    table without {
        key = { h.probe.key : ternary; }
        actions = { set_a; }
        implementation = action_profile(4);
    }
    apply {
        s.egress_spec = 1;
        switch (with_profile.apply().action_run) {
            set_a: { h.probe.d = 1; }
            set_c: { h.probe.d = 2; }
        }
        if (with_selector.apply().miss) { h.probe.e = h.probe.e + 1; }
        switch (without.apply().action_run) {
            set_a: { h.probe.e = h.probe.e + 16; }
            default: { h.probe.e = h.probe.e + 32; }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

V1Switch(P(), C(), I(), E(), C(), D()) main;
