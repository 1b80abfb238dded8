// Sub-controls, functions, and `if` inside of an action that reads and writes a register.
#include <core.p4>
#include <v1model.p4>

header tag_t { bit<8> level; bit<8> more; }
struct headers { tag_t[3] tags; }
struct metadata { bit<32> depth; bool marked; }

bit<32> at_least(in bit<32> a, in bit<32> floor) {
    if (a < floor) { return floor; }
    return a;
}

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.tags.next);
        transition select(hdr.tags.last.more) { 0: accept; _: start; }
    }
}

// Counts bytes per port and drains them; one action, so that packets cannot come between.
control Meter(inout metadata meta, in standard_metadata_t sm)(bit<32> limit) {
    register<bit<32>>(512) depth;
    action charge(bit<32> drain) {
        bit<32> level;
        depth.read(level, (bit<32>) sm.egress_port);
        if (level > drain) {
            level = level - drain;
        } else {
            level = 0;
        }
        level = level |+| sm.packet_length;
        depth.write((bit<32>) sm.egress_port, level);
        if (level > limit) {
            meta.marked = true;
            return;
        }
        meta.depth = at_least(level, 64);
    }
    table settings {
        key = { sm.egress_port : exact; }
        actions = { charge; NoAction; }
    }
    apply { settings.apply(); }
}

control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply { sm.egress_spec = (bit<9>) (hdr.tags[0].level ++ 1w1); }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    Meter(3000) small;
    Meter(30000) large;
    apply {
        if (hdr.tags[1].isValid()) { small.apply(meta, sm); } else { large.apply(meta, sm); }
        if (meta.marked) { hdr.tags.push_front(1); hdr.tags[0] = { 255, 1 }; }
        hdr.tags[2].level[3:0] = 5;
    }
}
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
