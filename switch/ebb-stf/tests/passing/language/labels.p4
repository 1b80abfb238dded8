// A table whose entries the script calls by labels.
#include <core.p4>
#include <v1model.p4>

header probe_t { bit<8> key; }
struct headers_t { probe_t probe; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.probe); transition accept; }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) hits;
    action forward(bit<9> port) { s.egress_spec = port; hits.count(); }
    table t {
        key = { h.probe.key : exact; }
        actions = { forward; }
        counters = hits;
    }
    apply { t.apply(); }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }

V1Switch(P(), C(), I(), E(), C(), D()) main;
