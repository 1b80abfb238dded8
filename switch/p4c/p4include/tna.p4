// Tofino Native Architecture (TNA). Names and signatures are those of the interface (Open Tofino, public edition of
// "P4_16 Tofino Native Architecture").
#ifndef _TOFINO1_NATIVE_ARCHITECTURE_
#define _TOFINO1_NATIVE_ARCHITECTURE_

#define EBB_TOFINO 1
// Set by the target on the command line of p4c; programs ask for it.
#ifndef __TARGET_TOFINO__
#define __TARGET_TOFINO__ 1
#endif
// Bits of the port metadata behind the first ingress header.
const bit<32> PORT_METADATA_SIZE = 64;

#include <ebb_tofino.p4>

#endif
