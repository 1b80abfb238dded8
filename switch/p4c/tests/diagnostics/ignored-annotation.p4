#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { @field_list(1) @field_list(2) bit<8> x; }
struct set_t { @match(ternary) bit<8> a; bit<16> b; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    value_set<set_t>(4) set;
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) { set: accept; default: reject; }
    }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    @max_group_size(4) @selector_size_semantics("sum_of_weights")
    action_profile(16) profile;
    @max_member_weight(3)
    action_selector(HashAlgorithm.crc16, 128, 16) selector;
    table t {
        key = { meta.x: exact; }
        actions = { NoAction; }
        implementation = profile;
    }
    table u {
        key = { meta.x: exact; hdr.h.a: selector; }
        actions = { NoAction; }
        implementation = selector;
    }
    apply {
        t.apply();
        u.apply();
        resubmit_preserving_field_list(1);
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
@pkginfo(name = "x", versoin = "1") @platform_property(pipes = 4)
V1Switch(P(), V(), I(), E(), C(), D()) main;
