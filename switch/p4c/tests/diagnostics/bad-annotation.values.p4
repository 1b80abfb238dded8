#include <core.p4>
#include <v1model.p4>

const int LARGE = 1 << 40;
const string WORD = "word";

@p4runtime_translation("uri") type bit<9> no_type_t;
@p4runtime_translation("uri", int<8>) type bit<9> wrong_type_t;
@p4runtime_translation(WORD) type bit<9> no_uri_t;

header h_t { @name(4) bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata {
    @field_list(WORD) bit<8> x;
    @field_list(LARGE) bit<8> y;
    @field_list(MISSING) bit<8> z;
    @field_list(1, x + ) bit<8> unfinished;
}

@hidden("yes")
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    @name(start) state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    @max_group_size(-1) @selector_size_semantics(5)
    action_selector(HashAlgorithm.crc16, 128, 16) selector;
    @id(WORD) action run(@id() bit<8> data) { meta.x = data; }
    @id(1, 2) table t {
        key = { meta.x: ternary @name("a", "b"); }
        actions = { @tableonly(1) run; @defaultonly NoAction; }
        const entries = { 1: run(2) @priority(meta.x); }
    }
    apply {
        @atomic(1) { t.apply(); }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
@pkginfo(name = 4) @platform_property("x")
V1Switch(P(), V(), I(), E(), C(), D()) main;
