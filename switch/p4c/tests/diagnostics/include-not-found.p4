#include "nowhere.p4"
