// Idioms that a warning would be wrong about.
#include <v1model.p4>
#include "shared.p4"

struct headers { ethernet_t ethernet; tag_t[2] tags; ip_t ip; }
struct metadata { bit<8> x; bit<8> y; bit<32> seen; bool known; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    bit<8> count = 0;
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { TYPE_TAG: tag; default: by_type; }
    }
    state tag {
        p.extract(hdr.tags.next);
        count = count + 1;
        transition select(hdr.tags.last.more) { 1: tag; default: by_tag; }
    }
    state by_tag { transition select(hdr.tags.last.type) { TYPE_IP: ip; default: accept; } }
    state by_type { transition select(hdr.ethernet.type, p.lookahead<bit<4>>()) { (TYPE_IP, 4): ip; default: accept; } }
    state ip { p.extract(hdr.ip); transition select(hdr.ip.protocol) { default: accept; } }
}

const tuple<bit<8>, bit<8>> FIRST = { 1, 2 };
const bool IS_FIRST = FIRST == { 1, 2 } && FIRST != { 2, 1 };

bit<8> least(in bit<8> a, in bit<8> b) { return a < b ? a : b; }
bit<8> least(in bit<8> a) { return a; }

control V(inout headers hdr, inout metadata meta) { apply {} }

control Meter(in bit<32> index, out bit<8> color) {
    meter(16, MeterType.packets) m;
    bit<2> result;
    apply {
        m.execute_meter(index, result);
        color = 0;
        if (result == 2) { color = 1; }
    }
}

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    register<bit<32>>(16) seen;
    Meter() limit;
    bit<8> color;
    bit<8> next_hop;
    bit<32> last;
    action drop() { mark_to_drop(sm); }
    action to(bit<9> port, bit<8> hop) { sm.egress_spec = port; next_hop = hop; }
    table route {
        key = { hdr.ip.dst : lpm; }
        actions = { to; @defaultonly drop; }
        const default_action = drop();
    }
    action push(bit<12> id) { hdr.tags.push_front(1); hdr.tags[0].setValid(); hdr.tags[0] = { id, 0, 0, TYPE_IP }; }
    table vlan { key = { sm.egress_spec : exact; } actions = { push; NoAction; } }
    action set_color(bit<8> value) { color = value; }
    table route_again { key = { hdr.ip.src : ternary; } actions = { set_color; NoAction; } }
    table hop { key = { next_hop : exact; } actions = { drop; NoAction; } }
    apply {
        if (!hdr.ip.isValid()) { drop(); exit; }
        if (hdr.ip.ttl == 0) { drop(); return; }
        // Variables that only a hit sets are read after a hit only.
        if (route.apply().hit) { hop.apply(); }
        switch (route_again.apply().action_run) {
            set_color: { meta.x = color; }
            default: { color = 1; }
        }
        seen.read(last, (bit<32>) meta.x);
        seen.write((bit<32>) meta.x, last + 1);
        limit.apply(last, meta.y);
        hash(meta.seen, HashAlgorithm.crc32, 32w0, { hdr.ip.src, hdr.ip.dst }, 32w16);
        bit<8> chosen;
        if (meta.y == 1) { chosen = 1; } else { chosen = color; }
        meta.x = least(chosen, 3);
        if (IS_FIRST) { meta.y = 2; }
        meta.known = hdr.tags[0].isValid() && hdr.tags[0].type == TYPE_IP;
        for (bit<8> i in 0..2) { meta.y = meta.y + i; }
        vlan.apply();
        hdr.ip.ttl = hdr.ip.ttl - 1;
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply { if (sm.egress_port == 0) { hdr.tags[0].setInvalid(); } else if (hdr.tags[0].isValid()) { hdr.tags[0].id = 1; } }
}

control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
