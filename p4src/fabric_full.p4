// SPDX-License-Identifier: Apache-2.0
//
// fabric_codel.p4 with what costs every packet more: the fabric with all of its mechanisms.
//
//  ingress  void_frames ─ validity ─ traffic_class ─ policing ─ ..
//  egress   .. ─ phantom_queue ─ volume_counters ─ link

#define FABRIC_TENANTS
#define FABRIC_VOLUME
#include "fabric_codel.p4"
