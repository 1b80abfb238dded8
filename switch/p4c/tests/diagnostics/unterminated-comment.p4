#define PORTS 8 /* as many
as there are
