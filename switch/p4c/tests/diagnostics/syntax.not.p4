control I(inout bit<8> x) {
    apply { if (not x == 1) { x = 2; } }
}
