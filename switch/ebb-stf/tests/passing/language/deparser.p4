// Statements of a deparser beside `emit`: BMv2 runs it before it emits the first header.
#include <core.p4>
#include <v1model.p4>

header probe_t { bit<8> a; bit<8> b; }
header answer_t { bit<8> a; bit<8> b; bit<16> c; }
struct headers_t { probe_t probe; }
struct meta_t { @field_list(1) bit<8> round; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.probe); transition accept; }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { s.egress_spec = 2; } }
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }

action note(in bit<8> value) { log_msg("noted {}", { value }); }

control Answer(packet_out p, in headers_t h) {
    register<bit<8>>(4) seen;
    answer_t answer;
    apply {
        answer.setValid();
        answer.a = 0xaa;
        seen.read(answer.b, 1);
        seen.write(1, h.probe.b);
        hash(answer.c, HashAlgorithm.identity, 16w0, { h.probe.b, h.probe.b }, 17w0x10000);
        p.emit(answer);
    }
}

control D(packet_out p, in headers_t h) {
    Answer() answer;
    apply {
        bit<8> next = h.probe.a + 1;
        log_msg("leaves: {} {} {}", { h.probe.isValid(), h.probe.a, next });
        assert(h.probe.a != 99);
        answer.apply(p, h);
        p.emit(h.probe);
        // Statements that change nothing that was emitted may stand behind it.
        next = next + 1;
        assume(next != 103);
        note(next);
        if (true) { truncate(5); }
        return;
        log_msg("never");
        exit;
    }
}

V1Switch(P(), C(), I(), E(), C(), D()) main;
