#include <core.p4>
#include <v1model.p4>
// Parameters of `int` are numbers without a width, known when the program is instantiated.

header probe_t { bit<8> a; bit<8> b; bit<8> c; bit<16> d; }
header more_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header item_t { bit<8> x; }
struct headers_t { probe_t probe; more_t more; item_t[4] items; }
struct meta_t { bit<8> seen; }

parser Inner(packet_in p, out probe_t probe, inout meta_t m)(int wanted) {
    state start {
        p.extract(probe);
        transition select(probe.a) { wanted : found; default : accept; }
    }
    state found { m.seen = (bit<8>)wanted; transition accept; }
}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Inner(7) inner;
    state start {
        inner.apply(p, h.probe, m);
        p.extract(h.more);
        transition items;
    }
    state items {
        p.extract(h.items.next);
        transition select(h.items.lastIndex) { 3 : accept; default : items; }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }

control add(inout bit<8> x)(int by) { apply { x = x + by; } }
control set(inout bit<8> x, inout bit<16> y)(int to) {
    apply {
        x = (bit<8>)(to * 2 + 1);
        y = to;
        if (to > 4) { x = x + 1; }
    }
}
// Everything that a number can be: labels, data, sizes, indices, amounts, constants of its own.
control more(inout headers_t h)(int n) {
    const int twice = n * 2;
    action mark(bit<8> value) { h.more.d = value; }
    table t {
        key = { h.more.a : exact; }
        actions = { mark; NoAction; }
        size = n * 4;
        const default_action = NoAction();
        const entries = { n : mark(n + 1); twice + 1 : mark((bit<8>) twice); }
    }
    apply {
        switch (n) {
            1 : { h.more.b = 0xff; }
            3 : { h.more.b = h.more.b << n; }
            default : { h.more.b = 0xee; }
        }
        h.more.c = -n;
        t.apply();
        h.items[n - 1].x = n > 2 ? 8w0xaa : 8w0xbb;
        h.items.push_front(n - 2);
    }
}
control outer(inout headers_t h)(int n) {
    more(n + 1) inner;
    apply { inner.apply(h); }
}
bit<8> plus(in bit<8> x, int n) { return x + n; }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    add(3) add_3;
    set(5) set_5;
    outer(2) outer_2;
    apply {
        s.egress_spec = 1;
        h.probe.b = m.seen;
        add_3.apply(h.probe.a);
        set_5.apply(h.probe.c, h.probe.d);
        h.probe.a = plus(h.probe.a, 4);
        outer_2.apply(h);
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

V1Switch(P(), C(), I(), E(), C(), D()) main;
