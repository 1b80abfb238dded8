//! BMv2 ends at its start where a direct meter has not as many cells as its table takes entries.

use crate::compiled;

const PROGRAM: &str = r#"
#include <v1model.p4>
header h_t { bit<8> f; }
struct headers { h_t h; }
struct metadata { bit<32> color; }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {} }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    direct_meter<bit<32>>(MeterType.packets) cells;
    action a() { cells.read(m.color); }
    table t {
        key = { hdr.h.f: exact; }
        actions = { a; }
        default_action = a();
        PROPERTIES
        meters = cells;
    }
    apply { t.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout metadata m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn a_direct_meter_has_as_many_cells_as_its_table() {
    let sizes = [
        ("", 1024),
        ("size = 7;", 7),
        ("const entries = { 1: a(); 2: a(); }", 2),
        ("size = 512; const entries = { 1: a(); 2: a(); }", 2),
    ];
    for (properties, size) in sizes {
        let json = compiled(&PROGRAM.replace("PROPERTIES", properties)).json;
        let table = json.pipelines[0].tables.iter().find(|t| t.name == "I.t");
        let found = (json.meter_arrays[0].size, table.and_then(|t| t.max_size));
        assert_eq!(found, (size, Some(size)), "{properties}");
    }
}
