#define PORTS 8
#define PORTS 9
