//! Wire formats: Ethernet, IPv4, TCP and the receiver-driven header.
