extern bool static_assert(bool check, string message);
const bool ok = static_assert(1 > 2, "one is not more than two");
