// Who sends most? A count-min sketch of three rows counts the packets of every source; the first packet of a source
// that is estimated beyond a limit tells the controller by a digest.

#include <core.p4>
#include <v1model.p4>

struct metadata_t {}

#include "../include/ipv4.p4"

const bit<32> CELLS = 1024;
// Packets after which a source is reported.
const bit<32> LIMIT = 4;
const bit<9> UPLINK = 510;

struct heavy_t {
    bit<32> source;
    bit<32> packets;
}

// One row of the sketch: counts a packet in a cell, and returns how many that has counted.
control Row(in bit<32> cell, out bit<32> packets) {
    register<bit<32>>(CELLS) counts;

    apply {
        counts.read(packets, cell);
        packets = packets + 1;
        counts.write(cell, packets);
    }
}

control HittersIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Row() row1;
    Row() row2;
    Row() row3;

    apply {
        std.egress_spec = UPLINK;
        if (hdr.ipv4.isValid()) {
            bit<32> cell;
            bit<32> estimate;
            bit<32> packets;
            // Rows differ in their hashes: sources that share a cell of one do not share those of the others.
            hash(cell, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src }, CELLS);
            row1.apply(cell, estimate);
            hash(cell, HashAlgorithm.crc16, 32w0, { hdr.ipv4.src }, CELLS);
            row2.apply(cell, packets);
            estimate = packets < estimate ? packets : estimate;
            hash(cell, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src, 8w1 }, CELLS);
            row3.apply(cell, packets);
            estimate = packets < estimate ? packets : estimate;
            // The least of the three is never below the truth, so nobody beyond the limit is missed.
            if (estimate == LIMIT) {
                digest<heavy_t>(1, { hdr.ipv4.src, estimate });
            }
        }
    }
}

V1Switch(Parse(), Verify(), HittersIngress(), NoEgress(), Update(), Deparse()) main;
