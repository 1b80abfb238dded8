#define F(a, b) a
const int x = F(1);
