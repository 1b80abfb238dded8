#include <core.p4>
#include <v1model.p4>
// Keys that are constants: an entry with another number never matches.

header item_t { bit<8> x; bit<8> y; }
struct headers_t { item_t item; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.item); transition accept; }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(bit<8> y) { h.item.y = y; }
    table always {
        key = { 1w1 : exact; 8w0x2a : exact; h.item.x : exact; }
        actions = { set; NoAction; }
        const entries = {
            (1, 42, 7) : set(0xaa);
            (0, 42, 8) : set(0xbb);
        }
    }
    apply { always.apply(); s.egress_spec = 1; }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
