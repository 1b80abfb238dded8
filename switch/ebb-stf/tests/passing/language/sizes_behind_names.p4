#include <core.p4>
#include <v1model.p4>
// Sizes of stacks behind names, as p4c takes them: fields, types, parameters, variables.

const int PAIRS = 2;
header item_t { bit<8> x; }
typedef item_t pair_t[PAIRS];
struct headers_t { item_t first[2 + 1]; pair_t second; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.first.next);
        transition select(h.first.lastIndex) { 2 : second; default : start; }
    }
    state second {
        p.extract(h.second.next);
        transition select(h.second.lastIndex) { 1 : accept; default : second; }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }

control swap(inout item_t items[PAIRS]) {
    apply {
        item_t before[PAIRS] = items;
        items[0] = before[1];
        items[1] = before[0];
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    swap() swapped;
    apply {
        h.first.pop_front(1);
        swapped.apply(h.second);
        s.egress_spec = 1;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
