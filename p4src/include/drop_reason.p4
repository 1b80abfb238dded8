// SPDX-License-Identifier: Apache-2.0
//
// Why the program dropped a packet. The counter `dropped` is indexed by these numbers; a number is never
// given a second meaning. The target counts what its queues drop. The controller reads this file, a
// `NAME = number` a line; results and messages write NO_ROUTE as no-route.

#ifndef DROP_REASON_P4
#define DROP_REASON_P4

enum bit<8> DropReason {
    NONE                 = 0,
    TRUNCATED            = 1,   // the frame or the IPv4 packet ends inside a header
    IPV4_VERSION         = 2,   // the IPv4 version is not 4
    IPV4_HEADER_LENGTH   = 3,   // the IHL is below 5, which is a header of 20 bytes
    IPV4_TOTAL_LENGTH    = 4,   // the IPv4 packet ends beyond the frame, or inside its own header
    IPV4_CHECKSUM        = 5,   // the checksum of the IPv4 header is wrong
    TTL_EXPIRED          = 6,   // the TTL was 0 or 1 on arrival
    EBB_VERSION          = 7,   // the version of the header of NDP, SCDP and Trevi is not 1
    UNKNOWN_ETHERTYPE    = 8,   // the frame is neither IPv4 nor ARP
    NO_ROUTE             = 9,   // no entry matches the destination
    ROUTE_DROP           = 10,  // the entry of the destination says drop
    ARP_UNANSWERED       = 11,  // the ARP frame is no request, or not for an address of the switch
    NOT_TRIMMABLE        = 12,  // the queue was full, and the class is not eligible for trimming
    REPLICA_TO_SOURCE    = 13,  // a multicast copy would leave by the port that the packet came in by
    RETURN_REFUSED       = 14,  // a header on its way back to the sender met a full queue too
    CODEL                = 15,  // due by CoDel: packets of its queue have waited for too long
    VOID_FRAME           = 16,  // a frame by which a pacer fills the link until the next one
    NOT_CONFORMING       = 17   // beyond the guarantee or the peak rate of the sending machine
}

#endif
