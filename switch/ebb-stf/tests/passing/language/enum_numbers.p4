#include <core.p4>
#include <v1model.p4>
// Enums with an underlying type meet numbers: both are cast by themselves.

enum bit<8> Flag { SYN = 1, ACK = 2, PSH = 8 }
enum int<8> Level { LOW = -1, HIGH = 1 }

header probe_t { Flag flags; Level level; bit<8> answer; bit<8> more; }
header more_t { Flag flag; bit<8> parsed; bit<8> switched; bit<8> looked; }
struct headers_t { probe_t probe; more_t more; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.probe);
        if (h.probe.flags != 0) { h.probe.more = 1; }
        p.extract(h.more);
        transition select(h.more.flag) {
            8 : eight;
            Flag.ACK : ack;
            default : accept;
        }
    }
    state eight { h.more.parsed = Flag.PSH + 1; transition accept; }
    state ack { h.more.parsed = Flag.ACK; transition accept; }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action look(bit<8> value) { h.more.looked = value; }
    table t {
        key = { h.more.flag : exact; }
        actions = { look; NoAction; }
        const entries = { 8 : look(Flag.PSH); Flag.ACK : look(0x22); }
    }
    apply {
        s.egress_spec = 2;
        switch (h.more.flag) {
            8 : { h.more.switched = h.more.flag << 1; }
            Flag.ACK : { h.more.switched = h.more.flag > 1 ? Flag.ACK : 1; }
        }
        t.apply();
        h.probe.answer = 0;
        if (h.probe.flags == 8) { h.probe.answer = h.probe.answer | 1; }
        if (h.probe.flags == 8w2) { h.probe.answer = h.probe.answer | 2; }
        if (0 != h.probe.flags) { h.probe.answer = h.probe.answer | 4; }
        if (h.probe.level == -1) { h.probe.answer = h.probe.answer | 8; }
        if (h.probe.flags & Flag.SYN != 0) { h.probe.answer = h.probe.answer | 16; }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }

V1Switch(P(), C(), I(), E(), C(), D()) main;
