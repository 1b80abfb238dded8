#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) one;
    @name("one") value_set<bit<8>>(4) two;
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.a) { one: accept; two: accept; default: reject; }
    }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    counter(4, CounterType.bytes) seen;
    @name("seen") counter(4, CounterType.bytes) again;
    @name("seen") meter(4, MeterType.bytes) other;
    table t {
        key = { meta.x: exact; }
        actions = { NoAction; }
        implementation = action_profile(4);
    }
    table u {
        key = { meta.x: exact; }
        actions = { NoAction; }
        implementation = action_profile(8);
    }
    apply {
        t.apply();
        u.apply();
        seen.count(1);
        again.count(2);
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
