#include <core.p4>
#include <v1model.p4>
// `for` in its forms, with ways out of it: break, continue, return, exit.
header h_t { bit<8> what; bit<8> n; bit<8> r; }
header e_t { bit<8> v; }
struct headers_t { h_t h; e_t[3] s; }
struct metadata_t {}
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); p.extract(hdr.s.next); transition accept; }
}
bit<8> first_at_least(in bit<8> limit, in bit<8> step) {
    for (bit<8> i in 0..255) {
        bit<8> x = i * step;
        if (x >= limit) return x;
        i = 0;
    }
    return 0xee;
}
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.h.r = 0;
        switch (hdr.h.what) {
            1: { for (bit<8> i = 0, bit<8> k = 10; i < hdr.h.n; i += 1, k -= 1) { if (i == 2) continue; if (i == 6) break; hdr.h.r = hdr.h.r + k; } }
            2: { for (bit<8> i in 250..255) { hdr.h.r = hdr.h.r + 1; } }
            3: { for (e_t e in hdr.s) { if (e.v == 7) { continue; } if (e.v == 9) break; hdr.h.r = hdr.h.r + e.v; } }
            4: { hdr.h.r = first_at_least(hdr.h.n, 3); }
            5: { for (int<8> i in -2..2) { for (bit<8> j in 1..hdr.h.n) { if (i == 1) { hdr.h.r = hdr.h.r + 100; return; } hdr.h.r = hdr.h.r + 1; if (j == 3) break; } } hdr.h.what = 0xff; }
            6: { for (bit<8> i in 3..1) { hdr.h.r = 1; } hdr.h.what = 0x66; }
            8: { for (bit<8> i in 1..3) { if (i == 2) { hdr.h.r = 2; exit; } } }
            9: { for (bit<8> i in (list<bit<8>>){1, 2, 4}) { hdr.h.r = hdr.h.r + i; } }
        }
        hdr.s[0].v = 0xaa;
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) { apply {} }
control V(inout headers_t hdr, inout metadata_t m) { apply {} }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
