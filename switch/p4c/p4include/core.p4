// The core library of P4_16 (specification, appendix "P4 core library").
#ifndef _CORE_P4_
#define _CORE_P4_

// Errors of parsing. The position in the list is the value targets store.
error {
    NoError,                // nothing went wrong
    PacketTooShort,         // extract wanted more bits than the packet has
    NoMatch,                // no case of a select matched
    StackOutOfBounds,       // header stack used beyond its ends
    HeaderTooShort,         // length of a varbit exceeds its maximum
    ParserTimeout,          // the parser ran too long
    ParserInvalidArgument   // an argument that the parser operation does not take
}

// The packet as it arrives.
extern packet_in {
    // Reads a fixed-size header and moves on.
    void extract<T>(out T hdr);
    // Reads a header whose varbit field takes the given number of bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // Reads without moving on.
    T lookahead<T>();
    // Moves on without reading.
    void advance(in bit<32> sizeInBits);
    // Packet length in bytes; not every target can tell.
    bit<32> length();
}

// The packet as it leaves.
extern packet_out {
    // Appends a header if it is valid; structs and stacks member by member.
    void emit<T>(in T hdr);
}

// Ends parsing with `toSignal` unless `check` holds.
extern void verify(in bool check, in error toSignal);

// The action that does nothing.
@noWarn("unused")
action NoAction() {}

match_kind {
    exact,
    ternary,
    lpm
}

// Checked by the compiler.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
