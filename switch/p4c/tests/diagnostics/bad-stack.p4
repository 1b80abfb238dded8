struct s { bit<8>[4] x; }
