//! The BMv2 JSON format, as data: what the compiler emits and the switch loads.
