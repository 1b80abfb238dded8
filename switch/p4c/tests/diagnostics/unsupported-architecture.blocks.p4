#include <core.p4>
struct Meta { bit<9> port; }
control Ingress(inout Meta meta);
package V1Switch(Ingress ingress);
control Forward(inout Meta meta) {
    apply { meta.port = 1; }
}
V1Switch(Forward()) main;
