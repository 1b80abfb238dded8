#define 1 A
#include core.p4
