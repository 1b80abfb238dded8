// A bit of everything, for tests: what packets and table entries make of it is arbitrary, and must be the same
// in native code and in the interpreters.
#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;

header front_t {
    bit<8>  kind;
    bit<3>  what;
    bit<5>  count;
    bit<16> value;
    int<8>  number;
    bit<64> wide;
}

header element_t {
    bit<7> label;
    bit<1> last;
}

header short_t { bit<8> a; }
header long_t { bit<8> a; bit<40> b; }

header_union either_t {
    short_t s;
    long_t  l;
}

header options_t {
    bit<8>     length;
    varbit<96> data;
}

struct headers_t {
    front_t      front;
    element_t[4] stack;
    either_t     either;
    options_t    options;
}

struct metadata_t {
    @field_list(1)
    bit<8>   passes;
    @field_list(1, 2)
    bit<16>  kept;
    bit<16>  index;
    bit<32>  hash;
    bit<130> huge;
    int<12>  signed_value;
    bit<2>   colour;
    bit<2>   entry_colour;
}

struct learned_t {
    bit<16> value;
    bit<9>  port;
}

parser SinkParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    value_set<bit<8>>(4) special_kinds;

    state start {
        packet.extract(hdr.front);
        verify(hdr.front.count < 20, error.ParserInvalidArgument);
        meta.index = hdr.front.value & 7;
        transition select(hdr.front.kind) {
            special_kinds: parse_stack;
            default: ordinary;
        }
    }

    state ordinary {
        transition select(hdr.front.kind, hdr.front.what) {
            (0x10 &&& 0xf0, _): parse_stack;
            (0x20 .. 0x2f, _): parse_short;
            (0x30, 1): parse_long;
            (0x40, _): parse_options;
            (0x50, _): skip;
            default: accept;
        }
    }

    state parse_stack {
        packet.extract(hdr.stack.next);
        transition select(hdr.stack.last.last) {
            1: after_stack;
            default: parse_stack;
        }
    }

    state after_stack {
        transition select(packet.lookahead<bit<8>>()) {
            0: parse_short;
            1: parse_long;
            2: parse_options;
            default: accept;
        }
    }

    state parse_short {
        packet.extract(hdr.either.s);
        transition accept;
    }

    state parse_long {
        packet.extract(hdr.either.l);
        transition select(hdr.either.l.b) {
            0x0000000000 &&& 0xff00000000: parse_options;
            default: accept;
        }
    }

    state parse_options {
        packet.extract(hdr.options, (bit<32>)(packet.lookahead<bit<8>>() & 0xf) * 8);
        transition accept;
    }

    state skip {
        packet.advance((bit<32>)hdr.front.count * 8);
        transition after_stack;
    }
}

control SinkVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.front.isValid() && hdr.front.what == 7, { hdr.front.kind, hdr.front.number },
            hdr.front.value, HashAlgorithm.csum16);
    }
}

control SinkIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<16>>(8) values;
    register<bit<100>>(4) wide_values;
    counter(8, CounterType.packets_and_bytes) seen;
    meter(8, MeterType.packets) limit;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<2>>(MeterType.bytes) entry_limit;

    action drop() { mark_to_drop(standard); }
    action forward(port_t port) { standard.egress_spec = port; }
    action flood(bit<16> group) { standard.mcast_grp = group; }
    action mirror(bit<32> session) { clone_preserving_field_list(CloneType.I2E, session, 2); }
    action again() {
        meta.passes = meta.passes + 1;
        meta.kept = meta.kept ^ hdr.front.value;
        resubmit_preserving_field_list(1);
    }
    action learn() { digest<learned_t>(1, { hdr.front.value, standard.ingress_port }); }
    action cut(bit<32> length) { truncate(length); }
    action counted(port_t port) {
        hits.count();
        standard.egress_spec = port;
    }
    action metered(port_t port) {
        entry_limit.read(meta.entry_colour);
        standard.egress_spec = port;
    }
    action remember(bit<16> by) {
        bit<16> now;
        values.read(now, (bit<32>)meta.index);
        now = now |+| by;
        values.write((bit<32>)meta.index, now);
        meta.kept = now;
        wide_values.write((bit<32>)(meta.index & 3), (bit<100>)hdr.front.wide << 20);
    }
    action push(bit<7> label) {
        hdr.stack.push_front(1);
        hdr.stack[0].setValid();
        hdr.stack[0] = { label, hdr.stack[1].isValid() ? 1w0 : 1w1 };
    }
    action pop() { hdr.stack.pop_front(1); }
    action compute(bit<64> add, int<8> by) {
        hdr.front.wide = hdr.front.wide + add;
        hdr.front.number = hdr.front.number |-| by;
        meta.signed_value = (int<12>)hdr.front.number * 3;
        meta.huge = (bit<130>)hdr.front.wide * 0x123456789abcdef0f;
        hdr.front.value[11:4] = meta.huge[100:93] ^ (bit<8>)(hdr.front.wide >> 3);
        hash(meta.hash, HashAlgorithm.crc32, 32w1, { hdr.front.wide, hdr.front.value, meta.huge }, 32w1000);
    }

    table exact_match {
        key = { hdr.front.kind: exact; hdr.front.what: exact; }
        actions = { forward; flood; mirror; again; learn; counted; drop; NoAction; }
        counters = hits;
        default_action = NoAction();
        size = 64;
    }
    table ternary_match {
        key = {
            hdr.front.value: ternary;
            hdr.front.kind: range;
            hdr.either.s.isValid(): exact;
            meta.passes: optional;
        }
        actions = { forward; mirror; again; cut; remember; push; pop; compute; NoAction; }
        default_action = remember(3);
        size = 64;
    }
    table prefix_match {
        key = { hdr.front.wide: lpm; }
        actions = { metered; drop; NoAction; }
        meters = entry_limit;
        default_action = NoAction();
        size = 64;
    }
    action_selector(HashAlgorithm.crc16, 64, 16) choice;
    table selected {
        key = {
            hdr.front.count: exact;
            hdr.front.value: selector;
            meta.hash: selector;
        }
        actions = { forward; compute; push; NoAction; }
        implementation = choice;
        size = 32;
    }

    apply {
        seen.count((bit<32>)meta.index);
        if (standard.parser_error != error.NoError) {
            meta.index = 6;
        }
        if (hdr.front.isValid()) {
            switch (exact_match.apply().action_run) {
                again: { if (meta.passes > 3) { drop(); exit; } }
                counted: { limit.execute_meter<bit<2>>((bit<32>)meta.index, meta.colour); }
                default: { prefix_match.apply(); }
            }
            if (ternary_match.apply().hit && meta.colour != 2) {
                selected.apply();
            }
            if (hdr.either.l.isValid() && hdr.either.l.b[7:0] > 0x80) {
                hdr.either.s.setValid();
                hdr.either.s.a = hdr.front.kind;
            }
            if (standard.egress_spec == 0 && standard.mcast_grp == 0) {
                standard.egress_spec = (port_t)(hdr.front.value & 3);
            }
            standard.priority = hdr.front.what;
        }
    }
}

control SinkEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(8) depths;

    action send_round() {
        meta.passes = meta.passes + 1;
        recirculate_preserving_field_list(1);
    }
    action mirror(bit<32> session) { clone_preserving_field_list(CloneType.E2E, session, 1); }
    action mark(bit<8> by) {
        hdr.front.kind = hdr.front.kind ^ by;
        hdr.front.value = hdr.front.value + (bit<16>)standard.egress_rid;
        depths.write((bit<32>)standard.egress_port & 7, (bit<32>)standard.enq_qdepth);
    }
    action drop() { mark_to_drop(standard); }

    table leaving {
        key = { standard.egress_port: exact; standard.instance_type: ternary; }
        actions = { send_round; mirror; mark; drop; NoAction; }
        default_action = mark(1);
        size = 64;
    }

    apply {
        if (meta.passes < 4) {
            leaving.apply();
        }
        if (hdr.options.isValid() && standard.instance_type == 2) {
            hdr.options.setInvalid();
        }
    }
}

control SinkChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.front.isValid() && hdr.front.what == 6, { hdr.front.kind, hdr.front.number },
            hdr.front.value, HashAlgorithm.csum16);
    }
}

control SinkDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.front);
        packet.emit(hdr.stack);
        packet.emit(hdr.either);
        packet.emit(hdr.options);
    }
}

V1Switch(SinkParser(), SinkVerify(), SinkIngress(), SinkEgress(), SinkChecksum(), SinkDeparser()) main;
