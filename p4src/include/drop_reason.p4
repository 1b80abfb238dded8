// SPDX-License-Identifier: Apache-2.0
//
// Why the program dropped a packet. The counter `dropped` is indexed by these numbers; a number is never
// given a second meaning. (Drops by the queues are the target's to count.)

#ifndef DROP_REASON_P4
#define DROP_REASON_P4

enum bit<8> DropReason {
    NONE                 = 0,
    TRUNCATED            = 1,   // the frame or the IPv4 packet ends inside a header
    IPV4_VERSION         = 2,   // not 4
    IPV4_HEADER_LENGTH   = 3,   // IHL below 5
    IPV4_TOTAL_LENGTH    = 4,   // beyond the frame, or shorter than the IPv4 header
    IPV4_CHECKSUM        = 5,   // of the IPv4 header
    TTL_EXPIRED          = 6,   // the TTL was 0 or 1 when it came
    EBB_VERSION          = 7,   // of the header of NDP and SCDP: not 1
    UNKNOWN_ETHERTYPE    = 8,   // neither IPv4 nor ARP
    NO_ROUTE             = 9,   // no entry matches the destination
    ROUTE_DROP           = 10,  // the entry of the destination says drop
    ARP_UNANSWERED       = 11,  // not a request, or not for one of our addresses
    NOT_TRIMMABLE        = 12,  // its queue was full and its class is not eligible
    REPLICA_TO_SOURCE    = 13,  // multicast copy to the port it came from
    RETURN_REFUSED       = 14   // a header on its way back to the sender met a full queue too
}

#endif
