#ifdef A
header h { bit<8> a; }
