// A bit of everything that the JSON has a place for.
#include <core.p4>
#include <v1model.p4>

enum Colour { red, green }
error { Odd }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> sum; bit<32> src; bit<32> dst; varbit<320> options;
}
header label_t { bit<20> label; bit<3> tc; bit<1> last; bit<8> ttl; }
header short_t { bit<8> kind; bit<8> value; }
header long_t { bit<8> kind; bit<24> value; }
header_union option_t { short_t s; long_t l; }
struct headers_t { ethernet_t ethernet; label_t[3] labels; option_t option; option_t[2] options; ipv4_t ipv4; }
struct meta_t { @field_list(1) bit<16> hash; @field_list(1) bool seen; bit<2> colour; int<8> change; }
struct digest_t { bit<48> src; bit<9> port; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) tunnels;
    state start {
        p.extract(h.ethernet);
        verify(h.ethernet.type != 0, error.Odd);
        transition select(h.ethernet.type) {
            tunnels: accept;
            0x8847: labels;
            0x0800 &&& 0xff00: ipv4;
            default: accept;
        }
    }
    state labels {
        p.extract(h.labels.next);
        transition select(h.labels.last.last) { 0: labels; 1: options; }
    }
    state options {
        transition select(p.lookahead<bit<8>>()) {
            1: small;
            2: large;
            default: accept;
        }
    }
    state small { p.extract(h.option.s); p.extract(h.options.next.s); p.advance(8); transition accept; }
    state large { p.extract(h.options.next.l); transition accept; }
    state ipv4 {
        bit<8> first = p.lookahead<bit<8>>();
        m.hash = (bit<16>)first + 1;
        p.extract(h.ipv4, (bit<32>)(((bit<16>)(first & 15)) << 5) - 160);
        transition accept;
    }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(4, CounterType.packets) packets;
    meter(4, MeterType.bytes) rate;
    register<bit<16>>(4) cells;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) police;
    action_profile(8) members;
    action_selector(HashAlgorithm.crc16, 16, 16) choice;
    action forward(bit<9> port) { s.egress_spec = port; hits.count(); police.read(m.colour); }
    action drop() { mark_to_drop(s); }
    action value(bit<8> ttl) { h.ipv4.ttl = ttl; }
    action copy() { clone_preserving_field_list(CloneType.I2E, 5, 1); digest<digest_t>(1, { h.ethernet.src, s.ingress_port }); }
    table route {
        key = { h.ipv4.dst : lpm; s.ingress_port : exact; }
        actions = { forward; drop; }
        size = 16;
        counters = hits;
        meters = police;
        support_timeout = true;
        default_action = drop();
    }
    table fixed {
        key = { h.ethernet.type : ternary; h.ethernet.src : range; }
        actions = { drop; NoAction; }
        const entries = {
            (0x0806, _): drop();
            (0x0800 &&& 0xff00, 1 .. 5): NoAction();
        }
    }
    table pick { key = { h.ipv4.tos : exact; } actions = { value; } implementation = members; }
    table balance { key = { h.ipv4.id : exact; h.ipv4.src : selector; } actions = { value; } implementation = choice; }
    apply {
        if (h.ipv4.isValid()) { route.apply(); }
        fixed.apply();
        if (pick.apply().hit) { balance.apply(); }
        packets.count((bit<32>)s.ingress_port & 3);
        rate.execute_meter((bit<32>)1, m.colour);
        cells.write(1, m.hash);
        hash(m.hash, HashAlgorithm.crc32, 16w0, { h.ipv4.src, 8w7, h.ipv4.dst }, 16w100);
        log_msg("hash {}", { m.hash });
        if (m.hash == 7) { copy(); }
        h.labels.push_front(1);
        m.change = m.change - 1;
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control V(inout headers_t h, inout meta_t m) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum_with_payload(h.ipv4.isValid(), { h.ipv4.version, h.ipv4.ihl, h.ipv4.tos, h.ipv4.length },
            h.ipv4.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out p, in headers_t h) {
    apply { p.emit(h.ethernet); p.emit(h.labels); p.emit(h.option); p.emit(h.options); p.emit(h.ipv4); }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
