// Every error of core.p4 in every way in which a parser can get it: byte 0 of a packet says how, and the answer in
// byte 1 is the error's number. docs/p4c.md has the table.
#include <core.p4>
#include <v1model.p4>

error { Own }

header probe_t { bit<8> way; bit<8> answer; bit<8> argument; }
header two_t { bit<16> value; }
header variable_t { bit<8> fixed; varbit<16> rest; }
header one_t { bit<8> value; }
struct pair_t { bit<4> high; bit<12> low; }
struct headers_t { probe_t probe; two_t two; variable_t variable; one_t[2] stack; }
struct meta_t { bit<32> got; bit<16> seen; }

parser Inner(packet_in p, in bit<8> value) {
    state start { transition select(value) { 1: accept; } }
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Inner() inner;
    value_set<bit<8>>(4) known;
    state start {
        p.extract(h.probe);
        transition select(h.probe.way) {
            0x00: accept;
            0x01: no_label;
            0x02: no_range;
            0x03: no_pair;
            0x04: no_member;
            0x05: in_sub_parser;
            0x06: no_lookahead_label;
            0x10: own;
            0x11: computed;
            0x20: fixed;
            0x21: variable;
            0x22: next;
            0x23: look_ahead;
            0x24: look_ahead_at_pair;
            0x25: skip;
            0x26: select_ahead;
            0x30: full;
            0x31: last_of_none;
            0x32: last_in_select;
            0x34: maybe_last;
            0x35: last_index;
            0x40: loop;
            0x50: rejected;
        }
    }
    state no_label { transition select(h.probe.argument) { 1: accept; 2: fixed; } }
    state no_range { transition select(h.probe.argument) { 1 .. 5: accept; 8 &&& 0x0c: accept; } }
    state no_pair { transition select(h.probe.argument, h.probe.answer) { (1, _): accept; (_, 1): accept; } }
    state no_member { transition select(h.probe.argument) { known: accept; } }
    state in_sub_parser { inner.apply(p, h.probe.argument); transition accept; }
    state no_lookahead_label { transition select(p.lookahead<bit<8>>()) { 1: accept; } }
    state own { verify(h.probe.argument == 1, error.Own); transition accept; }
    state computed { verify(h.probe.argument == 1, h.probe.argument == 2 ? error.NoMatch : error.Own); transition accept; }
    state fixed { p.extract(h.two); transition accept; }
    state variable { p.extract(h.variable, (bit<32>)h.probe.argument); transition accept; }
    state next { p.extract(h.stack.next); transition accept; }
    state look_ahead { m.seen = p.lookahead<bit<16>>(); transition accept; }
    state look_ahead_at_pair { pair_t pair = p.lookahead<pair_t>(); m.seen = (bit<16>)pair.low; transition accept; }
    state skip { p.advance((bit<32>)h.probe.argument); transition accept; }
    state select_ahead { transition select(p.lookahead<bit<16>>()) { 0: accept; default: accept; } }
    state full { p.extract(h.stack.next); p.extract(h.stack.next); p.extract(h.stack.next); transition accept; }
    state last_of_none { m.seen = (bit<16>)h.stack.last.value; transition accept; }
    state last_in_select { transition select(h.stack.last.value) { 0: accept; default: accept; } }
    state maybe_last {
        if (h.probe.argument == 1 && h.stack.last.value == 1) { m.seen = 1; }
        transition accept;
    }
    state last_index { p.extract(h.stack.next); m.got = h.stack.lastIndex; transition select(h.stack.last.value) { 1: accept; } }
    state loop { m.seen = m.seen + 1; transition loop; }
    state rejected { transition reject; }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 2;
        h.probe.answer = 0xff;
        if (s.parser_error == error.NoError) { h.probe.answer = 0; }
        else if (s.parser_error == error.PacketTooShort) { h.probe.answer = 1; }
        else if (s.parser_error == error.NoMatch) { h.probe.answer = 2; }
        else if (s.parser_error == error.StackOutOfBounds) { h.probe.answer = 3; }
        else if (s.parser_error == error.HeaderTooShort) { h.probe.answer = 4; }
        else if (s.parser_error == error.ParserTimeout) { h.probe.answer = 5; }
        else if (s.parser_error == error.ParserInvalidArgument) { h.probe.answer = 6; }
        else if (s.parser_error == error.Own) { h.probe.answer = 7; }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.probe); } }

V1Switch(P(), C(), I(), E(), C(), D()) main;
