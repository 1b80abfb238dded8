header h { bool[3] x; }
header g { error e; }
