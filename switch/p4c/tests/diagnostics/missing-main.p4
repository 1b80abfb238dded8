#include <v1model.p4>
header h { bit<8> a; }
