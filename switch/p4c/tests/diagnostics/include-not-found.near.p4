#include <v1modle.p4>
