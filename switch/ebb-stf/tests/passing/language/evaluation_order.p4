// Arguments and operands are evaluated from left to right, as they are written, each before the next one, and copies of
// `inout` arguments go back from left to right after the call (P4_16, "Calling convention: call by copy in/copy out",
// "Expression evaluation order").
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> kind;
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

header element_t {
    bit<8> x;
}

struct pair_t {
    bit<8> p;
    bit<8> q;
}

struct headers_t {
    probe_t probe;
    element_t[3] stack;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.probe);
        packet.extract(hdr.stack.next);
        packet.extract(hdr.stack.next);
        packet.extract(hdr.stack.next);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
bit<8> digits(in bit<8> x, in bit<8> y) { return x << 4 | y; }
bit<8> keep(inout bit<8> x, in bit<8> y) { return y; }
bit<8> show(inout bit<8> x, in bit<8> y) { if (y == 0xff) { x = 0xfe; } return x; }
bit<8> of_pair(in pair_t pair, in bit<8> y) { return pair.p << 4 | y; }
bit<8> exchange(inout bit<4> x, inout bit<4> y) { bit<4> z = x; x = y; y = z; return 0; }
pair_t two(inout bit<8> x) { x = x + 1; return { x, x + 1 }; }
element_t[3] stack_of(inout bit<8> x) { x = x + 1; return { { x }, { x + 1 }, { x + 2 } }; }
void early(inout bit<8> x, in bit<8> y) { x = x + y; if (y == 1) { return; } x = 0; }

control add(inout bit<8> x, in bit<8> y) {
    apply { x = x + y; }
}

control leave(inout bit<8> x, in bit<8> y) {
    action out_of_here(inout bit<8> z) { z = z + 0x20; exit; }
    apply {
        x = x + y;
        if (y == 1) { return; }
        out_of_here(x);
        x = 0;
    }
}

// A table of BMv2 goes on at one place only.
#define KNOWN(name)                                    \
    table name {                                       \
        key = { hdr.probe.a : exact; }                 \
        actions = { mark; leave_all; NoAction; }       \
        const default_action = NoAction();             \
        const entries = { 1 : mark(); 9 : leave_all(); } \
    }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    register<bit<8>>(4) cells;
    bit<8> key = 0;
    add() adder;
    leave() leaver;

    action mark() { hdr.probe.d = hdr.probe.d + 1; }
    action leave_all() { exit; }
    action store(inout bit<8> place, in bit<8> value) { place = place + value; }
    action twice(inout bit<8> place, in bit<8> value) {
        store(place, bump(place));
        store(place, value);
    }
    action by_name(inout bit<8> place, in bit<8> value) {
        hdr.probe.a = 0x70;
        place = place + value;
    }
    action part(inout bit<4> place, in bit<4> value) { place = place + value; }
    action both(inout bit<8> x, inout bit<8> y) { x = x + 1; y = y + 0x10; }

    KNOWN(of_action)
    KNOWN(of_function)
    KNOWN(of_control)
    KNOWN(of_extern)
    KNOWN(that_exits)

    action right() { hdr.probe.d = hdr.probe.d + 1; }
    table keys {
        key = {
            key & 7 : exact @name("low");
            bump(key) : exact @name("bumped");
            key : exact @name("all");
        }
        actions = { right; NoAction; }
        const default_action = NoAction();
        const entries = { (3, 4, 4) : right(); (4, 5, 5) : right(); }
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.probe.kind == 0) {
            // The value before the next argument goes in, and it comes back.
            keep(hdr.probe.a, bump(hdr.probe.a));
            hdr.probe.c = show(hdr.probe.b, bump(hdr.probe.b));
            adder.apply(hdr.probe.d, bump(hdr.probe.d));
        } else if (hdr.probe.kind == 1) {
            // In the order in which they are written, with or without names.
            hdr.probe.a = digits(y = bump(hdr.probe.b), x = hdr.probe.b);
            hdr.probe.c = digits(x = hdr.probe.d, y = bump(hdr.probe.d));
            store(value = bump(hdr.stack[0].x), place = hdr.stack[0].x);
            adder.apply(y = bump(hdr.stack[1].x), x = hdr.stack[1].x);
        } else if (hdr.probe.kind == 2) {
            // Structs by field names; what is not looked at is evaluated too.
            pair_t pair = { q = bump(hdr.probe.a), p = hdr.probe.a };
            hdr.probe.b = digits(pair.p, pair.q);
            pair = (pair_t){ p = hdr.probe.c, q = bump(hdr.probe.c) };
            hdr.probe.d = digits(pair.p, pair.q);
            hdr.stack[0].x = ((pair_t){ p = 7, q = bump(hdr.stack[1].x) }).p;
            hdr.stack[2].x = two(hdr.stack[2].x).q;
        } else if (hdr.probe.kind == 3) {
            // Lists before calls, operands before calls.
            hdr.probe.a = of_pair({ hdr.probe.a, 0 }, bump(hdr.probe.a));
            hdr.probe.b = hdr.probe.b + bump(hdr.probe.b) + hdr.probe.b;
            hdr.probe.c += bump(hdr.probe.c);
            bool same = { hdr.probe.d, hdr.probe.d } == two(hdr.probe.d);
            hdr.probe.d = same ? 8w0xaa : 8w0xbb;
            hdr.stack[0].x = (hdr.stack[0].x ++ bump(hdr.stack[0].x))[11:4];
        } else if (hdr.probe.kind == 4) {
            // A table in an argument: of an action, of a function, of a control, of an extern.
            store(hdr.probe.b, of_action.apply().hit ? 8w1 : 8w2);
            cells.write(0, hdr.probe.d);
            cells.read(hdr.probe.c, 0);
        } else if (hdr.probe.kind == 5) {
            hdr.probe.c = digits(hdr.probe.d, of_function.apply().hit ? hdr.probe.d : 2);
        } else if (hdr.probe.kind == 6) {
            adder.apply(hdr.probe.d, of_control.apply().miss ? 8w2 : 8w3);
        } else if (hdr.probe.kind == 7) {
            cells.write(1, hdr.probe.d + (of_extern.apply().hit ? 8w0x10 : 8w0x20));
            cells.read(hdr.probe.c, 1);
        } else if (hdr.probe.kind == 8) {
            // Actions that call actions, and an argument that the action changes by its own name.
            twice(hdr.probe.b, bump(hdr.probe.b));
            by_name(hdr.probe.a, bump(hdr.probe.a));
            both(hdr.probe.c, hdr.probe.c);
            both(hdr.stack[0].x, hdr.stack[0].x);
            part(hdr.stack[1].x[7:4], bump(hdr.stack[1].x)[3:0]);
        } else if (hdr.probe.kind == 9) {
            // `exit` in an argument: no call. Copies go back where the call is left by `return` or `exit`.
            early(hdr.probe.b, 1);
            early(hdr.probe.c, 2);
            leaver.apply(hdr.probe.d, 1);
            if (hdr.probe.a == 9) {
                store(hdr.probe.d, that_exits.apply().hit ? 8w0x60 : 8w0x60);
            }
            leaver.apply(hdr.probe.d, 2);
            hdr.probe.d = 0;
        } else if (hdr.probe.kind == 10) {
            // The place first, once.
            bit<8> i = hdr.probe.a;
            hdr.stack[i].x = bump(i);
            hdr.stack[bump(i)].x = 0x50 + i;
            i = 0;
            hdr.stack[i].x += bump(i);
            hdr.stack[bump(i) - 1].x[3:0] = (bit<4>)i;
            keep(hdr.stack[i].x, bump(i));
            hdr.probe.b = i;
            exchange(hdr.probe.c[3:0], hdr.probe.c[7:4]);
            exchange(hdr.probe.d[3:0], hdr.probe.d[3:0]);
        } else if (hdr.probe.kind == 11) {
            key = hdr.probe.b;
            if (hdr.probe.a == 0) { keys.apply(); } else { keys.apply(); }
            hdr.probe.c = key;
        } else if (hdr.probe.kind == 12) {
            // Short circuits, conditions, `switch`, ranges and lists of loops.
            if (bump(hdr.probe.a) == 1 || bump(hdr.probe.a) == 9) { hdr.probe.b = hdr.probe.a; }
            if (bump(hdr.probe.c) == 0 && bump(hdr.probe.c) == 9) { hdr.probe.b = 0; }
            hdr.probe.b = (hdr.probe.b == 1 ? bump(hdr.probe.b) : bump(hdr.probe.a)) + hdr.probe.b;
            if (hdr.probe.kind == 0 && hdr.stack[bump(hdr.probe.c)].isValid()) { hdr.probe.b = 0; }
            switch (bump(hdr.probe.d)) {
                1: { hdr.probe.d = hdr.probe.d << 4; }
                default: { hdr.probe.d = 0; }
            }
            for (bit<8> item in (list<bit<8>>){ hdr.stack[0].x, bump(hdr.stack[0].x), hdr.stack[0].x }) {
                hdr.stack[1].x = hdr.stack[1].x + item;
                hdr.stack[0].x = 0x40;
            }
            for (element_t e in stack_of(hdr.stack[2].x)) {
                hdr.stack[2].x = hdr.stack[2].x + e.x;
            }
        } else if (hdr.probe.kind == 13) {
            // Slices that begin at run time: where they begin and the place first.
            bit<8> low = 0;
            hdr.probe.a[low +: 4] = (bit<4>)bump(low);
            hdr.probe.b[low +: 4] = (bit<4>)bump(hdr.probe.b);
            hdr.probe.c[low +: 4] += (bit<4>)bump(low);
            hdr.probe.d = hdr.probe.d[low +: 4] ++ (bit<4>)bump(low);
            low = 0;
            hdr.stack[low].x[low +: 4] = (bit<4>)bump(low);
        } else if (hdr.probe.kind == 15) {
            // Calls that say where they begin, each once.
            bit<8> low = 0;
            hdr.probe.a[bump(low) +: 4] = 0xf;
            hdr.stack[bump(low) - 2].x[bump(low) +: 4] = 0;
            hdr.probe.b[bump(low) +: 4] += (bit<4>)low;
            hdr.probe.c = low;
        } else {
            for (element_t e in hdr.stack) {
                hdr.probe.b = hdr.probe.b + e.x;
                hdr.stack[1].x = 0;
                hdr.stack[2].setInvalid();
            }
            bit<8> low = hdr.probe.a;
            for (bit<8> i in low .. bump(low)) {
                hdr.probe.c = hdr.probe.c + i;
            }
            hdr.stack[bump(hdr.probe.d)].isValid();
        }
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
