// Results of externs in enums: a meter's colour, a hash. Members are numbers from 0 in BMv2.
#include <core.p4>
#include <v1model.p4>

enum color_t { GREEN, YELLOW, RED }
enum side_t { LEFT, RIGHT }

header answer_t { bit<8> color; bit<8> side; }
struct headers { answer_t answer; }
struct metadata { color_t color; side_t side; }

parser P(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { packet.extract(h.answer); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    meter(1, MeterType.packets) rate;
    apply {
        s.egress_spec = 1;
        m.color = color_t.RED;
        m.side = side_t.LEFT;
        rate.execute_meter(32w0, m.color);
        hash(m.side, HashAlgorithm.identity, 8w1, { h.answer.side }, 8w1);
        if (m.color == color_t.GREEN) { h.answer.color = 1; }
        if (m.side == side_t.RIGHT) { h.answer.side = 2; }
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out packet, in headers h) { apply { packet.emit(h.answer); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
