// A header union has one validity: what is done to a member is done to the union (P4_16, "Operations on header unions").
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> kind;
    bit<8> answer;
}

header short_t {
    bit<8> x;
}

header long_t {
    bit<16> y;
}

header_union either_t {
    short_t s;
    long_t l;
    short_t t;
}

struct headers_t {
    probe_t probe;
    either_t u;
    either_t v;
    either_t[3] list;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.kind) {
            0x80 &&& 0x80: replaced;
            default: both;
        }
    }
    state both {
        packet.extract(hdr.u.l);
        packet.extract(hdr.list.next.s);
        packet.extract(hdr.list.next.l);
        transition accept;
    }
    // The member that is extracted last is the valid one; a copy of an invalid one leaves none.
    state replaced {
        packet.extract(hdr.u.s);
        packet.extract(hdr.u.l);
        packet.extract(hdr.v.l);
        hdr.v.t = hdr.u.s;
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

void nothing(inout short_t h) {}
void invalid(inout short_t h) { h.setInvalid(); }
void filled(out short_t h) { h = { 0x77 }; }
void empty(out short_t h) {}
void pair(inout short_t s, inout long_t l) { if (!s.isValid()) { s = { 0x66 }; } }
short_t none() { short_t h; h.setInvalid(); return h; }
bit<8> first_of(in short_t s, inout either_t u) { u.l.setValid(); u.l.y = 0x1234; return s.isValid() ? s.x : 0xee; }

control touch(inout short_t h) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    touch() toucher;
    action clear(inout short_t h) { h.setInvalid(); }
    action set_valid(out short_t h) { h.setValid(); h.x = 0x55; }

    apply {
        short_t gone;
        gone.setInvalid();
        either_t other;
        bit<8> i = hdr.probe.answer;
        hdr.probe.answer = 0;
        standard_metadata.egress_spec = 1;
        if (hdr.probe.kind == 0) {
            hdr.u.s.setInvalid();
        } else if (hdr.probe.kind == 1) {
            hdr.u.s = gone;
        } else if (hdr.probe.kind == 2) {
            hdr.u.s = none();
        } else if (hdr.probe.kind == 3) {
            hdr.u.s = (short_t){#};
        } else if (hdr.probe.kind == 4) {
            hdr.u = other;
        } else if (hdr.probe.kind == 5) {
            nothing(hdr.u.s);
        } else if (hdr.probe.kind == 6) {
            invalid(hdr.u.s);
        } else if (hdr.probe.kind == 7) {
            empty(hdr.u.s);
        } else if (hdr.probe.kind == 8) {
            toucher.apply(hdr.u.s);
        } else if (hdr.probe.kind == 9) {
            clear(hdr.u.t);
        } else if (hdr.probe.kind == 10) {
            // The long one goes back last, as it came in: valid.
            pair(hdr.u.s, hdr.u.l);
        } else if (hdr.probe.kind == 11) {
            filled(hdr.u.s);
        } else if (hdr.probe.kind == 12) {
            set_valid(hdr.u.t);
        } else if (hdr.probe.kind == 13) {
            hdr.u.t = { 0x44 };
            hdr.u.s = hdr.u.t;
        } else if (hdr.probe.kind == 14) {
            hdr.u.s.setValid();
            hdr.u.s.x = 0x33;
            hdr.probe.answer = first_of(hdr.u.s, hdr.u);
        } else if (hdr.probe.kind == 15) {
            // In stacks, by a number known at run time, too.
            hdr.list[i].t.setInvalid();
        } else if (hdr.probe.kind == 16) {
            hdr.list[i].t = hdr.list[2].t;
        } else if (hdr.probe.kind == 17) {
            nothing(hdr.list[i].t);
        } else if (hdr.probe.kind == 18) {
            hdr.list.push_front(1);
            hdr.list[1].l.setInvalid();
        } else if (hdr.probe.kind == 19) {
            hdr.list.pop_front(1);
            hdr.list[0].s = gone;
            hdr.list[1] = hdr.u;
        } else if (hdr.probe.kind == 20) {
            other.s = { 1 };
            hdr.u = hdr.list[2];
            other = hdr.u;
            if (other == hdr.u && other == hdr.v) { hdr.probe.answer = 0x10; }
        } else if (hdr.probe.kind == 21) {
            other.l = hdr.u.l;
            hdr.v = other;
            if (hdr.v == hdr.u && hdr.v != hdr.list[0]) { hdr.probe.answer = 0x10; }
        }
        if (hdr.u.isValid()) { hdr.probe.answer = hdr.probe.answer | 1; }
        if (hdr.v.isValid()) { hdr.probe.answer = hdr.probe.answer | 2; }
        if (hdr.list[0].isValid()) { hdr.probe.answer = hdr.probe.answer | 4; }
        if (hdr.list[1].isValid()) { hdr.probe.answer = hdr.probe.answer | 8; }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {}
}

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
