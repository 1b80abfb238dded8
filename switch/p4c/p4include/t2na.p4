// Tofino 2 Native Architecture (T2NA): TNA with more queues, mirroring and packet generation from P4, more outputs of
// stateful ALUs, and the ghost thread.
#ifndef _TOFINO2_NATIVE_ARCHITECTURE_
#define _TOFINO2_NATIVE_ARCHITECTURE_

#define EBB_TOFINO 2
// Set by the target on the command line of p4c; programs ask for it.
#ifndef __TARGET_TOFINO__
#define __TARGET_TOFINO__ 2
#endif
// Bits of the port metadata behind the first ingress header.
const bit<32> PORT_METADATA_SIZE = 192;

#include <ebb_tofino.p4>

#endif
