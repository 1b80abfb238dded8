/*/ What the C preprocessor does with spellings, and P4 sees the result of. */
# A line that is no directive isn't part of the program, "whatever" it says.
#define HEX(digits) 0x##digits
#define BYTE(value) 8w##value
#define SLOT(n) slot_##n
#define FIRST(x, ...) x
#define COUNT(...) FIRST(__VA_OPT__(HEX(1F)) __VA_OPT__(,) 0)
#define LOG(text, ...) log_msg(text __VA_OPT__(,) __VA_ARGS__)
#define CALL(f, ...) f(__VA_ARGS__)
#define MODEL <v1model.p4>

#if ('B' - 'A' == 01 ? 0x10u : 0) == 16UL && -1 < 0 && defined(__has_include) && __has_include(MODEL)
#define CONDITION 8w0x0A
#elif 1 / 0
#error not evaluated
#else
#define CONDITION 8w0
#endif

#include <core.p4>
#include MODEL

header probe_t { bit<8> which; bit<8> answer; bit<16> pair; }
struct headers_t { probe_t probe; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.probe); transition accept; }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action SLOT(00)() { h.probe.answer = 0xa0; }
    action SLOT(0)() { h.probe.answer = 0xb0; }
    action SLOT(0x1F)() { h.probe.answer = CONDITION; }
    apply {
        s.egress_spec = 2;
        /*/
        s.egress_spec = 3;
        /*/
        # count it if it's new
        if (h.probe.which == 0) { CALL(SLOT(00)); }
        else if (h.probe.which == 1) { CALL(SLOT(0)); }
        else if (h.probe.which == 2) { CALL(SLOT(0x1F)); }
        else { h.probe.answer = HEX(10) + COUNT(a, b) + COUNT(); }
        LOG("nothing // to /* say");
        LOG("which {}", { h.probe.which });
        #mark_to_drop(s);
        h.probe.pair = BYTE(1) ++ BYTE(\
2);
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }

V1Switch(P(), C(), I(), E(), C(), D()) main;
