// SPDX-License-Identifier: Apache-2.0
//
// fabric_codel.p4 with what costs every packet more, volume counters: the fabric with all of its mechanisms.
// docs/volume-counters.md.

#define FABRIC_VOLUME
#include "fabric_codel.p4"
