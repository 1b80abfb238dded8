#include <core.p4>

struct metadata { bit<8> x; }

control I(inout metadata meta, inout standard_metadata_t sm) {
    apply { mark_to_drop(sm); }
}
