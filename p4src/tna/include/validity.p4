// SPDX-License-Identifier: Apache-2.0
//
// Is the packet one that may be forwarded? Sets meta.drop_reason if not; the rules of ../../include/validity.p4 as one
// table, the first entry that fits decides. Two of them differ: packets with IPv4 options are dropped, and whether the
// IPv4 packet ends beyond the frame is not known, because ingress does not get the length of the frame.

#ifndef TNA_VALIDITY_P4
#define TNA_VALIDITY_P4

#include "headers.p4"

control Validity(in headers_t hdr,
                 inout metadata_t meta,
                 in ingress_intrinsic_metadata_from_parser_t ig_prsr_md) {

    action refuse(DropReason reason) {
        meta.drop_reason = reason;
    }

    action measure() {
        meta.frame_bytes = hdr.ipv4.total_length + ETHERNET_BYTES;
    }

    @brief("what makes a packet one that is dropped; the first entry that fits decides")
    table malformed {
        key = {
            ig_prsr_md.parser_err : ternary @name("parser_err");
            hdr.arp.isValid()     : ternary @name("arp");
            hdr.ipv4.isValid()    : ternary @name("ipv4");
            hdr.ipv4.version      : ternary @name("version");
            hdr.ipv4.ihl          : range @name("ihl");
            hdr.ipv4.total_length : range @name("total_length");
            meta.checksum_error   : ternary @name("checksum_error");
            hdr.tcp.isValid()     : ternary @name("tcp");
            hdr.udp.isValid()     : ternary @name("udp");
            hdr.ebb.isValid()     : ternary @name("ebb");
            hdr.ebb.version       : ternary @name("ebb_version");
        }
        actions = {
            refuse;
            measure;
            NoAction;
        }
        const entries = {
            // parser_err, arp, ipv4, version, ihl, length, checksum is wrong, tcp, udp, ebb, version of ebb
            (0, true,  _,     _, _,     _,      _,    _,    _,    _,    _) : NoAction();
            (0, false, false, _, _,     _,      _,    _,    _,    _,    _) : refuse(DropReason.UNKNOWN_ETHERTYPE);
            (0, _,     true,  4, 0..4,  _,      _,    _,    _,    _,    _) : refuse(DropReason.IPV4_HEADER_LENGTH);
            (0, _,     true,  4, 6..15, _,      _,    _,    _,    _,    _) : refuse(DropReason.IPV4_HEADER_LENGTH);
            (0, _,     true,  4, _,     0..19,  _,    _,    _,    _,    _) : refuse(DropReason.IPV4_TOTAL_LENGTH);
            (0, _,     true,  4, _,     20..39, _,    true, _,    _,    _) : refuse(DropReason.TRUNCATED);
            (0, _,     true,  4, _,     20..27, _,    _,    true, _,    _) : refuse(DropReason.TRUNCATED);
            (0, _,     true,  4, _,     20..67, _,    _,    _,    true, _) : refuse(DropReason.TRUNCATED);
            (0, _,     true,  4, _,     _,      true, _,    _,    _,    _) : refuse(DropReason.IPV4_CHECKSUM);
            (0, _,     true,  4, _,     _,      _,    _,    _,    true, 1) : measure();
            (0, _,     true,  4, _,     _,      _,    _,    _,    true, _) : refuse(DropReason.EBB_VERSION);
            (0, _,     true,  4, _,     _,      _,    _,    _,    _,    _) : measure();
            (0, _,     true,  _, _,     _,      _,    _,    _,    _,    _) : refuse(DropReason.IPV4_VERSION);
        }
        const default_action = refuse(DropReason.TRUNCATED);    // the parser met the end of the frame
        size = 16;
    }

    apply {
        malformed.apply();
    }
}

#endif
