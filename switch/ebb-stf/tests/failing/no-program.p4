#include <core.p4>
#include <v1model.p4>

control Nothing() {
    apply { nothing(); }
}
