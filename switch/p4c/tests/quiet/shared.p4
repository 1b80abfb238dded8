// Headers that programs share need not use all of it.
typedef bit<48> mac_t;
typedef bit<128> ip6_t;
const bit<16> TYPE_IP = 0x0800;
const bit<16> TYPE_TAG = 0x8100;
const bit<16> TYPE_ARP = 0x0806;
header ethernet_t { mac_t dst; mac_t src; bit<16> type; }
header tag_t { bit<12> id; bit<3> priority; bit<1> more; bit<16> type; }
header ip_t { bit<32> src; bit<32> dst; bit<8> ttl; bit<8> protocol; }
