// SPDX-License-Identifier: Apache-2.0
//
// fabric_tenants.p4 with volume counters, which cost every packet accesses to registers and multiplications: the fabric
// with all of its mechanisms.
//
//  egress   .. ─ phantom_queue ─ volume_counters ─ link

#define FABRIC_VOLUME
#include "fabric_tenants.p4"
