#include <core.p4>
#include <v1model.p4>
// Chains of more operands than JSON may be deep: sums, products, bits, conditions, concatenations.

#define FOUR(x) x x x x
#define MANY(x) FOUR(FOUR(FOUR(x)))

header item_t { bit<16> sum; bit<16> product; bit<16> bits; bit<8> both; bit<8> either; int<16> less; bit<80> parts; }
struct headers_t { item_t item; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.item); transition accept; }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<16> a = h.item.sum;
        bit<16> b = h.item.bits;
        bit<1> low = h.item.sum[0:0];
        int<8> negative = (int<8>)(bit<8>)a;
        int<8> eight = 8s0;
        h.item.sum = 1 MANY(+ a + b);
        h.item.product = 1 MANY(* a * b);
        h.item.bits = 0 MANY(^ a ^ b | a & 0x7fff);
        if (a == 0x0103 MANY(&& a != b)) { h.item.both = 1; }
        if (a == 0x0104 MANY(|| a == b + 1)) { h.item.either = 1; }
        h.item.less = 0 MANY(+ (int<16>)negative);
        h.item.parts = (bit<80>)(negative ++ a ++ (bit<56>)(bit<64>)(low FOUR(++ b[3:0] ++ eight ++ low ++ ~low ++ 2w1)));
        s.egress_spec = 1;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
