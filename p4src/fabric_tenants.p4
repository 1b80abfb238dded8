// SPDX-License-Identifier: Apache-2.0
//
// fabric_codel.p4 with the mechanisms for tenants, void frames and policing: two tables and a meter, which cost every
// packet something.
//
//  ingress  void_frames ─ validity ─ traffic_class ─ policing ─ ..

#define FABRIC_TENANTS
#include "fabric_codel.p4"
