const int x = 1 / 0;
